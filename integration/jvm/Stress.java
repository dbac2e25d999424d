import io.dovetail.Scope;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * All at once what a JVM does to frames and threads that are being sampled: classes that come and go, compiled code that is thrown away
 * since they came, garbage, exceptions, threads that live a millisecond, virtual threads. Prints "beat N" each second, N the
 * scopes so far, and "done N". Argument: seconds.
 */
public final class Stress {
    public abstract static class Shape {
        public abstract double area(double x);
    }

    /** Loaded anew all the time: each new class makes the compiled calls of area() wrong. */
    public static final class Loaded extends Shape {
        public double area(double x) {
            return x * 3 + Math.sqrt(x);
        }
    }

    static volatile Shape shape = new Loaded();
    static volatile double sink;
    static volatile Object garbage;
    static final AtomicLong scopes = new AtomicLong();
    static long deadline;

    static boolean isOver() {
        return System.nanoTime() > deadline;
    }

    static double descend(int depth, double x) {
        if (depth == 0)
            throw new IllegalArgumentException();
        return descend(depth - 1, shape.area(x)) + 1;
    }

    static void work(int n) {
        double x = n;
        List<Object> kept = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            x += shape.area(i);
            if ((i & 63) == 0)
                kept.add(new byte[1024 + i % 4096]);
        }
        try {
            x += descend(n % 60, x);
        } catch (IllegalArgumentException e) {
            x += e.getStackTrace().length;
        }
        garbage = kept;
        sink = x;
    }

    static void request() {
        int n = ThreadLocalRandom.current().nextInt(2000);
        try (Scope s = Scope.open("request").label("tenant", "t" + n % 5)) {
            work(n);
            try (Scope inner = Scope.open("inner")) {
                work(n / 2);
            }
        }
        scopes.addAndGet(2);
    }

    static void guarded(Runnable body) {
        try {
            body.run();
        } catch (Throwable t) {
            t.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    static Thread start(Runnable body) {
        Thread t = new Thread(() -> guarded(body));
        t.start();
        return t;
    }

    static void requests() {
        while (!isOver())
            request();
    }

    static void loadClasses() {
        try (InputStream in = Stress.class.getResourceAsStream("Stress$Loaded.class")) {
            byte[] bytes = in.readAllBytes();
            for (int i = 0; !isOver(); i++) {
                Class<?> c = (i & 1) == 0 ? new ClassLoader(Stress.class.getClassLoader()) {
                    Class<?> define() {
                        return defineClass("Stress$Loaded", bytes, 0, bytes.length);
                    }
                }.define() : MethodHandles.lookup().defineHiddenClass(bytes, true).lookupClass();
                shape = (Shape) c.getDeclaredConstructor().newInstance();
                Thread.sleep(5);
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static void shortThreads() {
        try {
            while (!isOver()) {
                List<Thread> now = new ArrayList<>();
                for (int i = 0; i < 8; i++)
                    now.add(start(Stress::request));
                for (Thread t : now)
                    t.join();
                Thread.sleep(5);
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** From JDK 21 on. */
    static void virtualThreads() {
        try {
            var starter = Thread.class.getMethod("startVirtualThread", Runnable.class);
            while (!isOver()) {
                List<Thread> now = new ArrayList<>();
                for (int i = 0; i < 20; i++)
                    now.add((Thread) starter.invoke(null, (Runnable) () -> {
                        request();
                        Thread.yield();
                        request();
                    }));
                for (Thread t : now)
                    t.join();
                Thread.sleep(5);
            }
        } catch (NoSuchMethodException e) {
            return;
        } catch (ReflectiveOperationException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        deadline = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        List<Thread> running = List.of(start(Stress::requests), start(Stress::requests), start(Stress::loadClasses),
                start(Stress::shortThreads), start(Stress::virtualThreads));
        while (!isOver()) {
            System.out.println("beat " + scopes.get());
            System.out.flush();
            Thread.sleep(1000);
        }
        for (Thread t : running)
            t.join();
        System.out.println("done " + scopes.get());
    }
}
