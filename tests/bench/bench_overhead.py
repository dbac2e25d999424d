"""What the profiling costs, in ratios, both sides in one run.

    bench_overhead.py daemon    CPU of the daemon at 10,000 scopes/s on 32 threads (target: under 1% of a core)
    bench_overhead.py perf      CPU taken by `dovetail run` at 99 Hz against `perf record` on the same program (target: 1.1x)

DOVETAIL_BUILD names the build folder (default ../../build).
"""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("DOVETAIL_BUILD") or os.path.join(os.path.dirname(__file__), "../../build")
SPIN = f"{BUILD}/bench/spin"


def cpu_of(pid):
    with open(f"/proc/{pid}/schedstat") as f:
        main = int(f.read().split()[0])
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return max(total, main) / 1e9


def daemon():
    folder = tempfile.mkdtemp()
    env = {**os.environ, "DOVETAIL_SOCKET": f"{folder}/control.sock"}
    process = subprocess.Popen([f"{BUILD}/bin/dovetaild", "--store", f"{folder}/store"], env=env, stderr=subprocess.DEVNULL)
    try:
        while not os.path.exists(f"{folder}/control.sock"):
            time.sleep(0.05)
        begin, cpu = time.monotonic(), cpu_of(process.pid)
        # 32 threads of 312 rounds a second: about 10,000 scopes of 20 us a second.
        out = subprocess.run([SPIN, "32", "6250", "6000", "3000"], env=env, capture_output=True, text=True, check=True).stdout
        wall, cpu = time.monotonic() - begin, cpu_of(process.pid) - cpu
        words = out.split()
        print(f"daemon: {int(words[1]) / float(words[3]):.0f} scopes/s on 32 threads, {100 * cpu / wall:.2f}% of a core"
              f" over {wall:.1f} s (target: under 1%)")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def one_run(command, folder):
    """(Microseconds taken from the program in short gaps, CPU seconds of all other processes) of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = next(line for line in out.splitlines() if line.startswith("gaps")).split()
    shutil.rmtree(f"{folder}/store", ignore_errors=True)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(words[3]), used - float(words[10]) / 1e6


def perf():
    """The program's loss is what lies in the gaps of a thread that does nothing but look for them, beyond those of a bare run:
    its CPU time varies here by far more than either profiler costs. The profiler's own CPU is that of a long run less that of a
    short one: the start is not sampling."""
    folder, short, long = tempfile.mkdtemp(), 1, 5
    record = ["perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "99", "-o", f"{folder}/perf.data"]
    kinds = {
        "bare": [],
        "perf record -F 99": record,
        "perf record -F 99 -g": [*record, "-g"],
        "perf record -F 99 --call-graph dwarf,8192": [*record, "--call-graph", "dwarf,8192"],
        "dovetail run --hz 99": [f"{BUILD}/bin/dovetail", "run", "-o", f"{folder}/store", "--hz", "99", "--"],
    }
    lost, own = {k: [] for k in kinds}, {k: [] for k in kinds}
    for _ in range(int(os.environ.get("ROUNDS", "9"))):
        for kind, prefix in kinds.items():
            gaps_short, cpu_short = one_run([*prefix, f"{BUILD}/bench/gaps", str(short)], folder)
            gaps_long, cpu_long = one_run([*prefix, f"{BUILD}/bench/gaps", str(long)], folder)
            lost[kind].append((gaps_long - gaps_short) / (long - short))
            own[kind].append(1e6 * (cpu_long - cpu_short) / (long - short))
    shutil.rmtree(folder)
    bare_lost, bare_own = statistics.median(lost["bare"]), statistics.median(own["bare"])
    costs = {}
    for kind in kinds:
        # Own: everything but the program, which is on its CPU all the time, bare or not.
        inside, outside = statistics.median(lost[kind]) - bare_lost, max(0.0, statistics.median(own[kind]) - bare_own)
        costs[kind] = inside + outside
        spread = statistics.quantiles(lost[kind], n=4)
        print(f"{kind:44s} takes {inside:7.0f} us/s from the program [{spread[0] - bare_lost:.0f}, {spread[2] - bare_lost:.0f}]"
              f" and {outside:7.0f} us/s of its own: {costs[kind] / 1e4:.2f}% of a core, {costs[kind] / 99:.0f} us a sample")
    reference = costs["perf record -F 99 --call-graph dwarf,8192"]
    print(f"dovetail / perf record with the same stacks: {costs['dovetail run --hz 99'] / reference:.2f} (target: 1.10)")


if __name__ == "__main__":
    {"daemon": daemon, "perf": perf}[sys.argv[1]]()
