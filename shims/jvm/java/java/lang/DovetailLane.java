package java.lang;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * A thread's stack of scopes: what is current, and what was before it. The rules, for a new current context:
 * it is in the stack already: what is above it is closed; it comes by a restore and is not: all is closed and it is opened; else it is
 * opened, nested. A context without a span closes all.
 */
public final class DovetailLane {
    private static final int MAX = 128;
    private static final int ROOT = 2, REMOTE_PARENT = 4, UNSAMPLED = 64; // enum dvt_scope_flags
    private static final ThreadLocal<DovetailLane> LANES = new ThreadLocal<>();

    private final Object[] keys = new Object[MAX];
    private final Object[] spans = new Object[MAX];
    private final long[] serials = new long[MAX];
    private int n;
    private boolean busy;

    private long trace0, trace1, span, parent;
    private int flags;

    private DovetailLane() {}

    static native DovetailReader reader0(ThreadLocal<?> local);
    static native long open0(long trace0, long trace1, long span, long parent, int flags);
    /** True: kept, and to be committed. */
    static native boolean close0(long serial);
    static native void commit0(long serial, byte[] name);

    static volatile ThreadLocal<?> boundTo;
    static volatile DovetailReader reader;

    private static DovetailReader reader(ThreadLocal<?> local) {
        if (boundTo != local) {
            reader = reader0(local);
            boundTo = local;
        }
        return reader;
    }

    static void follow(ThreadLocal<?> local, Object context, boolean back) {
        try {
            DovetailLane lane = LANES.get();
            if (lane == null)
                LANES.set(lane = new DovetailLane());
            lane.changed(reader(local), context, back);
        } catch (Throwable t) {
            // Never the application's concern.
        }
    }

    private void changed(DovetailReader reader, Object context, boolean back) {
        if (busy || reader == null)
            return;
        busy = true;
        try {
            Object s = context == null ? null : reader.span(context);
            int found = s == null ? 0 : find(context);
            if (s == null || found > 0 || back)
                popTo(found);
            if (s == null || found > 0)
                return;
            parent = 0;
            reader.ids(s, this);
            DovetailSpan.of(s.getClass()).parent(s, this);
            push(context, s);
        } finally {
            busy = false;
        }
    }

    private int find(Object key) {
        int i = n;
        while (i > 0 && keys[i - 1] != key)
            i--;
        return i;
    }

    private void popTo(int to) {
        while (n > to) {
            Object s = spans[--n];
            keys[n] = spans[n] = null;
            if (close0(serials[n]))
                commit(serials[n], s);
        }
    }

    private static void commit(long serial, Object span) {
        byte[] name = null;
        try {
            String text = DovetailSpan.of(span.getClass()).name(span);
            name = text == null ? null : text.getBytes(UTF_8);
        } finally {
            commit0(serial, name);
        }
    }

    private void push(Object key, Object s) {
        if (n == MAX)
            popTo(n - 1);
        serials[n] = open0(trace0, trace1, span, parent, flags);
        spans[n] = s;
        keys[n++] = key;
    }

    /** From hex, as OpenTelemetry has them. */
    public void ids(String trace, String spanId, boolean sampled, boolean remote) {
        trace0 = bytes(trace, 0);
        trace1 = bytes(trace, 16);
        span = bytes(spanId, 0);
        flags = sampled ? 0 : UNSAMPLED;
        if (remote) { // this thread works for its trace, in no span of its own yet
            parent(spanId, true);
            span = 0;
        }
    }

    public void parent(String spanId, boolean remote) {
        parent = bytes(spanId, 0);
        if (remote)
            flags |= REMOTE_PARENT;
    }

    public void root() {
        flags |= ROOT;
    }

    private static long bytes(String hex, int from) {
        return Long.reverseBytes(Long.parseUnsignedLong(hex.substring(from, from + 16), 16));
    }
}
