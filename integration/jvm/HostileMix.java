import io.dovetail.Scope;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * What makes walking a Java stack hard, each kind on a thread of its own with the same CPU time: deep recursion, the
 * interpreter, allocation, intrinsics, native code, lambdas, locks, exceptions, method handles. A thread's root method
 * says its kind, so that every sample has a known place. Arguments: ms of CPU time a thread, kinds (default: all).
 */
public final class HostileMix {
    static final ThreadMXBean CPU = ManagementFactory.getThreadMXBean();
    static volatile long sink;
    static volatile Object objects;

    interface Work {
        long step(int round) throws Throwable;
    }

    static final Map<String, Work> KINDS = new LinkedHashMap<>();

    // ---- recursion ----

    static long descend(int depth, long seed) {
        if (depth == 0)
            return seed * 31;
        long below = descend(depth - 1, seed + depth);
        return below ^ (below >>> 7) + depth;
    }

    static long recursion(int round) {
        long x = 0;
        for (int i = 0; i < 200; i++)
            x += descend(50 + (i + round) % 300, i);
        return x;
    }

    // ---- interpreter: methods that the command line keeps from being compiled ----

    static int interpretedLeaf(int x) {
        return (x * 31 ^ x >>> 3) + 1;
    }

    static synchronized int interpretedLocked(int x) {
        return x + interpretedLeaf(x);
    }

    static long interpreter(int round) {
        int x = round;
        for (int i = 0; i < 3000; i++)
            x = (i & 3) == 0 ? interpretedLocked(x) : interpretedLeaf(x) + Integer.bitCount(x);
        return x;
    }

    // ---- allocation ----

    static Object node(int i, Object next) {
        return new Object[] {next, new int[i & 63], Integer.toString(i)};
    }

    static long allocation(int round) {
        Object last = null;
        for (int i = 0; i < 2000; i++)
            last = node(i, (i & 15) == 0 ? null : last);
        objects = last;
        byte[] big = new byte[200_000 + (round & 1023)];
        return big.length;
    }

    // ---- intrinsics ----

    static long intrinsics(int round) {
        byte[] a = BUFFER.get(), b = new byte[a.length];
        CRC32 crc = new CRC32();
        long x = 0;
        for (int i = 0; i < 20; i++) {
            System.arraycopy(a, i, b, 0, a.length - i);
            crc.update(b, 0, b.length);
            x += Arrays.hashCode(b) + (Arrays.equals(a, b) ? 1 : 0);
            x += (long) (Math.sin(i + round) * 1e6 + Math.pow(i + 1.5, 1.1) + Math.exp(i % 10) + Math.log(i + 2));
            x += new BigInteger(1, Arrays.copyOf(b, 256)).multiply(new BigInteger(1, Arrays.copyOf(a, 256))).bitLength();
            x += TEXT.indexOf("needle" + i % 3);
        }
        return x + crc.getValue();
    }

    static final ThreadLocal<byte[]> BUFFER = ThreadLocal.withInitial(() -> {
        byte[] b = new byte[16384];
        for (int i = 0; i < b.length; i++)
            b[i] = (byte) (i * 7);
        return b;
    });
    static final String TEXT = "haystack ".repeat(400) + "needle0needle1needle2";

