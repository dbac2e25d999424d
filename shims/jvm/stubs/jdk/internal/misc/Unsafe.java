package jdk.internal.misc;

public final class Unsafe {
    public static native Unsafe getUnsafe();
    public native long objectFieldOffset(Class<?> c, String name);
    public native long objectFieldOffset(java.lang.reflect.Field f);

    public native Object getReference(Object base, long at);
    public native byte getByte(Object base, long at);
    public native int getInt(Object base, long at);
    public native int getIntOpaque(Object base, long at);
    public native int getIntAcquire(Object base, long at);
    public native void putInt(Object base, long at, int value);
    public native void putIntOpaque(Object base, long at, int value);
    public native void putIntRelease(Object base, long at, int value);
    public native long getLong(Object base, long at);
    public native long getLongAcquire(Object base, long at);
    public native void putLong(Object base, long at, long value);
    public native void putLongRelease(Object base, long at, long value);
}
