"""dovetail.scope as a decorator: each call of the function has a scope of its own."""
import functools
import inspect


def decorate(scope, function):
    if inspect.iscoroutinefunction(function):
        @functools.wraps(function)
        async def call(*args, **kwargs):
            with scope._copy():
                return await function(*args, **kwargs)
    elif inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        # The body runs in its consumer's steps and context: it has no stretch of its own to mark.
        raise TypeError("dovetail.scope cannot decorate a generator; use `with` where it is consumed")
    else:
        @functools.wraps(function)
        def call(*args, **kwargs):
            with scope._copy():
                return function(*args, **kwargs)
    return call
