import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * An HTTP service that knows of no tracer: OpenTelemetry's Java agent makes its spans and carries them to its executor.
 *
 *     java -javaagent:opentelemetry-javaagent.jar AgentServer REQUESTS
 */
public final class AgentServer {
    private static final ExecutorService pool = Executors.newFixedThreadPool(2);

    private static void answer(HttpExchange exchange) throws IOException {
        int k = Integer.parseInt(exchange.getRequestURI().getPath().substring("/work/".length()));
        Served.work(k);
        Future<?> job = pool.submit(() -> Served.work(k));
        Served.work(k);
        try {
            job.get();
        } catch (Exception e) {
            throw new IOException(e);
        }
        exchange.sendResponseHeaders(200, -1);
        exchange.close();
    }

    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/work/", AgentServer::answer);
        server.start();
        Served.drive(server.getAddress().getPort(), Integer.parseInt(args[0]));
        System.exit(0);
    }
}
