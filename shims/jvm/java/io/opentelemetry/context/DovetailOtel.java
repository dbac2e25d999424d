package io.opentelemetry.context;

import io.opentelemetry.api.baggage.Baggage;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;

/** What OpenTelemetry's ThreadLocalContextStorage calls in place of ThreadLocal.set. */
public final class DovetailOtel extends DovetailSource {
    private static final DovetailOtel SOURCE = new DovetailOtel();

    private DovetailOtel() {}

    public static void enter(ThreadLocal<Object> local, Object context) {
        local.set(context);
        try {
            DovetailLane lane = DovetailLane.here();
            if (lane != null)
                follow(lane, context);
        } catch (Throwable t) {
            // Never the application's concern.
        }
    }

    public static void restore(ThreadLocal<Object> local, Object context) {
        local.set(context);
        try {
            DovetailLane lane = DovetailLane.here();
            if (lane != null && !lane.restore(SOURCE, context))
                follow(lane, context);
        } catch (Throwable t) {
            // As above.
        }
    }

    public static void clear(ThreadLocal<Object> local) {
        local.remove();
        try {
            DovetailLane lane = DovetailLane.here();
            if (lane != null)
                lane.clear(SOURCE);
        } catch (Throwable t) {
            // As above.
        }
    }

    private static void follow(DovetailLane lane, Object context) {
        Span span = Span.fromContextOrNull((Context) context);
        if (span != null)
            read(lane, span);
        if (span != null && lane.isValid())
            lane.enter(SOURCE, context);
        else
            lane.clear(SOURCE);
    }

    private static void read(DovetailLane lane, Span span) {
        SpanContext c = span.getSpanContext();
        if (lane.ids(c.getTraceId(), c.getSpanId(), c.isSampled(), c.isRemote()))
            DovetailSpan.of(span).tell(span, lane);
    }

    @Override
    public String name(Object key) {
        Span span = Span.fromContextOrNull((Context) key);
        return span == null ? null : DovetailSpan.of(span).name(span);
    }

    @Override
    public String baggage(Object key, String name) {
        return Baggage.fromContext((Context) key).getEntryValue(name);
    }
}
