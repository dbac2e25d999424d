package java.lang;

/**
 * What patched classes call in place of ThreadLocal.set: the same, and then tells the thread's lane that its current context has
 * changed. In java.lang, so that every class loader finds it.
 */
public final class DovetailHook {
    private DovetailHook() {}

    /** A context is entered. */
    public static void enter(ThreadLocal<Object> local, Object context) {
        local.set(context);
        DovetailLane.follow(local, context, false);
    }

    /** The context of before is restored. */
    public static void restore(ThreadLocal<Object> local, Object context) {
        local.set(context);
        DovetailLane.follow(local, context, true);
    }

    /** Nothing is current any more. */
    public static void clear(ThreadLocal<Object> local) {
        local.remove();
        DovetailLane.follow(local, null, true);
    }
}
