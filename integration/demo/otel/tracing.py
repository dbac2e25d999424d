"""The pricing service's tracing by OpenTelemetry; of Dovetail it knows nothing."""
import contextlib

from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("pricing")


@contextlib.contextmanager
def request(name, headers):
    """A request that came in; its trace goes on."""
    token = context.attach(propagate.extract(headers))
    try:
        with tracer.start_as_current_span(name, kind=trace.SpanKind.SERVER):
            yield
    finally:
        context.detach(token)


def part(name):
    return tracer.start_as_current_span(name)
