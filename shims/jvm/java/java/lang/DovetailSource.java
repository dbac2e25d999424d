package java.lang;

import java.lang.ref.WeakReference;

/**
 * What a lane asks, of a kept scope only, when it closes: the name and the labels as they are then. A tracer's reader, defined beside
 * the tracer's classes in their class loader, which it must not keep alive.
 */
public abstract class DovetailSource {
    private static final WeakReference<?>[] ALL = new WeakReference<?>[Byte.MAX_VALUE + 1];

    /** By which lanes know it; 0: it is one of too many, and none of its contexts becomes a scope. */
    final byte number;

    protected DovetailSource() {
        number = add(this);
    }

    private static synchronized byte add(DovetailSource source) {
        byte i = 1;
        while (i > 0 && ALL[i] != null && ALL[i].get() != null)
            i++;
        if (i < 0)
            return 0;
        ALL[i] = new WeakReference<>(source);
        return i;
    }

    /** Null for 0. One that has contexts in a lane is there. */
    static DovetailSource at(byte number) {
        return number == 0 ? null : (DovetailSource) ALL[number].get();
    }

    /** The name, or null. key is what the lane was given when the scope was opened. */
    public abstract String name(Object key);

    /** The value of a baggage entry, or null. */
    public abstract String baggage(Object key, String name);
}
