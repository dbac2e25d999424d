import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.trace.SdkTracerProvider;

/** A program that lives for one request: it works for about 100 ms of CPU time and is gone. Prints its trace's id. */
public class Short {
    static volatile long sink;

    public static void main(String[] args) {
        Span span = SdkTracerProvider.builder().build().get("short").spanBuilder("GET /once").startSpan();
        try (Scope s = span.makeCurrent()) {
            long end = System.nanoTime() + 100_000_000L;
            while (System.nanoTime() < end)
                for (int i = 0; i < 1000; i++)
                    sink += i * i % 7;
        }
        span.end();
        System.out.println(span.getSpanContext().getTraceId());
    }
}
