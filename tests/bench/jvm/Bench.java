import io.dovetail.Scope;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.SdkTracerProvider;

import one.profiler.AsyncProfiler;

/**
 * What a scope costs its thread when no sample falls into it. Prints "NAME NS" a line, the best of many short rounds, in each of which
 * every case is measured once, so that a change of the machine's pace hits all alike.
 *
 *     Bench ROUNDS RECORDING_OF_ASYNC_PROFILER
 */
public class Bench {
    static final int N = 2_000;
    static volatile Object sink;
    static Context[] contexts; // of different spans
    static Context same;

    interface Case {
        void run(int n);
    }

    static void span(int n) {
        for (int i = 0; i < n; i++) {
            long start = one.profiler.Span.start();
            one.profiler.Span.endIfProfiled(start, "checkout");
        }
    }

    static void scope(int n) {
        for (int i = 0; i < n; i++)
            try (Scope s = Scope.open("checkout")) {
            }
    }

    static void labelled(int n) {
        for (int i = 0; i < n; i++)
            try (Scope s = Scope.open("checkout").label("tenant", "acme")) {
            }
    }

    static void kept(int n) {
        for (int i = 0; i < n; i++)
            try (Scope s = Scope.open("checkout").always()) {
            }
    }

    static void makeCurrent(int n) {
        for (int i = 0; i < n; i++)
            try (io.opentelemetry.context.Scope s = same.makeCurrent()) {
            }
    }

    static void makeCurrentOfMany(int n) {
        for (int i = 0; i < n; i++)
            try (io.opentelemetry.context.Scope s = contexts[i % contexts.length].makeCurrent()) {
            }
    }

    static void nanoTime(int n) {
        long x = 0;
        for (int i = 0; i < n; i++)
            x += System.nanoTime();
        sink = x;
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        AsyncProfiler.getInstance().execute("start,event=ctimer,interval=1s,jfr,file=" + args[1]);
        SdkTracerProvider provider = SdkTracerProvider.builder().build();
        contexts = new Context[256];
        for (int i = 0; i < contexts.length; i++)
            contexts[i] = Context.root().with(provider.get("bench").spanBuilder("GET /quote").startSpan());
        same = contexts[0];
        String[] names = {"nanoTime", "span", "scope", "labelled", "makeCurrent", "makeCurrentOfMany", "kept"};
        Case[] cases = {Bench::nanoTime, Bench::span, Bench::scope, Bench::labelled, Bench::makeCurrent, Bench::makeCurrentOfMany, Bench::kept};
        double[] best = new double[cases.length];
        java.util.Arrays.fill(best, Double.MAX_VALUE);
        for (int r = 0; r < rounds; r++)
            for (int c = 0; c < cases.length; c++) {
                int n = names[c].equals("kept") ? 500 : N;
                long begin = System.nanoTime();
                cases[c].run(n);
                best[c] = Math.min(best[c], (double) (System.nanoTime() - begin) / n);
                if (names[c].equals("kept"))
                    Thread.sleep(20); // the sender takes them meanwhile
            }
        AsyncProfiler.getInstance().execute("stop");
        for (int c = 0; c < cases.length; c++)
            System.out.println(names[c] + " " + best[c]);
    }
}
