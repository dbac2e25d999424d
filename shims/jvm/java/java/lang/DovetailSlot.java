package java.lang;

import jdk.internal.misc.Unsafe;

/**
 * A thread's struct dvt_slot (shims/core/slot.h), as far as closing a scope in which no sample fell needs it: that is done here, by
 * the steps of dvt_scope_drop_fast (shims/core/scope.h) and in their order, without a native call. What is unusual is left to
 * native code. Opaque accesses are the compiler fences of the C code: the signal handler looks on.
 */
final class DovetailSlot {
    private static final Unsafe U = Unsafe.getUnsafe();

    // Offsets and constants, in the order of natives.c.
    private static final long[] L = layout0();
    private static final long HEAD_PTR = L[0], EPOCH_WORD = L[1], DEPTH = L[2], REMOTE_PENDING = L[3], OVERFLOW = L[4];
    private static final long ARENA_TOP = L[5], ROOT_HEAD = L[6], DROPPED_BY = L[7], FRAMES = L[8], FRAME_BYTES = L[9];
    private static final long F_SERIAL = L[10], F_HEAD_OPEN = L[11], F_DROP_WORD = L[12], F_FLAGS = L[13], F_ARENA_AT = L[14];
    private static final long F_NAME = L[15], NAME_ID = L[16], ROOT_NONE = L[17], RECORDING = L[18];
    private static final int ANNOUNCED = (int) L[19];

    private DovetailSlot() {}

    private static native long[] layout0();

    /** The calling thread's, made if need be; 0: no memory. */
    static native long here0();

    /** Opens a scope on the calling thread: its serial, or 0. Ids are bytes as in memory; name is a struct dvt_name *, or 0. */
    static native long open0(long trace0, long trace1, long span, long parent, int flags, long name);

    /** The same for a scope of the application's own: a child of what is open, or the root of a new trace; or by its traceparent. */
    static native long openOwn0(long name);

    static native long openRemote0(long name, byte[] traceparent);

    /** The traceparent of the thread's innermost open scope, or null. */
    static native String traceparent0();

    /** The close that is not plain. True: the scope is kept, and waits for commit0. */
    static native boolean close0(long slot, long serial, long name);

    /** labels: key, value, key, value, ... in UTF-8; links: traceparents; any of them may be null. */
    static native void commit0(long slot, long serial, byte[] name, byte[][] labels, byte[][] links);

    /** Has the open scope kept in any case. */
    static native void always0(long slot, long serial);

    static boolean isRecording() {
        return U.getIntOpaque(null, RECORDING) != 0;
    }

    /** What is so already is not stored: a scope is as dear as its stores, for which the next native call waits. */
    private static void setInt(long at, int value) {
        if (U.getInt(null, at) != value)
            U.putInt(null, at, value);
    }

    /** Closes the slot's innermost scope if it is this one and no sample fell inside. False: not so, nothing was done. Own thread only. */
    static boolean drop(long slot, long serial) {
        int depth = U.getInt(null, slot + DEPTH);
        long f = slot + FRAMES + (depth - 1) * FRAME_BYTES;
        if (depth == 0 || U.getInt(null, slot + REMOTE_PENDING) != 0 || U.getLong(null, f + F_SERIAL) != serial)
            return false;
        int word = U.getIntAcquire(null, slot + EPOCH_WORD);
        long head = U.getLongAcquire(null, U.getLongAcquire(null, slot + HEAD_PTR));
        if (head != U.getLong(null, f + F_HEAD_OPEN) || word != U.getInt(null, f + F_DROP_WORD))
            return false;
        U.putIntOpaque(null, slot + DEPTH, depth - 1);
        if ((U.getIntOpaque(null, f + F_FLAGS) & ANNOUNCED) != 0) { // what was announced must be told again
            U.putIntOpaque(null, slot + DEPTH, depth);
            return false;
        }
        long name = U.getLong(null, f + F_NAME);
        long by = slot + DROPPED_BY + 4L * (name == 0 ? 0 : U.getInt(null, name + NAME_ID));
        U.putInt(null, by, U.getInt(null, by) + 1);
        setInt(slot + ARENA_TOP, U.getInt(null, f + F_ARENA_AT));
        setInt(slot + OVERFLOW, 0);
        if (depth == 1)
            U.putLongRelease(null, slot + ROOT_HEAD, ROOT_NONE);
        return true;
    }
}
