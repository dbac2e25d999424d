package io.opentelemetry.api.trace;

public interface SpanContext {
    String getTraceId();
    String getSpanId();
    boolean isValid();
    boolean isSampled();
    boolean isRemote();
}
