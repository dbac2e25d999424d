package io.opentelemetry.sdk.trace;

import io.opentelemetry.api.trace.SpanContext;

public interface ReadableSpan {
    SpanContext getParentSpanContext();
    String getName();
}
