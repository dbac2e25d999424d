import com.sun.net.httpserver.Headers;
import io.dovetail.Dovetail;
import io.dovetail.Scope;

import java.util.Map;
import java.util.concurrent.Callable;

/** The order service's tracing by Dovetail's own API. */
final class Tracing {
    interface Part extends AutoCloseable {
        @Override
        void close();
    }

    private Tracing() {}

    /** A request that came in; its trace goes on. */
    static Part request(String name, Headers headers) {
        return Scope.open(name, headers.getFirst("traceparent"))::close;
    }

    /** A part of the request that may run on another thread. */
    static <T> Callable<T> carried(String name, Callable<T> work) {
        String here = Dovetail.traceparent();
        return () -> {
            try (Scope s = Scope.open(name, here)) {
                return work.call();
            }
        };
    }

    /** What an outgoing request takes along. */
    static Map<String, String> headers() {
        String here = Dovetail.traceparent();
        return here == null ? Map.of() : Map.of("traceparent", here);
    }
}
