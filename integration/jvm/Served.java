import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * What the servers of AgentServer and SpringServer share. Trace k works in work_k alone, and nobody else does; requests come over plain
 * sockets, of which no tracer knows, with the traceparent of their trace. See Mix for what is printed.
 */
public final class Served {
    static final int N_TRACES = 40;
    private static final AtomicLongArray spent = new AtomicLongArray(N_TRACES);
    private static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private static volatile long sink;

    private Served() {}

    /** Works for trace k, much beside what a framework does for a request; for none if k is negative. */
    public static void work(int k) {
        int n = 20_000 + ThreadLocalRandom.current().nextInt(800_000);
        if (k < 0) {
            sink += Works.orphan(n);
            return;
        }
        long begin = threads.getCurrentThreadCpuTime();
        sink += Works.work(k, n);
        spent.addAndGet(k, threads.getCurrentThreadCpuTime() - begin);
    }

    private static void request(int port, int k) throws IOException {
        String text = String.format("GET /work/%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\ntraceparent: 00-%032x-%016x-01\r\n\r\n",
                k, k + 1, k + 1);
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port); InputStream in = socket.getInputStream()) {
            socket.getOutputStream().write(text.getBytes(StandardCharsets.US_ASCII));
            String answer = new String(in.readAllBytes(), StandardCharsets.US_ASCII);
            if (!answer.startsWith("HTTP/1.1 200"))
                throw new IOException(answer);
        }
    }

    /** Asks /work/k that often, from four threads that work for no trace between their requests. */
    static void drive(int port, int requests) throws InterruptedException {
        AtomicLong todo = new AtomicLong(requests), failed = new AtomicLong();
        List<Thread> clients = new ArrayList<>();
        for (int i = 0; i < 4; i++)
            clients.add(new Thread(() -> {
                for (long left; (left = todo.decrementAndGet()) >= 0;)
                    try {
                        request(port, (int) (left % N_TRACES));
                        work(-1);
                    } catch (IOException e) {
                        e.printStackTrace();
                        failed.incrementAndGet();
                        return;
                    }
            }));
        for (Thread client : clients)
            client.start();
        for (Thread client : clients)
            client.join();
        if (failed.get() > 0)
            System.exit(1);
        for (int k = 0; k < N_TRACES; k++)
            System.out.printf("%032x %d%n", k + 1, spent.get(k));
    }
}
