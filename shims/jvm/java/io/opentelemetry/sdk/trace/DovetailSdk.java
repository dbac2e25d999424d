package io.opentelemetry.sdk.trace;

import io.opentelemetry.api.trace.SpanContext;

/** Reads the spans of OpenTelemetry's SDK. */
public final class DovetailSdk extends DovetailSpan {
    @Override
    public String name(Object span) {
        return ((ReadableSpan) span).getName();
    }

    @Override
    public void parent(Object span, DovetailLane lane) {
        SpanContext p = ((ReadableSpan) span).getParentSpanContext();
        if (p != null && p.isValid())
            lane.parent(p.getSpanId(), p.isRemote());
        else
            lane.root();
    }
}
