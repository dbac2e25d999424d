"""A JVM that lives for one request gives its complete chunk.

    check_short.py BUILD_DIR JDK_HOME
"""
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jars  # noqa: E402
from dovetail_store import BUILD, by_frame, dovetail, folded, ledgers, must, profile, told, traces  # noqa: E402


def main():
    jdk = sys.argv[2]
    folder = pathlib.Path(BUILD) / "truth" / "jvm" / f"short-{os.path.basename(jdk)}"
    class_path = jars(BUILD)
    compile_java(jdk, folder, class_path, HERE / "Short.java")
    out, store = profile(f"{jdk}/bin/java", "-cp", f"{class_path}{os.pathsep}{folder}", "Short", hz=999)
    trace = out.split()[-1]
    found = traces(store)
    good = must([t["trace_id"] for t in found] == [trace], f"{len(found)} trace, the one it printed")
    good &= must(found and found[0]["root_name"] == "GET /once", "it has its name")
    good &= must(found and found[0]["duration_ns"] >= 100_000_000, "and its whole length: its scope was closed")
    rows = folded(store, trace)
    inside = by_frame(rows, {"Short.main"})
    good &= must(inside["all"] >= 20 and inside["Short.main"] >= 0.9 * inside["all"],
                 f"{inside['Short.main']} of {inside['all']} samples in main")
    led = ledgers(store)
    good &= must(led["samples"] == told(led), f"ledger: {led['samples']} samples, all told of")
    dovetail("verify", "--store", store)
    if good:
        shutil.rmtree(store)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
