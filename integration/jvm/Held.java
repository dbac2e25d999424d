import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.trace.SdkTracerProvider;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * A thread that keeps contexts current while the agent comes and goes. Each phase works in a method of its own, until a line on standard
 * input begins the next; its number is printed when it has worked for a while. What each method may be seen in is in
 * check_attach.py. On a virtual thread, the one carrier of which another thread without any context uses when it sleeps.
 *
 *     Held platform|virtual
 */
public class Held {
    static final long WHILE_NS = 200_000_000;
    static volatile int phase;
    static volatile long sink;

    static void spin() {
        long x = 0;
        for (int i = 0; i < 20_000; i++)
            x += i * i % 7 ^ x >>> 3;
        sink += x;
    }

    interface Work {
        void run();
    }

    static void before() { spin(); }
    static void first() { spin(); }
    static void restored() { spin(); }
    static void kept() { spin(); }
    static void unseen() { spin(); }
    static void still_unseen() { spin(); }
    static void alien() { spin(); }
    static void again() { spin(); }
    static void last() { spin(); }

    /** One phase: works, tells, and goes on until the next begins. */
    static void work(int n, Work w) {
        long begin = System.nanoTime();
        boolean told = false;
        while (phase == n) {
            w.run();
            if (!told && System.nanoTime() - begin > WHILE_NS) {
                System.out.println(n);
                told = true;
            }
        }
    }

    static Scope enter(int trace) {
        String id = String.format("%032x", trace), span = String.format("%016x", trace);
        SpanContext remote = SpanContext.createFromRemoteParent(id, span, TraceFlags.getSampled(), TraceState.getDefault());
        Context parent = Context.root().with(Span.wrap(remote));
        return SdkTracerProvider.builder().build().get("held").spanBuilder("held").setParent(parent).startSpan().makeCurrent();
    }

    static void sleep() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static void run() {
        try (Scope outer = enter(1)) {
            work(0, Held::before);
            try (Scope inner = enter(2)) {
                work(1, Held::first);
            }
            work(2, Held::restored);
            try (Scope over = enter(3)) {
                work(3, Held::kept); // detached in here
                try (Scope missed = enter(4)) {
                    work(4, Held::unseen); // and attached again in here
                    work(5, Held::still_unseen);
                }
                while (phase == 6) // its carrier is another's
                    sleep();
                work(7, Held::again);
            }
        }
        try (Scope end = enter(5)) {
            work(8, Held::last);
        }
    }

    static void runAlien() {
        while (phase < 6)
            sleep();
        work(6, () -> {
            alien();
            Thread.yield();
        });
    }

    static Thread start(boolean isVirtual, Runnable body) throws Exception {
        if (isVirtual)
            return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, body);
        Thread t = new Thread(body);
        t.start();
        return t;
    }

    public static void main(String[] args) throws Exception {
        boolean isVirtual = args[0].equals("virtual");
        Thread held = start(isVirtual, Held::run), alien = start(isVirtual, Held::runAlien);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null)
            phase++;
        phase = 99;
        held.join();
        alien.join();
    }
}
