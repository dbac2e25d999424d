"""The pricing service's tracing by Dovetail's own API."""
import dovetail


def request(name, headers):
    """A request that came in; its trace goes on."""
    return dovetail.scope(name, traceparent=headers.get("traceparent"))


def part(name):
    return dovetail.scope(name)
