import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.trace.SdkTracerProvider;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;

/**
 * A Java program that knows which trace each stretch of its CPU time belongs to: by what is current, as the tracer says. Each trace k works
 * in a method of its own, work_k: a sample with work_k outside trace k is a wrong one. orphan() runs in no scope and must be in no
 * trace. Prints "TRACE SPENT" a line: CPU ns, or steps of work on virtual threads, whose clock the JVM does not tell.
 *
 *     Mix threads|async|misuse|churn|virtual|own|short|brave SECONDS
 *
 * Works.java, with the methods, is generated; churn loads it anew all the time, in class loaders of its own.
 */
public class Mix {
    static final int N_TRACES = 40;
    static final AtomicLongArray spent = new AtomicLongArray(N_TRACES);
    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    static final Tracer tracer = SdkTracerProvider.builder().build().get("mix");
    static volatile IntWork works = Works::work;
    static long deadline;
    static boolean countsSteps, isShort;

    interface IntWork {
        long run(int k, int n);
    }

    static boolean isOver() {
        return System.nanoTime() > deadline;
    }

    /** Works for the trace that is current. */
    static void work(Random rng) {
        SpanContext c = Span.current().getSpanContext();
        workFor(c.isValid() ? (int) Long.parseLong(c.getTraceId(), 16) - 1 : -1, rng);
    }

    static volatile long sink;

    static void workFor(int k, Random rng) {
        int n = 500 + rng.nextInt(50_000);
        if (k < 0) {
            sink += Works.orphan(n);
            return;
        }
        long begin = countsSteps ? 0 : threads.getCurrentThreadCpuTime();
        if (isShort)
            for (int i = 0; i < n; i++)
                sink += works.run(k, i & 3);
        else
            sink += works.run(k, n);
        spent.addAndGet(k, countsSteps ? n : threads.getCurrentThreadCpuTime() - begin);
    }

    static Span request(int k) {
        String trace = String.format("%032x", k + 1), span = String.format("%016x", k + 1);
        SpanContext remote = SpanContext.createFromRemoteParent(trace, span, TraceFlags.getSampled(), TraceState.getDefault());
        return tracer.spanBuilder("request").setParent(Context.root().with(Span.wrap(remote))).startSpan();
    }

    static Span child(String name) {
        return tracer.spanBuilder(name).startSpan();
    }

    /** The child's end on the pool's thread must not clear the parent's here, nor leak there. */
    static void inPool(Random rng) {
        Span c = child("in the pool");
        try (Scope s = c.makeCurrent()) {
            work(rng);
        }
        c.end();
        work(rng);
    }

