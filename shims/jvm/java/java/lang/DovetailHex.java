package java.lang;

import static java.nio.charset.StandardCharsets.US_ASCII;

import jdk.internal.misc.Unsafe;

/** Ids from hex, out of a string's own characters where the JVM has them in bytes, which it has unless it was told not to. */
final class DovetailHex {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final long VALUE = U.objectFieldOffset(String.class, "value"), CODER = U.objectFieldOffset(String.class, "coder");
    private static final long BYTES = bytesOffset();
    private static final byte LATIN1 = 0;

    private DovetailHex() {}

    /** Where a byte[] begins: an int in older JDKs, a long in newer ones. */
    private static long bytesOffset() {
        try {
            return Unsafe.class.getField("ARRAY_BYTE_BASE_OFFSET").getLong(null);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** The string's characters; null if it has not n. Not to be written to. */
    static byte[] of(String text, int n) {
        if (text == null || text.length() != n)
            return null;
        return U.getByte(text, CODER) == LATIN1 ? (byte[]) U.getReference(text, VALUE) : text.getBytes(US_ASCII);
    }

    /** Sixteen digits as eight bytes in memory; of null 0. */
    static long at(byte[] hex, int at) {
        return hex == null ? 0 : half(U.getLong(hex, BYTES + at)) | half(U.getLong(hex, BYTES + at + 8)) << 32;
    }

    /** Eight digits as four bytes, all at once: in each byte the digit's value, then pairs moved together. */
    private static long half(long c) {
        long v = (c & 0x0f0f0f0f0f0f0f0fL) + (c >>> 6 & 0x0101010101010101L) * 9;
        v = (v << 4 | v >>> 8) & 0x00ff00ff00ff00ffL;
        v = (v | v >>> 8) & 0x0000ffff0000ffffL;
        return (v | v >>> 16) & 0xffffffffL;
    }
}
