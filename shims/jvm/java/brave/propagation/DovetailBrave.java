package brave.propagation;

import brave.baggage.BaggageField;

/** What Brave's ThreadLocalCurrentTraceContext calls in place of ThreadLocal.set. A TraceContext does not know its span's name. */
public final class DovetailBrave extends DovetailSource {
    private static final DovetailBrave SOURCE = new DovetailBrave();

    private DovetailBrave() {}

    public static void enter(ThreadLocal<Object> local, Object context) {
        local.set(context);
        try {
            DovetailLane lane = DovetailLane.here();
            if (lane != null)
                follow(lane, (TraceContext) context);
        } catch (Throwable t) {
            // Never the application's concern.
        }
    }

    public static void restore(ThreadLocal<Object> local, Object context) {
        local.set(context);
        try {
            DovetailLane lane = DovetailLane.here();
            if (lane != null && !lane.restore(SOURCE, context))
                follow(lane, (TraceContext) context);
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

    private static void follow(DovetailLane lane, TraceContext c) {
        if (c == null) {
            lane.clear(SOURCE);
            return;
        }
        if (lane.ids(c.traceIdHigh(), c.traceId(), c.spanId(), !Boolean.FALSE.equals(c.sampled()))) {
            if (c.parentIdAsLong() == 0)
                lane.root();
            else
                lane.parent(c.parentIdAsLong(), c.isLocalRoot());
        }
        lane.enter(SOURCE, c);
    }

    @Override
    public String name(Object key) {
        return null;
    }

    @Override
    public String baggage(Object key, String name) {
        TraceContext c = (TraceContext) key;
        BaggageField field = BaggageField.getByName(c, name);
        return field == null ? null : field.getValue(c);
    }
}