    static void loop(int seed, ThrowingConsumer body) {
        Random rng = new Random(seed);
        try {
            while (!isOver())
                body.accept(rng);
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    interface ThrowingConsumer {
        void accept(Random rng) throws Exception;
    }

    static void withExecutors(Random rng, ExecutorService pool) throws Exception {
        Span r = request(rng.nextInt(N_TRACES));
        try (Scope s = r.makeCurrent()) {
            work(rng);
            List<Future<?>> jobs = new ArrayList<>();
            for (int i = 0; i < 2; i++)
                jobs.add(pool.submit(Context.current().wrap(() -> inPool(new Random(rng.nextInt())))));
            jobs.add(pool.submit(() -> work(new Random(1))));
            work(rng);
            Span other = request(rng.nextInt(N_TRACES));
            try (Scope o = other.makeCurrent()) {
                work(rng);
            }
            work(rng);
            for (Future<?> job : jobs)
                job.get();
            work(rng);
        }
        work(rng);
    }

    static void withFutures(Random rng, ExecutorService pool) throws Exception {
        Span r = request(rng.nextInt(N_TRACES));
        try (Scope s = r.makeCurrent()) {
            Context here = Context.current();
            CompletableFuture<Void> f = CompletableFuture.runAsync(here.wrap(() -> inPool(new Random(rng.nextInt()))), pool)
                    .thenRun(here.wrap(() -> work(new Random(2))))
                    .thenRunAsync(() -> work(new Random(3)), pool);
            IntStream.range(0, 4).parallel().forEach(i -> {
                try (Scope p = here.makeCurrent()) {
                    work(new Random(i));
                }
            });
            work(rng);
            f.get();
        }
        work(rng);
    }

    /** Scopes closed out of order, twice and by other threads; spans made current many times; exceptions. */
    static void withMisuse(Random rng, ExecutorService pool) throws Exception {
        Span a = request(rng.nextInt(N_TRACES)), b = request(rng.nextInt(N_TRACES));
        Scope outer = a.makeCurrent(), inner = b.makeCurrent();
        work(rng);
        outer.close();
        work(rng);
        inner.close();
        inner.close();
        work(rng);
        Scope root = Context.root().makeCurrent();
        work(rng);
        for (int i = 0; i < 3; i++)
            try (Scope again = a.makeCurrent()) {
                work(rng);
                thrower(rng, b);
            } catch (IllegalStateException e) {
                work(rng);
            }
        Scope elsewhere = b.makeCurrent();
        pool.submit(() -> {
            elsewhere.close();
            work(new Random(4));
        }).get();
        work(rng);
        elsewhere.close();
        work(rng);
        root.close();
        work(rng);
    }

    static void thrower(Random rng, Span b) {
        try (Scope s = b.makeCurrent()) {
            work(rng);
            if (rng.nextBoolean())
                throw new IllegalStateException();
        }
    }

    static void withOwnScopes(Random rng, ExecutorService pool) throws Exception {
        int k = rng.nextInt(N_TRACES), other = rng.nextInt(N_TRACES);
        String parent = String.format("00-%032x-%016x-01", k + 1, k + 1), otherParent = String.format("00-%032x-%016x-01", other + 1, 1);
        try (io.dovetail.Scope s = io.dovetail.Scope.open("request", parent).label("tenant", "t" + k % 3)) {
            workFor(k, rng);
            try (io.dovetail.Scope inner = io.dovetail.Scope.open("inner")) {
                workFor(k, rng);
            }
            Future<?> job = pool.submit(() -> {
                try (io.dovetail.Scope p = io.dovetail.Scope.open("in the pool", parent)) {
                    workFor(k, new Random(5));
                }
                workFor(-1, new Random(6));
            });
            io.dovetail.Scope x = io.dovetail.Scope.open("other", otherParent), y = io.dovetail.Scope.open("in other");
            x.close();
            workFor(other, rng);
            y.close();
            Span span = request(other);
            try (Scope o = span.makeCurrent(); io.dovetail.Scope inSpan = io.dovetail.Scope.open("in a span")) {
                workFor(other, rng);
            }
            workFor(k, rng);
            job.get();
        }
        workFor(-1, rng);
    }

    static void withVirtualThreads(Random rng) throws Exception {
        Span r = request(rng.nextInt(N_TRACES));
        try (Scope s = r.makeCurrent()) {
            for (int i = 0; i < 1 + rng.nextInt(4); i++) {
                work(rng);
                Thread.yield();
                Span c = child("inner");
                try (Scope in = c.makeCurrent(); io.dovetail.Scope own = io.dovetail.Scope.open("own").label("tenant", "acme")) {
                    work(rng);
                    Thread.sleep(rng.nextInt(3));
                    work(rng);
                }
                io.dovetail.Scope first = io.dovetail.Scope.open("first"), second = io.dovetail.Scope.open("second");
                work(rng);
                Thread.yield();
                first.close();
                work(rng);
                second.close();
            }
        }
        work(rng);
        Thread.yield();
    }

    static void withBrave(Random rng, brave.Tracer tracer, ExecutorService pool) throws Exception {
        int k = rng.nextInt(N_TRACES);
        brave.propagation.TraceContext remote =
                brave.propagation.TraceContext.newBuilder().traceId(k + 1).spanId(k + 1).sampled(true).build();
        brave.Span r = tracer.newChild(remote).name("request").start();
        try (brave.Tracer.SpanInScope s = tracer.withSpanInScope(r)) {
            workFor(k, rng);
            brave.Span c = tracer.nextSpan().name("inner");
            Future<?> job = pool.submit(() -> {
                try (brave.Tracer.SpanInScope p = tracer.withSpanInScope(c)) {
                    workFor(k, new Random(7));
                }
                workFor(-1, new Random(8));
            });
            try (brave.Tracer.SpanInScope in = tracer.withSpanInScope(c)) {
                workFor(k, rng);
                try (brave.Tracer.SpanInScope none = tracer.withSpanInScope(null)) {
                    workFor(-1, rng);
                }
                workFor(k, rng);
            }
            workFor(k, rng);
            job.get();
        }
        workFor(-1, rng);
    }

    /** Loads the works anew every few milliseconds. */
    static void churn(byte[] bytes) {
        while (!isOver())
            try {
                Class<?> c = new ClassLoader(Mix.class.getClassLoader()) {
                    Class<?> define() {
                        return defineClass("Works", bytes, 0, bytes.length);
                    }
                }.define();
                java.lang.invoke.MethodHandle h = java.lang.invoke.MethodHandles.publicLookup().findStatic(c, "work",
                        java.lang.invoke.MethodType.methodType(long.class, int.class, int.class));
                works = (k, n) -> {
                    try {
                        return (long) h.invokeExact(k, n);
                    } catch (Throwable t) {
                        throw new AssertionError(t);
                    }
                };
                Thread.sleep(20);
            } catch (ReflectiveOperationException | InterruptedException e) {
                throw new AssertionError(e);
            }
    }

    static List<Thread> start(int n, IntConsumer body) {
        List<Thread> started = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            int seed = i;
            Thread t = new Thread(() -> body.accept(seed));
            started.add(t);
            t.start();
        }
        return started;
    }

    static Thread startVirtual(Runnable body) throws Exception {
        return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, body);
    }

