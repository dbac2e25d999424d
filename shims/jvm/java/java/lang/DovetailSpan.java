package java.lang;

import java.lang.reflect.Field;

import jdk.internal.misc.Unsafe;

/** Reads what OpenTelemetry's API does not show of a span but the SDK's classes do. */
public abstract class DovetailSpan {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final ClassValue<DovetailSpan> READERS = new ClassValue<DovetailSpan>() {
        @Override
        protected DovetailSpan computeValue(Class<?> c) {
            DovetailSpan reader = make(c);
            if (reader == null)
                return new None();
            reader.nameAt = nameOffset(c);
            return reader;
        }
    };

    private long nameAt; // where the SDK's span has its name; 0: not known

    /** The reader for a span. */
    public static DovetailSpan of(Object span) {
        return READERS.get(span.getClass());
    }

    private static DovetailSpan make(Class<?> c) {
        try {
            Class<?> readable = Class.forName("io.opentelemetry.sdk.trace.ReadableSpan", false, c.getClassLoader());
            if (!readable.isAssignableFrom(c))
                return null;
            String parent = readable.getMethod("getParentSpanContext").getReturnType().getName();
            ClassLoader loader = readable.getClassLoader();
            Object reader = make0(loader, parent.contains(".shaded."));
            return (DovetailSpan) (reader != null ? reader : makeAgain(loader));
        } catch (Throwable t) {
            return null; // another tracer's, or one that only passes a context on
        }
    }

    /** A loader defines the reader's class once: for its other classes of spans, and where two threads meet their first, it is there. */
    private static Object makeAgain(ClassLoader loader) throws ReflectiveOperationException {
        String name = "io.opentelemetry.sdk.trace.DovetailSdk";
        Class<?> c = loader == null ? Class.forName(name, false, null) : loader.findLoadedClass(name);
        return c == null ? null : c.getDeclaredConstructor().newInstance();
    }

    private static long nameOffset(Class<?> c) {
        while (c != null && !c.getName().equals("io.opentelemetry.sdk.trace.SdkSpan"))
            c = c.getSuperclass();
        try {
            Field f = c == null ? null : c.getDeclaredField("name");
            return f == null || f.getType() != String.class ? 0 : U.objectFieldOffset(f);
        } catch (ReflectiveOperationException e) {
            return 0;
        }
    }

    private static native Object make0(ClassLoader loader, boolean isApiShaded);

    /** The name past the span's lock, which costs as much as a clock: under it dropped scopes are counted. Another thread may have changed it. */
    protected final String glanceAtName(Object span) {
        return nameAt != 0 ? (String) U.getReference(span, nameAt) : name(span);
    }

    /** May be null. */
    public abstract String name(Object span);

    /** Tells the lane the span's name, and of its parent if that is known. */
    public abstract void tell(Object span, DovetailLane lane);

    static final class None extends DovetailSpan {
        @Override
        public String name(Object span) {
            return null;
        }

        @Override
        public void tell(Object span, DovetailLane lane) {}
    }
}
