import com.sun.net.httpserver.Headers;
import io.opentelemetry.api.baggage.propagation.W3CBaggagePropagator;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.context.propagation.TextMapPropagator;
import io.opentelemetry.sdk.trace.SdkTracerProvider;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/** The order service's tracing by OpenTelemetry; of Dovetail it knows nothing. */
final class Tracing {
    interface Part extends AutoCloseable {
        @Override
        void close();
    }

    private static final Tracer tracer = SdkTracerProvider.builder().build().get("orders");
    private static final TextMapPropagator propagator =
            TextMapPropagator.composite(W3CTraceContextPropagator.getInstance(), W3CBaggagePropagator.getInstance());
    private static final TextMapGetter<Headers> getter = new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(Headers headers) {
            return headers.keySet();
        }

        @Override
        public String get(Headers headers, String key) {
            return headers.getFirst(key);
        }
    };

    private Tracing() {}

    /** A request that came in; its trace goes on. */
    static Part request(String name, Headers headers) {
        Context incoming = propagator.extract(Context.root(), headers, getter);
        Span span = tracer.spanBuilder(name).setParent(incoming).setSpanKind(SpanKind.SERVER).startSpan();
        Scope scope = incoming.with(span).makeCurrent();
        return () -> {
            scope.close();
            span.end();
        };
    }

    /** A part of the request that may run on another thread. */
    static <T> Callable<T> carried(String name, Callable<T> work) {
        Context here = Context.current();
        return () -> {
            Span span = tracer.spanBuilder(name).setParent(here).startSpan();
            try (Scope s = here.with(span).makeCurrent()) {
                return work.call();
            } finally {
                span.end();
            }
        };
    }

    /** What an outgoing request takes along. */
    static Map<String, String> headers() {
        Map<String, String> headers = new HashMap<>();
        propagator.inject(Context.current(), headers, Map::put);
        return headers;
    }
}
