"""The truth tests of the JVM shim: every sample in its own trace, and each trace's share of the CPU time right.

    check_mix.py BUILD_DIR MODE JDK_HOME     MODE of Mix.java
"""
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jars  # noqa: E402
from dovetail_store import BUILD, LONG, folded, interval, ledgers, must, profile, told, traces  # noqa: E402

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


def wrong_and_unmarked(rows, own):
    """Samples with another trace's work or orphan() on the stack, and samples with no work method at all."""
    wrong = unmarked = 0
    for stack, weight in rows:
        names = {frame.split(" ")[0].split("(")[0].rsplit(".", 1)[-1] for frame in stack}
        marks = {name for name in names if name.startswith("work_") or name == "orphan"}
        wrong += weight * bool(marks - {own})
        unmarked += weight * (not marks)
    return wrong, unmarked


def main():
    mode, jdk = sys.argv[2], sys.argv[3]
    seconds = 60 if LONG else 8
    folder = pathlib.Path(BUILD) / "truth" / "jvm" / f"{mode}-{os.path.basename(jdk)}"
    class_path = os.pathsep.join([jars(BUILD), f"{BUILD}/lib/java/dovetail.jar"])
    folder.mkdir(parents=True, exist_ok=True)
    write_works(folder / "Works.java")
    compile_java(jdk, folder, class_path, HERE / "Mix.java", folder / "Works.java")
    # Not inlined: where a compiled method has no line of its own the JVM names the next one, which may be another trace's.
    out, store = profile(f"{jdk}/bin/java", "-Xmx256m", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Works.*",
                         "-cp", f"{class_path}{os.pathsep}{folder}", "Mix", mode, str(seconds), hz=999)
    spent = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}
    counts, wrong, unmarked = {}, 0, 0
    known = {t["trace_id"] for t in traces(store)}
    some = {t for t in spent if spent[t]}
    sure = {t for t in spent if spent[t] >= SURE_SHARE * sum(spent.values())}
    good = must(sure <= known <= some and len(sure) > 20,
                f"{len(known)} traces, all of them ours, and all {len(sure)} with work enough")
    for trace in spent:
        rows = folded(store, trace) if trace in known else []
        w, u = wrong_and_unmarked(rows, f"work_{int(trace, 16) - 1}")
        wrong, unmarked = wrong + w, unmarked + u
        counts[trace] = sum(weight for _, weight in rows) - u
    total = sum(counts.values()) + unmarked
    marked = total - unmarked
    good &= must(wrong == 0 and total > seconds * 200, f"{mode}: {wrong} of {total} samples in a wrong trace")
    inside = sum(low <= spent[t] / sum(spent.values()) <= high
                 for t in spent for low, high in [interval(counts[t], marked)])
    good &= must(inside >= 0.9 * len(spent), f"{inside} of {len(spent)} traces' shares within their 95% interval")
    led = ledgers(store)
    good &= must(led["samples"] == told(led), f"ledger: {led['samples']} samples = {led['joined']} joined + {led['outside']}"
                 f" outside + {led['ambiguous']} ambiguous + {led['lost_end']} lost")
    good &= must(led["no_stack"] <= 0.05 * led["joined"], f"{led['no_stack']} of {led['joined']} without a Java stack;"
                 f" {unmarked} between the work methods")
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