    static final ThreadLocal<Cipher> CIPHER = ThreadLocal.withInitial(() -> {
        try {
            Cipher c = Cipher.getInstance("AES/CBC/PKCS5Padding");
            c.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[16], "AES"), new IvParameterSpec(new byte[16]));
            return c;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    });

    static long crypto(int round) throws Exception {
        return CIPHER.get().doFinal(BUFFER.get()).length;
    }

    // ---- native ----

    static long nativeCode(int round) {
        Deflater d = new Deflater(1 + round % 3);
        d.setInput(BUFFER.get());
        d.finish();
        long n = d.deflate(new byte[20000]);
        d.end();
        for (int i = 0; i < 200; i++)
            n += System.nanoTime() & 1;
        return n + Thread.currentThread().getStackTrace().length + System.identityHashCode(d);
    }

    static long clock(int round) {
        long n = 0;
        for (int i = 0; i < 5000; i++)
            n += System.nanoTime() & 1 + System.currentTimeMillis() & 1;
        return n;
    }

    // ---- lambdas and streams ----

    static long lambdas(int round) {
        IntUnaryOperator f = i -> i * 3 + round;
        for (int k = 0; k < 5; k++) {
            IntUnaryOperator g = f;
            int add = k;
            f = i -> g.applyAsInt(i) ^ add;
        }
        return IntStream.range(0, 3000).map(f).filter(i -> (i & 1) == 0).mapToObj(Integer::valueOf)
                .mapToLong(Integer::longValue).sum();
    }

    // ---- locks ----

    static final Object MONITOR = new Object();
    static final ReentrantLock LOCK = new ReentrantLock();
    static long shared;

    static long locks(int round) {
        for (int i = 0; i < 500; i++) {
            synchronized (MONITOR) {
                shared += i;
            }
            LOCK.lock();
            try {
                shared ^= i;
            } finally {
                LOCK.unlock();
            }
        }
        return shared;
    }

    // ---- exceptions ----

    static int thrower(int depth) {
        if (depth == 0)
            throw new IllegalArgumentException("x");
        return thrower(depth - 1) + 1;
    }

    static long exceptions(int round) {
        long n = 0;
        for (int i = 0; i < 100; i++) {
            try {
                n += thrower(i % 30);
            } catch (IllegalArgumentException e) {
                n += e.getStackTrace().length;
            }
        }
        return n;
    }

    // ---- method handles, reflection, megamorphic calls ----

    abstract static class Shape {
        abstract double area(double x);
    }

    static final class A extends Shape { double area(double x) { return x * x; } }
    static final class B extends Shape { double area(double x) { return x * 3.14; } }
    static final class C extends Shape { double area(double x) { return x / 2; } }
    static final class D extends Shape { double area(double x) { return Math.sqrt(x); } }
    static final Shape[] SHAPES = {new A(), new B(), new C(), new D()};

    static long dispatch(int round) throws Throwable {
        double x = round;
        List<Comparable<?>> mixed = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            x += SHAPES[i & 3].area(i);
            x += (double) HANDLE.invokeExact(SHAPES[i % 3], (double) i);
            if ((i & 63) == 0)
                x += ((Number) METHOD.invoke(null, i)).intValue();
            mixed.add((i & 1) == 0 ? (Comparable<?>) Integer.valueOf(i) : "s");
        }
        return (long) x + mixed.hashCode();
    }

    static final MethodHandle HANDLE;
    static final java.lang.reflect.Method METHOD;

    static {
        try {
            HANDLE = MethodHandles.lookup().findVirtual(Shape.class, "area", MethodType.methodType(double.class, double.class));
            METHOD = HostileMix.class.getDeclaredMethod("reflected", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
        KINDS.put("recursion", HostileMix::recursion);
        KINDS.put("interpreter", HostileMix::interpreter);
        KINDS.put("allocation", HostileMix::allocation);
        KINDS.put("intrinsics", HostileMix::intrinsics);
        KINDS.put("crypto", HostileMix::crypto);
        KINDS.put("nativeCode", HostileMix::nativeCode);
        KINDS.put("clock", HostileMix::clock);
        KINDS.put("lambdas", HostileMix::lambdas);
        KINDS.put("locks", HostileMix::locks);
        KINDS.put("exceptions", HostileMix::exceptions);
        KINDS.put("dispatch", HostileMix::dispatch);
    }

    static int reflected(int i) {
        return i ^ 5;
    }

    // ---- the run ----

    /** Works until this thread has had its CPU time. Returns what it has had, in ns. */
    static long work(Work w, long cpuNs) throws Throwable {
        long begin = CPU.getCurrentThreadCpuTime(), x = 0;
        for (int round = 0; CPU.getCurrentThreadCpuTime() - begin < cpuNs; round++)
            x += w.step(round);
        sink = x;
        return CPU.getCurrentThreadCpuTime() - begin;
    }

    public static void main(String[] args) throws Exception {
        long cpuNs = (args.length > 0 ? Long.parseLong(args[0]) : 1000) * 1_000_000;
        List<String> kinds = args.length > 1 ? Arrays.asList(args).subList(1, args.length) : List.copyOf(KINDS.keySet());
        List<Thread> threads = new ArrayList<>();
        for (String kind : kinds) {
            Thread t = new Thread(() -> {
                try {
                    long ns;
                    try (Scope s = Scope.open(kind).label("kind", kind).always()) {
                        ns = work(KINDS.get(kind), cpuNs);
                    }
                    System.out.println("truth " + kind + " " + ns);
                } catch (Throwable e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            }, "mix-" + kind);
            threads.add(t);
            t.start();
        }
        for (Thread t : threads)
            t.join();
    }
}
