package java.lang;

import static java.nio.charset.StandardCharsets.US_ASCII;

/** Labels and links that the application gave an open scope, until the scope is kept or not. Bounded as in limits.h. */
public final class DovetailExtra {
    private static final int MAX_LABELS = 16, MAX_LINKS = 64;

    final String[] labels = new String[2 * MAX_LABELS]; // key, value, ...
    int n;
    private byte[][] links;
    private int nLinks;
    private final long virtual; // of a virtual thread's scope: native code keeps the parts of it
    private final int index;

    DovetailExtra(long virtual, int index) {
        this.virtual = virtual;
        this.index = index;
    }

    /** The last value of a key counts. */
    public void label(String key, String value) {
        if (key == null || value == null)
            return;
        int i = 0;
        while (i < n && !labels[i].equals(key))
            i += 2;
        if (i == labels.length)
            return;
        labels[i] = key;
        labels[i + 1] = value;
        n = Math.max(n, i + 2);
        if (virtual != 0)
            DovetailVirtual.labels0(virtual, index, DovetailLane.labels(null, null, this));
    }

    public void link(String traceparent) {
        if (links == null)
            links = new byte[MAX_LINKS][];
        if (traceparent != null && nLinks < MAX_LINKS)
            links[nLinks++] = traceparent.getBytes(US_ASCII);
    }

    byte[][] links() {
        return links == null ? null : java.util.Arrays.copyOf(links, nLinks);
    }
}
