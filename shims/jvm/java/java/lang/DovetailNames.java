package java.lang;

import static java.nio.charset.StandardCharsets.UTF_8;

/** Names of scopes as struct dvt_name *: a table by the string's hash. Bounded as core's is; what does not fit has no name, 0. */
final class DovetailNames {
    private static final int BUCKETS = 8192, MAX = 4096, PROBES = 16;
    private static final Entry[] TABLE = new Entry[BUCKETS];
    private static int n;

    private DovetailNames() {}

    private static native long intern0(byte[] utf8);

    private static final class Entry { // final fields: may be read without a lock
        final String text;
        final long name;

        Entry(String text, long name) {
            this.text = text;
            this.name = name;
        }
    }

    static long of(String text) {
        int h = text.hashCode();
        Entry e = TABLE[(h ^ h >>> 16) & BUCKETS - 1];
        return e != null && e.text == text ? e.name : find(text);
    }

    private static long find(String text) {
        int h = text.hashCode(), at = h ^ h >>> 16;
        for (int i = 0; i < PROBES; i++) {
            Entry e = TABLE[at + i & BUCKETS - 1];
            if (e == null)
                break;
            if (e.text.equals(text))
                return e.name;
        }
        return add(text, at);
    }

    private static synchronized long add(String text, int at) {
        for (int i = 0; i < PROBES && n < MAX; i++) {
            Entry e = TABLE[at + i & BUCKETS - 1];
            if (e != null && e.text.equals(text))
                return e.name;
            if (e != null)
                continue;
            e = new Entry(text, intern0(text.getBytes(UTF_8)));
            TABLE[at + i & BUCKETS - 1] = e;
            n++;
            return e.name;
        }
        return 0;
    }
}
