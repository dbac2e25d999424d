package java.lang;

/**
 * What a lane asks, of a kept scope only, when it closes: the name and the labels as they are then. A tracer's reader, defined beside
 * the tracer's classes in their class loader; or the shim's own scopes.
 */
public abstract class DovetailSource {
    /** The name, or null. key and span are what the lane was given when the scope was opened. */
    public abstract String name(Object key, Object span);

    /** The value of a baggage entry, or null. */
    public abstract String baggage(Object key, String name);
}
