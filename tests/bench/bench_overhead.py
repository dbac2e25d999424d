"""What the profiling costs, in ratios, both sides in one run.

    bench_overhead.py daemon    CPU of the daemon at 10,000 scopes/s on 32 threads (target: under 1% of a core)
    bench_overhead.py perf      CPU added by `dovetail run` at 99 Hz against `perf record` on the same program (target: 1.1x)

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


def children_cpu(command, env=None):
    """CPU seconds of command and all it waited for, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


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


def perf():
    folder = tempfile.mkdtemp()
    load = [SPIN, "2", "100", "10000000", "0"]
    kinds = {
        "bare": load,
        "perf record -F 99": ["perf", "record", "-q", "-e", "cpu-clock", "-F", "99", "-o", f"{folder}/perf.data", *load],
        "perf record -F 99 --call-graph dwarf": ["perf", "record", "-q", "-e", "cpu-clock", "-F", "99", "--call-graph",
                                                 "dwarf,8192", "-o", f"{folder}/perf.data", *load],
        "dovetail run --hz 99": [f"{BUILD}/bin/dovetail", "run", "-o", f"{folder}/store", "--hz", "99", "--", *load],
    }
    cpu = {kind: [] for kind in kinds}
    app = {kind: [] for kind in kinds}
    for _ in range(int(os.environ.get("ROUNDS", "15"))):
        for kind, command in kinds.items():
            used, out = children_cpu(command)
            line = next(x for x in out.splitlines() if x.startswith("scopes"))
            cpu[kind].append(used)
            app[kind].append(float(line.split()[5]))
            shutil.rmtree(f"{folder}/store", ignore_errors=True)
    # The least of many short runs: what the machine's other guests take is only ever added.
    bare = min(app["bare"])
    reference = None
    for kind in kinds:
        own, helpers = min(app[kind]), statistics.median(c - a for c, a in zip(cpu[kind], app[kind]))
        cost = own + helpers - bare - (statistics.median(c - a for c, a in zip(cpu["bare"], app["bare"])))
        reference = cost if kind.startswith("perf") and "dwarf" in kind else reference
        print(f"{kind:40s} the program {own:.3f} s CPU ({100 * (own / bare - 1):+.2f}%), other processes {helpers:.3f} s")
        if kind.startswith("dovetail"):
            print(f"cost {cost:.3f} s, {cost / reference:.2f} of perf record's with the same stacks (target: 1.10); the whole,"
                  f" program and profiler, {(own + helpers) / bare:.3f} of the bare program")
    shutil.rmtree(folder)


if __name__ == "__main__":
    {"daemon": daemon, "perf": perf}[sys.argv[1]]()
