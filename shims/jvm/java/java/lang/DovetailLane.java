package java.lang;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * A thread's stack of scopes: what is current, and what was before. Tracers tell what becomes current: an entered context is opened
 * inside what is there; a restored one is looked for, what is above it is closed, and if it is not there all of the tracer's are closed
 * and it is opened. So closes out of order mean what they mean to the tracer, and a context that was current before the agent came
 * is found. A scope of the application's own closes by itself, wherever it is in the stack.
 */
public final class DovetailLane {
    private static final int MAX = 120; // below DVT_MAX_DEPTH
    private static final byte OWN = 0;
    private static final int ROOT = 2, REMOTE_PARENT = 4, UNSAMPLED = 64; // enum dvt_scope_flags
    private static final ThreadLocal<DovetailLane> LANES = new ThreadLocal<>();
    private static final String[] BAGGAGE = baggage0();

    private final Thread thread = Thread.currentThread();
    private final long virtual; // a virtual thread's scopes (DovetailVirtual); 0: a platform thread, whose slot this is:
    private final long slot;
    private final int max;
    // Of each open scope. As few references as can be: each store of one runs the collector's barrier, G1's at times with a fence.
    private final byte[] sources; // DovetailSource.number, or OWN
    private final Object[] keys; // of a tracer's scopes
    private final DovetailExtra[] extras; // what the application told of a scope
    private final long[] serials; // of a virtual thread handles, since the serials change. 0: no scope was opened
    private long handles;
    private boolean busy; // asking a tracer, whose answer must not move the stack
    private int n;
    private long[] closedElsewhere; // serials of own scopes closed by other threads, under the lane's lock

    // What there is to know of the span that was told last.
    private long trace0, trace1, id, parent, name;
    private int flags;
    private final DovetailHex hex = new DovetailHex(); // of the same, if it was told in hex

    private DovetailLane(boolean isVirtual) {
        virtual = isVirtual ? DovetailVirtual.new0() : 0;
        slot = isVirtual ? 0 : DovetailSlot.here0();
        max = isVirtual ? DovetailVirtual.MAX : MAX;
        sources = new byte[max];
        keys = new Object[max];
        extras = new DovetailExtra[max];
        serials = new long[max];
    }

    private static native String[] baggage0();

    /** The calling thread's, or null where there is nothing to do. */
    public static DovetailLane here() {
        DovetailLane lane = LANES.get();
        if (lane == null)
            return DovetailSlot.isRecording() ? make() : null;
        return !lane.busy && (lane.n > 0 || DovetailSlot.isRecording()) ? lane : null;
    }

    private static DovetailLane make() {
        DovetailLane lane = new DovetailLane(DovetailVirtual.isVirtual(Thread.currentThread()));
        if (lane.slot == 0 && lane.virtual == 0)
            return null;
        LANES.set(lane);
        return lane;
    }

    /** Tells the ids of a span, from hex. True: its parent or root, and its name, must follow; they are not known yet. */
    public boolean ids(String trace, String spanId, boolean isSampled, boolean isRemote) {
        boolean isNew = hex.take(trace, spanId);
        if (!isNew && !isRemote && isKnown(isSampled))
            return false;
        begin(hex.trace0(), hex.trace1(), isRemote ? 0 : hex.span(), isSampled);
        if (isRemote) { // this thread works for its trace, in no span of its own yet
            parent = hex.span();
            flags |= REMOTE_PARENT;
        }
        return true;
    }

    /** The same from numbers. */
    public boolean ids(long traceHigh, long trace, long spanId, boolean isSampled) {
        long t0 = Long.reverseBytes(traceHigh), t1 = Long.reverseBytes(trace), of = Long.reverseBytes(spanId);
        if (of == id && t1 == trace1 && t0 == trace0 && isKnown(isSampled))
            return false;
        hex.forget();
        begin(t0, t1, of, isSampled);
        return true;
    }

    private boolean isKnown(boolean isSampled) {
        return id != 0 && (parent | flags & ROOT) != 0 && (flags & UNSAMPLED) == (isSampled ? 0 : UNSAMPLED);
    }

