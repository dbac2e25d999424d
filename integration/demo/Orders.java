import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * The demo's order service: a tenant's open orders, each with its price and the depot that delivers it.
 *
 *     java Orders PORT PRICING_PORT
 *     GET /orders?tenant=acme     JSON
 *     GET /health                 "ok"
 *
 * One thread asks the pricing service while another finds the depots. Tracing is the one class that differs between own/ and otel/.
 */
final class Orders {
    record Order(int id, int article, int quantity, int months, double latitude, double longitude) {}

    record Depot(double latitude, double longitude) {
        /** In km, on a sphere. */
        double distance(Order o) {
            double dy = Math.toRadians(o.latitude - latitude) / 2, dx = Math.toRadians(o.longitude - longitude) / 2;
            double h = Math.pow(Math.sin(dy), 2)
                    + Math.cos(Math.toRadians(latitude)) * Math.cos(Math.toRadians(o.latitude)) * Math.pow(Math.sin(dx), 2);
            return 2 * 6371 * Math.asin(Math.sqrt(h));
        }
    }

    static final Map<String, Integer> TENANTS = Map.of("acme", 40_000, "globex", 300, "initech", 240, "umbrella", 180, "hooli", 120);
    static final List<Depot> DEPOTS =
            IntStream.range(0, 12).mapToObj(i -> new Depot(36 + i * 7 % 24, -9 + i * 11 % 35)).collect(Collectors.toList());

    private final Map<String, List<Order>> book = TENANTS.keySet().stream().collect(Collectors.toMap(t -> t, Orders::ordersOf));
    private final ExecutorService planners = Executors.newFixedThreadPool(2, named("planner"));
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final URI pricing;

    Orders(int pricingPort) {
        pricing = URI.create("http://127.0.0.1:" + pricingPort + "/price");
    }

    static List<Order> ordersOf(String tenant) {
        return IntStream.range(0, TENANTS.get(tenant))
                .mapToObj(i -> new Order(i, i, i * 7 % 140, i * 13 % 72, 36 + i % 977 * 0.024, -9 + i % 1013 * 0.034))
                .collect(Collectors.toList());
    }

    static ThreadFactory named(String name) {
        AtomicInteger number = new AtomicInteger();
        return work -> new Thread(work, name + "-" + number.incrementAndGet());
    }

    /* ---- the work ---- */

    static int nearest(Order order) {
        int best = 0;
        double least = Double.MAX_VALUE;
        for (int i = 0; i < DEPOTS.size(); i++) {
            double km = DEPOTS.get(i).distance(order);
            if (km < least) {
                least = km;
                best = i;
            }
        }
        return best;
    }

    static int[] findDepots(List<Order> orders) {
        return orders.stream().mapToInt(Orders::nearest).toArray();
    }

    int[] askPrices(String tenant, List<Order> orders) throws IOException, InterruptedException {
        String lines = orders.stream().map(o -> "[" + o.article + "," + o.quantity + "," + o.months + "]")
                .collect(Collectors.joining(",", "[", "]"));
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(pricing + "?tenant=" + tenant))
                .POST(HttpRequest.BodyPublishers.ofString(lines));
        Tracing.headers().forEach(request::header);
        HttpResponse<String> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200)
            throw new IOException("pricing: " + answer.statusCode());
        String[] cents = answer.body().replaceAll("[\\[\\] ]", "").split(",");
        return IntStream.range(0, orders.size()).map(i -> Integer.parseInt(cents[i])).toArray();
    }

    static String toJson(List<Order> orders, int[] depots, int[] cents) {
        StringBuilder out = new StringBuilder("[");
        for (int i = 0; i < orders.size(); i++)
            out.append(i > 0 ? ",\n" : "").append("{\"id\":").append(orders.get(i).id).append(",\"depot\":").append(depots[i])
                    .append(",\"cents\":").append(cents[i]).append('}');
        return out.append("]").toString();
    }

    String orders(HttpExchange exchange) throws Exception {
        String tenant = exchange.getRequestURI().getQuery().replaceFirst("^tenant=", "");
        try (Tracing.Part part = Tracing.request("GET /orders", exchange.getRequestHeaders())) {
            List<Order> open = book.get(tenant);
            Future<int[]> depots = planners.submit(Tracing.carried("plan delivery", () -> findDepots(open)));
            int[] cents = askPrices(tenant, open);
            return toJson(open, depots.get(), cents);
        }
    }

    /* ---- HTTP ---- */

    interface Answer {
        String to(HttpExchange exchange) throws Exception;
    }

    static HttpHandler handler(Answer answer) {
        return exchange -> {
            int status = 200;
            String text;
            try {
                text = answer.to(exchange);
            } catch (Exception e) {
                e.printStackTrace();
                status = 500;
                text = e.toString();
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        };
    }

    public static void main(String[] args) throws IOException {
        Orders service = new Orders(Integer.parseInt(args[1]));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0])), 0);
        server.setExecutor(Executors.newFixedThreadPool(4, named("request")));
        server.createContext("/orders", handler(service::orders));
        server.createContext("/health", handler(exchange -> "ok"));
        server.start();
    }
}
