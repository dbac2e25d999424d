package java.lang;

/**
 * Reads the contexts of one tracer. A subclass is defined beside each copy of a tracer's classes, in their class loader, so that its
 * calls are ordinary ones that the JIT inlines.
 */
public abstract class DovetailReader {
    /** The object that says which span is current in a context, or null if it works for no trace. */
    public abstract Object span(Object context);

    /** Puts the span's ids into the lane by lane.ids(...). */
    public abstract void ids(Object span, DovetailLane lane);
}