    private void begin(long t0, long t1, long of, boolean isSampled) {
        trace0 = t0;
        trace1 = t1;
        id = of;
        flags = isSampled ? 0 : UNSAMPLED;
        parent = name = 0;
    }

    /** Whether the span that was told last works for a trace at all. */
    public boolean isValid() {
        return (trace0 | trace1) != 0;
    }

    public void parent(String spanId, boolean isRemote) {
        parent = DovetailHex.span(spanId);
        if (isRemote)
            flags |= REMOTE_PARENT;
    }

    public void parent(long spanId, boolean isRemote) {
        parent = Long.reverseBytes(spanId);
        if (isRemote)
            flags |= REMOTE_PARENT;
    }

    public void root() {
        flags |= ROOT;
    }

    public void name(String text) {
        name = text == null ? 0 : DovetailNames.of(text);
    }

    /** Opens a scope of the span that was told last. */
    public void enter(DovetailSource source, Object key) {
        if (source.number == OWN) // one of too many
            return;
        makeRoom();
        if (virtual != 0)
            DovetailVirtual.open0(virtual, trace0, trace1, id, parent, flags, name);
        keys[n] = key;
        push(source.number, virtual != 0 ? ++handles : DovetailSlot.open0(trace0, trace1, id, parent, flags, name));
        if (virtual != 0 && BAGGAGE.length > 0)
            DovetailVirtual.labels0(virtual, n - 1, labels(source, key, null));
    }

    private void makeRoom() {
        if (closedElsewhere != null)
            sweep();
        if (n == max)
            popTo(n - 1);
    }

    private void push(byte source, long serial) {
        if (sources[n] != source)
            sources[n] = source;
        serials[n++] = serial;
    }

    /** The context is current again. False: it is not in the stack, and of this source nothing is any more. */
    public boolean restore(DovetailSource source, Object key) {
        int i = n - 1, to = n; // an own scope belongs to the context that it was opened in
        for (; i >= 0 && !(keys[i] == key && sources[i] == source.number); i--)
            if (sources[i] != OWN)
                to = i;
        if (i < 0 || key == null) {
            clear(source);
            return key == null;
        }
        popTo(to);
        return true;
    }

    /** Nothing of this source is current. */
    public void clear(DovetailSource source) {
        int i = source.number == OWN ? n : 0;
        while (i < n && sources[i] != source.number)
            i++;
        popTo(i);
    }

    // ---- the application's own scopes ----

    /** Opens one, inside what is current: its handle. It closes before the context that it was opened in. */
    public long open(String text, String traceparent) {
        makeRoom();
        long named = text == null ? 0 : DovetailNames.of(text);
        if (virtual != 0)
            DovetailVirtual.openOwn0(virtual, named, ascii(traceparent));
        long serial = virtual != 0 ? ++handles : traceparent == null ? DovetailSlot.openOwn0(named)
            : DovetailSlot.openRemote0(named, ascii(traceparent));
        if (serial != 0) // else nothing is recorded, and nobody will close it
            push(OWN, serial);
        return serial;
    }

    /** Closes one, on whatever thread. */
    public void close(long serial) {
        if (thread != Thread.currentThread()) {
            closeElsewhere(serial);
            return;
        }
        int i = n - 1;
        if (i >= 0 && serials[i] == serial)
            pop(i);
        else if ((i = find(serial)) >= 0)
            remove(i);
    }

    private int find(long serial) {
        int i = n - 1;
        while (i >= 0 && serials[i] != serial)
            i--;
        return i;
    }

    /** Of the open scope with this handle, or of the innermost (0). Null: there is none, or it is another thread's. */
    public DovetailExtra extra(long serial) {
        if (thread != Thread.currentThread())
            return null;
        int i = serial == 0 ? n - 1 : find(serial);
        if (i < 0)
            return null;
        if (extras[i] == null)
            extras[i] = new DovetailExtra(virtual, i);
        return extras[i];
    }

