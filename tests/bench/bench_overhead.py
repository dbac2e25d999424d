"""What the profiling costs, in ratios, both sides in one run.

    bench_overhead.py daemon    CPU of the daemon at 10,000 scopes/s on 32 threads (target: under 1% of a core)
    bench_overhead.py perf      CPU taken by `dovetail run` at 99 Hz against `perf record` on the same program (target: 1.1x), and
                                against what perf takes until it has the frames too
    bench_overhead.py wall      CPU time of a pipe ping-pong between two scoped threads, by `run` and by `run --wall` (target: 1.1x)

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


def pingpong(*options):
    store = tempfile.mkdtemp()
    try:
        out = subprocess.run([f"{BUILD}/bin/dovetail", "run", "-o", store, *options, "--", f"{BUILD}/bench/pingpong", "20000"],
                             capture_output=True, text=True, check=True).stdout
        return int(out.split()[1])
    finally:
        shutil.rmtree(store)


def wall():
    ratios = []
    for _ in range(8):  # alternating: what the machine does beside it hits both
        plain, with_waits = pingpong("--cpu"), pingpong("--wall")
        ratios.append(with_waits / plain)
        print(f"wall: a round trip takes {plain} ns of CPU time, {with_waits} with --wall: {ratios[-1]:.3f}x")
    print(f"wall: median {statistics.median(ratios):.3f}x, best {min(ratios):.3f}x (target: 1.1x)")


def task_ns(path):
    with open(f"{path}/schedstat") as f:
        return int(f.read().split()[0])


def cpu_around(program):
    """ns of CPU time of all processes from `program`'s upwards and beside it (below this one), but its main thread."""
    parents, total, ours = {}, 0, {os.getpid()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                parents[int(pid)] = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass  # it has ended
    for pid in sorted(parents):
        above = pid
        while above and above not in ours:
            above = parents.get(above, 0)
        if above and pid != os.getpid():
            ours.add(pid)
            total += sum(task_ns(f"/proc/{pid}/task/{t}") for t in os.listdir(f"/proc/{pid}/task") if int(t) != program)
    return total


def child_called(name, root):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == name and int(pid) >= root:
                    return int(pid)
        except OSError:
            pass
    raise SystemExit(f"no {name} is running")


def one_run(command, seconds):
    """Microseconds a second (taken from the program in short gaps, CPU of all that is not its main thread)."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as p:
        while p.stdout.readline() != "begin\n":
            pass
        program = child_called("gaps", p.pid)
        before = cpu_around(program)
        words = p.stdout.readline().split()
        own = cpu_around(program) - before
        p.communicate("\n")
    return float(words[3]) / seconds, own / 1e3 / seconds


def script_cost(data, seconds):
    """Microseconds of CPU time that `perf script` takes for each second recorded: until then its stacks are raw bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["perf", "script", "-i", data], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)) * 1e6 / seconds


def perf():
    """What lies in the gaps of a thread that does nothing but look for them, beyond those of a bare run (its CPU time varies here
    by far more than either profiler costs), and the CPU time of everything else. Nothing of start and end is in it."""
    folder, seconds = tempfile.mkdtemp(), 5
    record = ["perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "99", "-o", f"{folder}/perf.data"]
    kinds = {
        "bare": [],
        "perf record -F 99": record,
        "perf record -F 99 -g": [*record, "-g"],
        "perf record -F 99 --call-graph dwarf,8192": [*record, "--call-graph", "dwarf,8192"],
        "dovetail run --hz 99": [f"{BUILD}/bin/dovetail", "run", "-o", f"{folder}/store", "--hz", "99", "--"],
    }
    lost, own, script = {k: [] for k in kinds}, {k: [] for k in kinds}, []
    for _ in range(int(os.environ.get("ROUNDS", "9"))):
        for kind, prefix in kinds.items():
            taken, cpu = one_run([*prefix, f"{BUILD}/bench/gaps", str(seconds)], seconds)
            shutil.rmtree(f"{folder}/store", ignore_errors=True)
            if "dwarf" in kind:
                script.append(script_cost(f"{folder}/perf.data", seconds))
            lost[kind].append(taken)
            own[kind].append(cpu)
    shutil.rmtree(folder)
    bare_lost = statistics.median(lost["bare"])
    costs = {}
    for kind in kinds:
        inside, outside = statistics.median(lost[kind]) - bare_lost, statistics.median(own[kind])
        costs[kind] = inside + outside
        spread = statistics.quantiles(lost[kind], n=4)
        print(f"{kind:44s} takes {inside:7.0f} us/s from the program [{spread[0] - bare_lost:.0f}, {spread[2] - bare_lost:.0f}]"
              f" and {outside:7.0f} us/s of its own: {costs[kind] / 1e4:.2f}% of a core, {costs[kind] / 99:.0f} us a sample")
    ours, reference, names = costs["dovetail run --hz 99"], costs["perf record -F 99 --call-graph dwarf,8192"], statistics.median(script)
    print(f"perf script: {names:.0f} us for each second recorded, for the frames that dovetaild has found and named as it went")
    print(f"dovetail / perf record with the same stacks: {ours / reference:.2f} (target: 1.10); / perf record and perf script: "
          f"{ours / (reference + names):.3f}")


if __name__ == "__main__":
    {"daemon": daemon, "perf": perf, "wall": wall}[sys.argv[1]]()
