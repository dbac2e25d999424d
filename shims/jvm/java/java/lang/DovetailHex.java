package java.lang;

import static java.nio.charset.StandardCharsets.US_ASCII;

import jdk.internal.misc.Unsafe;

/**
 * The ids of a span as they were told last: sixteen digits in two words of eight characters, which are compared and only if they
 * differ made numbers of. Read out of a string's own characters where the JVM has them in bytes, which it has unless told not to.
 */
final class DovetailHex {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final long VALUE = U.objectFieldOffset(String.class, "value"), CODER = U.objectFieldOffset(String.class, "coder");
    private static final long BYTES = bytesOffset();
    private static final byte LATIN1 = 0;

    private long t0, t1, t2, t3, s0, s1;

    /** Where a byte[] begins: an int in older JDKs, a long in newer ones. */
    private static long bytesOffset() {
        try {
            return Unsafe.class.getField("ARRAY_BYTE_BASE_OFFSET").getLong(null);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** False if these are the ids that were taken last. What has not as many digits as it must is zero. */
    boolean take(String trace, String span) {
        byte[] t = characters(trace, 32), s = characters(span, 16);
        if (t == null || s == null) {
            forget();
            return true;
        }
        long a = word(t, 0), b = word(t, 8), c = word(t, 16), d = word(t, 24), e = word(s, 0), f = word(s, 8);
        if (e == s0 && f == s1 && a == t0 && b == t1 && c == t2 && d == t3)
            return false;
        t0 = a;
        t1 = b;
        t2 = c;
        t3 = d;
        s0 = e;
        s1 = f;
        return true;
    }

    /** No ids are these. */
    void forget() {
        t0 = t1 = t2 = t3 = s0 = s1 = 0;
    }

    long trace0() {
        return bytes(t0, t1);
    }

    long trace1() {
        return bytes(t2, t3);
    }

    long span() {
        return bytes(s0, s1);
    }

    /** A span's id, or 0. */
    static long span(String text) {
        byte[] s = characters(text, 16);
        return s == null ? 0 : bytes(word(s, 0), word(s, 8));
    }

    /** Null if it has not n. Not to be written to. */
    private static byte[] characters(String text, int n) {
        if (text == null || text.length() != n)
            return null;
        return U.getByte(text, CODER) == LATIN1 ? (byte[]) U.getReference(text, VALUE) : text.getBytes(US_ASCII);
    }

    private static long word(byte[] characters, int at) {
        return U.getLong(characters, BYTES + at);
    }

    /** Sixteen digits as eight bytes in memory. */
    private static long bytes(long a, long b) {
        return half(a) | half(b) << 32;
    }

    /** Eight digits as four bytes, all at once: in each byte the digit's value, then pairs moved together. */
    private static long half(long c) {
        long v = (c & 0x0f0f0f0f0f0f0f0fL) + (c >>> 6 & 0x0101010101010101L) * 9;
        v = (v << 4 | v >>> 8) & 0x00ff00ff00ff00ffL;
        v = (v | v >>> 8) & 0x0000ffff0000ffffL;
        return (v | v >>> 16) & 0xffffffffL;
    }
}