    public void always(long serial) {
        int i = thread == Thread.currentThread() ? find(serial) : -1;
        if (i >= 0)
            DovetailSlot.always0(slotNow(), serialNow(i));
    }

    private void remove(int i) {
        finish(i, serialNow(i));
        int rest = --n - i;
        System.arraycopy(sources, i + 1, sources, i, rest);
        System.arraycopy(keys, i + 1, keys, i, rest);
        System.arraycopy(extras, i + 1, extras, i, rest);
        System.arraycopy(serials, i + 1, serials, i, rest);
        forget(n);
        if (virtual != 0)
            DovetailVirtual.remove0(virtual, i);
    }

    private synchronized void closeElsewhere(long serial) {
        if (virtual == 0)
            DovetailSlot.close0(slot, serial, 0); // left for the owner
        long[] old = closedElsewhere;
        long[] now = old == null ? new long[1] : java.util.Arrays.copyOf(old, old.length + 1);
        now[now.length - 1] = serial;
        closedElsewhere = now;
    }

    private synchronized void sweep() {
        for (long serial : closedElsewhere) {
            int i = find(serial);
            if (i >= 0 && virtual != 0)
                remove(i);
            else if (i >= 0)
                serials[i] = 0; // it goes with what is around it
        }
        closedElsewhere = null;
        while (virtual == 0 && n > 0 && serials[n - 1] == 0)
            forget(--n);
    }

    // ---- closing ----

    private void forget(int i) {
        if (sources[i] != OWN)
            keys[i] = null;
        if (extras[i] != null)
            extras[i] = null;
    }

    private long slotNow() {
        return virtual == 0 ? slot : DovetailVirtual.slot(virtual);
    }

    private long serialNow(int i) {
        return virtual == 0 ? serials[i] : DovetailVirtual.serial(virtual, i);
    }

    private void popTo(int to) {
        while (n > to)
            pop(n - 1);
    }

    /** Closes the innermost. */
    private void pop(int i) {
        n = i;
        if (virtual != 0 || !DovetailSlot.drop(slot, serials[i]))
            popUnusual(i);
        forget(i);
    }

    private void popUnusual(int i) {
        long serial = serialNow(i);
        if (serial != 0 && !DovetailSlot.drop(slotNow(), serial))
            finish(i, serial);
        if (virtual != 0)
            DovetailVirtual.pop(virtual, i);
    }

    /** The close that is not a plain drop. */
    private void finish(int i, long serial) {
        DovetailSource source = DovetailSource.at(sources[i]);
        DovetailExtra extra = extras[i];
        String now = null;
        byte[][] labels = null;
        busy = true;
        try {
            now = source == null ? null : source.name(keys[i]); // may have changed, as web frameworks name a span after routing
            labels = labels(source, keys[i], extra);
        } catch (Throwable t) {
            // Then it keeps the name it had, and has no labels.
        } finally {
            busy = false;
        }
        byte[][] links = extra == null ? null : extra.links();
        long named = now == null ? 0 : DovetailNames.of(now);
        byte[] text = utf8(now);
        if (virtual != 0) // all of that may have blocked, and moved the thread
            serial = DovetailVirtual.serial(virtual, i);
        if (serial != 0 && DovetailSlot.close0(slotNow(), serial, named))
            DovetailSlot.commit0(slotNow(), serial, text, labels, links);
    }

    private static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(UTF_8);
    }

    private static byte[] ascii(String text) {
        return text == null ? null : text.getBytes(US_ASCII);
    }

    /** The application's own first: of a key that comes twice, the first counts. */
    static byte[][] labels(DovetailSource source, Object key, DovetailExtra extra) {
        int own = extra == null ? 0 : extra.n;
        byte[][] labels = new byte[own + 2 * BAGGAGE.length][];
        for (int i = 0; i < own; i++)
            labels[i] = utf8(extra.labels[i]);
        for (int i = 0; i < BAGGAGE.length; i++) {
            labels[own + 2 * i] = utf8(BAGGAGE[i]);
            labels[own + 2 * i + 1] = source == null ? null : utf8(source.baggage(key, BAGGAGE[i]));
        }
        return labels;
    }
}
