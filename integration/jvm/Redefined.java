import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;

import java.io.InputStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;

/**
 * A class that is redefined all the time: V0 becomes V1, V2, V3, V1, ... of other source files and lines. What V<k> works for is
 * trace k.
 *
 *     Redefined SECONDS
 */
public class Redefined {
    static final int VERSIONS = 3;
    static Instrumentation instrumentation;
    static volatile long sink;

    public static void premain(String args, Instrumentation i) {
        instrumentation = i;
    }

    /** The class V<k>, called V0. */
    static byte[] version(int k) throws Exception {
        try (InputStream in = Redefined.class.getResourceAsStream("V" + k + ".class")) {
            String text = new String(in.readAllBytes(), StandardCharsets.ISO_8859_1);
            return text.replace("\0\2V" + k, "\0\2V0").getBytes(StandardCharsets.ISO_8859_1);
        }
    }

    static Scope enter(int k) {
        String trace = String.format("%032x", k), span = String.format("%016x", k);
        return Span.wrap(SpanContext.create(trace, span, TraceFlags.getSampled(), TraceState.getDefault())).makeCurrent();
    }

    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        byte[][] versions = new byte[VERSIONS + 1][];
        int n = 0;
        for (int k = 1; k <= VERSIONS; k++)
            versions[k] = version(k);
        for (; System.nanoTime() < end; n++) {
            int k = n % VERSIONS + 1;
            instrumentation.redefineClasses(new ClassDefinition(V0.class, versions[k]));
            try (Scope s = enter(k)) {
                long until = System.nanoTime() + 5_000_000;
                while (System.nanoTime() < until)
                    sink += V0.work(2_000);
            }
        }
        System.out.println(n);
    }
}
