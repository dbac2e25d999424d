"""The truth tests of the JVM shim: every sample in its own trace, and each trace's share of the CPU time right.

    check_mix.py BUILD_DIR MODE JDK_HOME [POM]     MODE of Mix.java; with the artifacts of that pom, if not of pom.xml
"""
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jars  # noqa: E402
from dovetail_store import BUILD, LONG, SURE, profile  # noqa: E402
from mix_check import judge  # noqa: E402

N_TRACES = 40
SURE_SHARE = 0.005  # a trace with that much of the work cannot go without a sample


def write_works(path):
    """One method for each trace, and one for none."""
    lines = ["public final class Works {"]
    body = "(int n) { long x = 0; for (int i = 0; i < n; i++) x += i * i % 7 ^ x >>> 3; return x; }"
    lines += [f"    static long work_{k}{body}" for k in range(N_TRACES)]
    lines += [f"    public static long orphan{body}", "    public static long work(int k, int n) {", "        switch (k) {"]
    lines += [f"        case {k}: return work_{k}(n);" for k in range(N_TRACES)]
    lines += ["        default: throw new IllegalArgumentException();", "        }", "    }", "}"]
    path.write_text("\n".join(lines) + "\n")


def method(frame):
    return frame.split("(")[0].rsplit(".", 1)[-1]


def main():
    mode, jdk, pom = sys.argv[2], sys.argv[3], (sys.argv[4:] + ["pom.xml"])[0]
    seconds = 60 if LONG else 8
    folder = pathlib.Path(BUILD) / "truth" / "jvm" / f"{mode}-{os.path.basename(jdk)}-{pom}"
    class_path = os.pathsep.join([jars(BUILD, HERE / pom), f"{BUILD}/lib/java/dovetail.jar"])
    folder.mkdir(parents=True, exist_ok=True)
    write_works(folder / "Works.java")
    compile_java(jdk, folder, class_path, HERE / "Mix.java", folder / "Works.java")
    out, store = profile(f"{jdk}/bin/java", "-Xmx256m", "-cp", f"{class_path}{os.pathsep}{folder}", "Mix", mode, str(seconds), hz=999)
    # With inlining, samples in instructions that C2 shares among the work functions count for none of them, and how many that
    # are differs by function: the shares err by more than chance alone.
    good = judge(mode, out, store, sure_work=lambda work: SURE_SHARE * work, more_than=20, at_least=seconds * 200, no_stack=0.02,
                 z=SURE, plain=method)
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
