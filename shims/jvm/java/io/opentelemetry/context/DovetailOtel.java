package io.opentelemetry.context;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;

/** Reads OpenTelemetry's contexts. */
public final class DovetailOtel extends DovetailReader {
    @Override
    public Object span(Object context) {
        return Span.fromContextOrNull((Context) context);
    }

    @Override
    public void ids(Object span, DovetailLane lane) {
        SpanContext c = ((Span) span).getSpanContext();
        lane.ids(c.getTraceId(), c.getSpanId(), c.isSampled(), c.isRemote());
    }
}
