package io.dovetail;

/**
 * A stretch of the calling thread's work for one trace, for code without OpenTelemetry:
 *
 * <pre>
 * try (Scope s = Scope.open("GET /quote", request.getHeader("traceparent")).label("tenant", "acme")) {
 *     ...
 * }
 * </pre>
 *
 * It nests in what is current. Without Dovetail's agent all of this does nothing.
 */
public final class Scope implements AutoCloseable {
    private final Object lane; // a DovetailLane, which is a class only where the agent is; or null
    private long handle;

    private Scope(Object lane, long handle) {
        this.lane = lane;
        this.handle = handle;
    }

    /** Opens a scope: a child of the current one, or the root of a new trace. */
    public static Scope open(String name) {
        return open(name, null);
    }

    /** Opens a scope of an incoming trace. traceparent is the W3C header; null or a bad one is as if there were none. */
    public static Scope open(String name, String traceparent) {
        if (!Dovetail.live)
            return new Scope(null, 0);
        DovetailLane lane = DovetailLane.here();
        return lane == null ? new Scope(null, 0) : new Scope(lane, lane.open(name, traceparent));
    }

    /** Labels the scope: it counts from its start. The last value of a key counts. */
    public Scope label(String key, String value) {
        DovetailExtra extra = extra();
        if (extra != null)
            extra.label(key, value);
        return this;
    }

    /** Keeps the scope even if no sample falls inside. */
    public Scope always() {
        if (handle != 0)
            ((DovetailLane) lane).always(handle);
        return this;
    }

    /** The scope also works for the trace of this traceparent: one batch for many requests. */
    public Scope link(String traceparent) {
        DovetailExtra extra = extra();
        if (extra != null)
            extra.link(traceparent);
        return this;
    }

    private DovetailExtra extra() {
        return handle == 0 ? null : ((DovetailLane) lane).extra(handle);
    }

    /** Closes it; only the first time. Best on the thread that opened it: elsewhere it counts as misuse. */
    @Override
    public void close() {
        if (handle == 0)
            return;
        ((DovetailLane) lane).close(handle);
        handle = 0;
    }
}
