import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/**
 * Holds the walker's stacks against the JVM's own, frame by frame: class, method, file and line, from the interpreter through
 * all compilers, as `rounds` goes by. Prints "WRONG ..." and exits 1 at the first difference, else "ok N stacks".
 * Arguments: rounds, then the cases (default: all).
 */
public final class Probe {
    public static native byte[] here();

    static final StackWalker WALKER = StackWalker.getInstance(StackWalker.Option.SHOW_HIDDEN_FRAMES);
    static long checked;

    /** The frames of the caller down to the thread's entry, as text. */
    public static List<String> jvm() {
        return WALKER.walk(s -> s.skip(1).map(f -> stable(f.getClassName()) + "." + f.getMethodName() + " "
                + (f.getFileName() == null ? "" : f.getFileName()) + ":" + Math.max(f.getLineNumber(), 0)).toList());
    }

    /** A hidden class without its address. */
    static String stable(String name) {
        int at = name.lastIndexOf("/0x");
        return at < 0 ? name : name.substring(0, at);
    }

    /** Both were taken on one line of one method. */
    public static int same(byte[] ours, List<String> theirs) {
        List<String> mine = new ArrayList<>(List.of(new String(ours, StandardCharsets.UTF_8).split("\n")));
        if (!mine.isEmpty() && mine.get(0).startsWith("Probe.here"))
            mine.remove(0);
        mine.removeIf(f -> isIntrinsic(f));
        List<String> want = new ArrayList<>(theirs);
        want.removeIf(f -> isIntrinsic(f));
        int n = Math.min(mine.size(), want.size());
        boolean good = mine.size() == want.size() || (mine.size() == 512 - 1 && want.size() > 512);
        for (int i = 0; good && i < Math.min(n, 380); i++)
            good = mine.get(i).equals(want.get(i));
        if (!good) {
            System.out.println("WRONG\n  " + String.join("\n  ", mine) + "\nshould be\n  " + String.join("\n  ", want));
            System.out.flush();
            Runtime.getRuntime().halt(1);
        }
        checked++;
        return 1;
    }

    /** The JVM's walker leaves out linkers' frames, and the frame that a native call of reflection is. */
    static boolean isIntrinsic(String f) {
        return f.startsWith("java.lang.invoke.MethodHandle.linkTo") || f.startsWith("java.lang.invoke.MethodHandle.invokeBasic");
    }

    // ---- cases ----

    static int plain() {
        return same(here(), jvm());
    }

    static int inlined() {
        return one(3)
                + two(4);
    }

    static int one(int x) {
        return x > 5
                ? 0
                : same(here(), jvm());
    }

    static int two(int x) {
        int y = one(x);
        return y + one(
                x);
    }

    static int overloaded(int x) { return same(here(), jvm()); }

    static int overloaded(String x) {
        return same(here(), jvm());
    }

    static int overloaded() {
        return overloaded(1)
                + overloaded("x");
    }

    static int lambda() {
        IntFunction<Integer> f = i ->
                same(here(), jvm());
        Supplier<Integer> g = () -> f.apply(1);
        return g.get();
    }

    static int streams() {
        return IntStream.range(0, 2).map(i -> same(here(), jvm())).sum();
    }

    static int recursion(int depth) {
        if (depth == 0)
            return same(here(), jvm());
        return recursion(depth - 1);
    }

    static class Nested {
        class Inner {
            int call() {
                return new Object() {
                    int anonymous() {
                        return same(here(), jvm());
                    }
                }.anonymous();
            }
        }

        Nested() {
            same(here(), jvm());
        }
    }

    static int nested() {
        return new Nested().new Inner().call();
    }

    static final class Grüße {
        static int größe_名前_𝒻() {
            return same(here(), jvm());
        }
    }

    interface Shape {
        int call(int x);

        default int twice(int x) {
            return call(x) + call(x);
        }
    }

    static final Shape[] SHAPES = {x -> same(here(), jvm()), new Shape() {
        public int call(int x) {
            return same(here(), jvm());
        }
    }, Probe::one, x -> one(x)};