    public static void main(String[] args) throws Exception {
        String mode = args[0];
        deadline = System.nanoTime() + (long) (Double.parseDouble(args[1]) * 1e9);
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Thread> running = new ArrayList<>();
        countsSteps = mode.equals("virtual");
        isShort = mode.equals("short");
        if (mode.equals("virtual")) {
            for (int i = 0; i < 32; i++) {
                int seed = i;
                running.add(startVirtual(() -> loop(seed, rng -> withVirtualThreads(rng))));
            }
        } else if (mode.equals("brave")) {
            brave.Tracer tracer = brave.Tracing.newBuilder()
                    .currentTraceContext(brave.propagation.ThreadLocalCurrentTraceContext.create())
                    .addSpanHandler(new brave.handler.SpanHandler() {}).build().tracer();
            running = start(6, seed -> loop(seed, rng -> withBrave(rng, tracer, pool)));
        } else if (mode.equals("misuse")) {
            running = start(6, seed -> loop(seed, rng -> withMisuse(rng, pool)));
        } else if (mode.equals("async")) {
            running = start(4, seed -> loop(seed, rng -> withFutures(rng, pool)));
        } else if (mode.equals("own") || isShort) {
            running = start(6, seed -> loop(seed, rng -> withOwnScopes(rng, pool)));
        } else {
            running = start(6, seed -> loop(seed, rng -> withExecutors(rng, pool)));
        }
        if (mode.equals("churn"))
            try (java.io.InputStream in = Mix.class.getResourceAsStream("Works.class")) {
                churn(in.readAllBytes());
            }
        for (Thread t : running)
            t.join();
        pool.shutdown();
        for (int k = 0; k < N_TRACES; k++)
            System.out.printf("%032x %d%n", k + 1, spent.get(k));
    }
}
