"""What a scope costs a Java thread, beside async-profiler's Span.start + endIfProfiled in the same run; and what the hook adds to
OpenTelemetry's makeCurrent + close, by runs with and without the agent that take turns.

    bench_jvm.py [ROUNDS]     in the build folder DOVETAIL_BUILD
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("DOVETAIL_BUILD") or str(ROOT / "build")
sys.path.insert(0, str(ROOT / "integration" / "jvm"))
from artifacts import compile_java, jars, jdks  # noqa: E402

PAIRS = 3


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[0]: float(line[1]) for line in lines if len(line) == 2}


def best(runs):
    return {name: min(r[name] for r in runs) for name in runs[0]}


def measure(jdk, class_path, rounds):
    hooked, plain = [], []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as folder:
        java = [f"{jdk}/bin/java", "-cp", class_path, "Bench", rounds, f"{folder}/ap.jfr"]
        for i in range(PAIRS):
            hooked.append(run([f"{BUILD}/bin/dovetail", "run", "-o", f"{folder}/store{i}", "--hz", "99", "--", *java]))
            plain.append(run(java))
    return best(hooked), best(plain)


def main():
    rounds = sys.argv[1] if len(sys.argv) > 1 else "400"
    class_path = os.pathsep.join([jars(BUILD), f"{BUILD}/lib/java/dovetail.jar"])
    for version, jdk in sorted(jdks().items()):
        folder = f"{BUILD}/bench/jvm-{version}"
        compile_java(jdk, folder, class_path, ROOT / "tests/bench/jvm/Bench.java")
        h, p = measure(jdk, f"{class_path}{os.pathsep}{folder}", rounds)
        print(f"JDK {version}: best of {PAIRS} runs of {rounds} short rounds, ns")
        print(f"  Scope open+close, no sample {h['scope']:8.1f}   async-profiler's Span {h['span']:6.1f}"
              f"   ratio {h['scope'] / h['span']:.2f}   System.nanoTime {h['nanoTime']:.1f}")
        print(f"  the same with a label       {h['labelled']:8.1f}")
        print(f"  kept scope                  {h['kept']:8.1f}")
        for name, text in ("makeCurrent", "of one context"), ("makeCurrentOfMany", "of many spans"):
            print(f"  makeCurrent+close {text:<15} unhooked {p[name]:6.1f}   hooked {h[name]:6.1f}   added {h[name] - p[name]:6.1f}")


if __name__ == "__main__":
    main()
