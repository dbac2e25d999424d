package java.lang;

import jdk.internal.misc.Unsafe;

/**
 * A virtual thread's open scopes as native code has them (struct dvt_jvm_virtual of virtual.c), which closes them when the thread leaves
 * its carrier and opens them where it goes on. Between two events the thread runs on one carrier, so what is read here stays so.
 */
final class DovetailVirtual {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final boolean EXIST = exist();
    private static final long LIVES = EXIST ? lives0() : 0; // where native code counts how often it lost sight of the threads
    static final int MAX = 32; // DVT_JVM_VIRTUAL_MAX

    private DovetailVirtual() {}

    private static boolean exist() {
        try {
            return Class.forName("java.lang.BaseVirtualThread", false, null) != null;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    static boolean isVirtual(Thread t) {
        return EXIST && t instanceof BaseVirtualThread;
    }

    /** For the calling virtual thread; 0: this JVM does not tell where they go. Freed at the thread's end. */
    static native long new0();

    private static native long lives0();

    static native void open0(long virtual, long trace0, long trace1, long span, long parent, int flags, long name);

    static native void openOwn0(long virtual, long name, byte[] traceparent);

    /** Takes scope i out from under those above it; it is closed by the caller. */
    static native void remove0(long virtual, int i);

    /** What the parts of scope i that are kept are labelled with. */
    static native void labels0(long virtual, int i, byte[][] labels);

    static long slot(long virtual) {
        return U.getLong(null, virtual);
    }

    static void pop(long virtual, int to) {
        U.putLong(null, virtual + 8, to);
    }

    /** 0: the scope is not open on this carrier. */
    static long serial(long virtual, int i) {
        boolean isFollowed = U.getLong(null, virtual + 16) == U.getLongAcquire(null, LIVES);
        return isFollowed ? U.getLong(null, virtual + 24 + 8L * i) : 0;
    }
}
