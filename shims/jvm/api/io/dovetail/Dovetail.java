package io.dovetail;

/** What belongs to whatever scope is current: the innermost Scope or span of the calling thread. */
public final class Dovetail {
    /** Whether the agent is there. It says so itself when it is loaded into a running JVM. */
    static boolean live = isThere();

    private Dovetail() {}

    private static boolean isThere() {
        try {
            Class.forName("java.lang.DovetailLane", false, null);
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** The W3C traceparent header for an outgoing call, or null. */
    public static String traceparent() {
        return live ? DovetailOwn.traceparent() : null;
    }

    /** Labels the current scope, from its start: a tenant learned in the middle of a request. */
    public static void label(String key, String value) {
        if (!live)
            return;
        DovetailLane lane = DovetailLane.here();
        DovetailExtra extra = lane == null ? null : lane.extra(0);
        if (extra != null)
            extra.label(key, value);
    }
}
