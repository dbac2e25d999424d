"""Dovetail: says which request this thread is working for, so that a profile can be cut by trace.

    with dovetail.scope("checkout", tenant="acme", traceparent=header):
        ...

With OpenTelemetry nothing is needed but the import (or `dovetail run`): current spans are scopes. With no
daemon all of this does nothing, cheaply. Nothing here raises into the application: dovetail.status() tells.
"""
from ._traceparent import Traceparent, format_traceparent, parse_traceparent

__all__ = ["scope", "label", "traceparent", "status", "parse_traceparent", "format_traceparent",
           "Traceparent"]

try:
    from ._dovetail import label, scope, status, traceparent
except Exception as error:  # no build for this interpreter, or a damaged one
    from . import _inert
    from ._inert import label, scope, status, traceparent
    _inert.reason = f"{type(error).__name__}: {error}"
    _attach, _detach = _inert.attach, _inert.detach
else:
    from ._life import attach as _attach, detach as _detach, start as _start

    _start()
    del _start