    static int dispatch() {
        int n = 0;
        for (Shape s : SHAPES)
            n += s.twice(1);
        return n;
    }

    static synchronized int locked() {
        synchronized (Nested.class) {
            return same(here(), jvm());
        }
    }

    static int thrown() {
        try {
            throw new IllegalStateException();
        } catch (IllegalStateException e) {
            return same(here(), jvm());
        } finally {
            same(here(), jvm());
        }
    }

    static final MethodHandle HANDLE = handle();

    static MethodHandle handle() {
        try {
            return MethodHandles.lookup().findStatic(Probe.class, "one", MethodType.methodType(int.class, int.class));
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    static int handles() throws Throwable {
        return (int) HANDLE.invokeExact(2);
    }

    static int onSwitch(int i) {
        switch (i & 3) {
        case 0:
            return same(here(), jvm());
        case 1:
            return same(here(), jvm());
        default:
            return same(here(), jvm());
        }
    }

    // ---- classes that come and go: the same names at other lines, where the last one's memory was ----

    static final Map<Integer, byte[]> VERSIONS = new HashMap<>();

    static final class Loader extends ClassLoader {
        final byte[] bytes;

        Loader(byte[] bytes) {
            super(Probe.class.getClassLoader());
            this.bytes = bytes;
        }

        Class<?> load() {
            return defineClass("Churn", bytes, 0, bytes.length);
        }
    }

    static byte[] compile(int lines) {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        String text = "\n".repeat(lines) + "public class Churn implements java.util.function.IntSupplier {\n"
                + "  public int getAsInt() { return deeper(1); }\n  static int deeper(int x) {\n    return x > 3 ? 0 :\n"
                + "      Probe.same(Probe.here(), Probe.jvm());\n  }\n}\n";
        JavaFileObject source = new SimpleJavaFileObject(URI.create("string:///Churn.java"), JavaFileObject.Kind.SOURCE) {
            public CharSequence getCharContent(boolean ignore) {
                return text;
            }
        };
        java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
        JavaFileManager files = new ForwardingJavaFileManager<>(compiler.getStandardFileManager(null, null, null)) {
            public JavaFileObject getJavaFileForOutput(Location l, String name, JavaFileObject.Kind kind, FileObject sibling) {
                return new SimpleJavaFileObject(URI.create("mem:///" + name), kind) {
                    public java.io.OutputStream openOutputStream() {
                        return out;
                    }
                };
            }
        };
        if (!compiler.getTask(null, files, null, List.of("-proc:none"), null, List.of(source)).call())
            throw new IllegalStateException("Churn does not compile");
        return out.toByteArray();
    }

    static void churn(int i) throws Exception {
        byte[] bytes = VERSIONS.computeIfAbsent(i % 7, Probe::compile);
        Class<?> c = i % 2 == 0 ? new Loader(bytes).load()
                : MethodHandles.lookup().defineHiddenClass(bytes, true).lookupClass();
        var call = (java.util.function.IntSupplier) c.getDeclaredConstructor().newInstance();
        for (int k = 0; k < 3; k++)
            call.getAsInt();
        if (i % 50 == 0)
            System.gc();
    }

    // ---- the run ----

    static void round(int i) throws Throwable {
        plain();
        inlined();
        overloaded();
        lambda();
        streams();
        recursion(i % 40);
        nested();
        Grüße.größe_名前_𝒻();
        dispatch();
        locked();
        thrown();
        handles();
        onSwitch(i);
        if (i % 10 == 0)
            churn(i / 10);
        if (i % 1000 == 0)
            recursion(700);
    }

    static void rounds(int n) {
        try {
            for (int i = 0; i < n; i++)
                round(i);
        } catch (Throwable t) {
            t.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    public static void main(String[] args) throws Exception {
        int rounds = Integer.parseInt(args[0]);
        System.load(args[1]);
        Thread t = new Thread(() -> rounds(rounds), "probe");
        t.start();
        t.join();
        System.out.println("ok " + checked + " stacks");
    }
}
