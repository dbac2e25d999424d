package io.opentelemetry.sdk.trace;

import io.opentelemetry.api.trace.SpanContext;

/** Reads the spans of OpenTelemetry's SDK. */
public final class DovetailSdk extends DovetailSpan {
    @Override
    public String name(Object span) {
        return ((ReadableSpan) span).getName();
    }

    @Override
    public void tell(Object span, DovetailLane lane) {
        ReadableSpan s = (ReadableSpan) span;
        SpanContext parent = s.getParentSpanContext();
        lane.name(glanceAtName(span));
        if (parent != null && parent.isValid())
            lane.parent(parent.getSpanId(), parent.isRemote());
        else
            lane.root();
    }
}
