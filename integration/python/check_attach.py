"""Attaching to running Pythons, and detaching: whatever the main thread does, under load, and refused where it would harm.

    check_attach.py BUILD_DIR PYTHON_WITH_PACKAGES [PYTHON...]     the rest: interpreters whose states are tried
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, str(HERE.parent / "truth"))
from dovetail_store import BUILD, LONG, folded, ledgers, must, told, traces  # noqa: E402
from mix_check import wrong_and_unmarked  # noqa: E402

MIX = HERE.parent / "truth" / "py_mix.py"
CYCLES = 300 if LONG else 8
STOPPED = re.compile(r"held for ([0-9.]+) ms")
RESULT = {"good": True}
for variable in ("DOVETAIL_SOCKET", "DOVETAIL_SERVICE", "PYTHONPATH", "DOVETAIL"):
    os.environ.pop(variable, None)


def check(claim, text):
    RESULT["good"] &= must(claim, text)


def command(*args, socket=None):
    env = dict(os.environ, **({"DOVETAIL_SOCKET": socket} if socket else {}))
    done = subprocess.run([f"{BUILD}/bin/dovetail", *map(str, args)], capture_output=True, text=True, env=env)
    return done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def started(*line):
    """A program that says "up" once it does what is asked of it."""
    with subprocess.Popen([str(word) for word in line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as p:
        try:
            assert p.stdout.readline() == "up\n", p.stderr.read()
            yield p
        finally:
            p.kill()


@contextlib.contextmanager
def daemon(folder):
    socket = f"{folder}/control.sock"
    with subprocess.Popen([f"{BUILD}/bin/dovetaild", "--store", f"{folder}/store", "--socket", socket, "--hz", "999"],
                          stderr=subprocess.DEVNULL) as p:
        try:
            while command("status", socket=socket)[0]:
                assert p.poll() is None
            yield socket
        finally:
            p.terminate()


# ---- what the main thread does ----

STATES = {
    "runs": "while True: sum(range(1000))",
    "sleeps beside a thread that runs": "threading.Thread(target=spin, daemon=True).start(); time.sleep(1000)",
    "waits for a thread": "t = threading.Thread(target=spin, daemon=True); t.start(); t.join()",
    "waits for a lock": "l = threading.Lock(); l.acquire(); l.acquire()",
    "waits in its event loop": "asyncio.new_event_loop().run_forever()",
    "reads": "sys.stdin.read()",
    "accepts": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()",
    "waits for a child": "subprocess.run(['sleep', '1000'])",
    "is in C without the lock": "ctypes.CDLL(None).sleep(1000)",
    "allocates": "while True: [bytearray(k) for k in range(1000)]",
    "forks": "while True: os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
}
HELD = "ctypes.PyDLL(None).sleep(7); time.sleep(1000)"
PROGRAM = """import asyncio, ctypes, os, socket, subprocess, sys, threading, time
def spin():
    while True:
        sum(range(1000))
print("up", flush=True)
"""


def states(python, socket):
    """Attached and detached in each, twice."""
    failed, held = [], []
    for name, code in STATES.items():
        with started(python, "-c", PROGRAM + code) as p:
            for what in ("attach", "detach", "attach", "detach"):
                rc, text = command(what, p.pid, socket=socket)
                found = STOPPED.search(text)
                if rc or not found or p.poll() is not None:
                    failed.append(f"{name}: {what}: {text.strip()}")
                    break
                held.append(float(found.group(1)))
            else:
                failed += [f"{name}: {n} threads left" for n in [len(os.listdir(f"/proc/{p.pid}/task"))]
                           if n > 1 + ("thread" in name)]
            for child in subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
    held = sorted(held) or [0]
    check(not failed, f"{python}: in {len(STATES)} states of its main thread, held for {held[len(held) // 2]:.1f} ms (median), "
          f"{held[-1]:.1f} ms (most) {failed or ''}")


# ---- refusals ----

TRACER = "import ctypes, os, sys; ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0); print('up', flush=True); sys.stdin.read()"


def refusals(python, socket):
    def refused(p, why, title):
        rc, text = command("attach", p.pid, socket=socket)
        check(rc == 3 and why in text and p.poll() is None, f"refused: {title}: {text.strip()}")
    with started(python, "-c", PROGRAM + STATES["runs"]) as p:
        p.send_signal(signal.SIGSTOP)
        refused(p, "stopped", "stopped")
        p.send_signal(signal.SIGCONT)
        with started(python, "-c", TRACER, p.pid) as tracer:
            refused(p, f"process {tracer.pid} traces it", "traced")
    with started("env", "DOVETAIL=off", python, "-c", PROGRAM + STATES["runs"]) as p:
        refused(p, "DOVETAIL=off", "switched off")
    check(command("attach", p.pid, socket=socket)[0] == 1, "a process that has ended is not there")
    with started(python, "-c", PROGRAM + HELD) as p:
        refused(p, "runs no Python now", "in C with Python's lock for long")
        p.stdout.close()
        check("not profiled" in command("detach", p.pid, socket=socket)[1], "what came too late did nothing")


# ---- by name, by tree ----

def selectors(python, socket):
    name = f"called-{os.getpid()}"
    line = f'"$1" -c "$2" {name} & "$1" -c "$2" & wait'
    with started("sh", "-c", line, "sh", python, PROGRAM + STATES["runs"]) as p:
        p.stdout.readline()  # both are up
        rc, text = command("attach", "--dry-run", "--tree", p.pid, socket=socket)
        check(rc == 0 and text.count("would be attached") == 2 and "1 more process" in text, "a tree: the two Pythons in it, not the shell")
        rc, text = command("attach", "--name", f"*python* {name}", socket=socket)
        check(rc == 0 and text.count(": attached") == 1, f"by its command line: {text.splitlines()[0]}")
        rc, text = command("detach", "--tree", p.pid, socket=socket)
        check(rc == 0 and text.count("detached") == 1 and len(text.splitlines()) == 1, "detached, the one of the tree that was attached to")
        for child in subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split():
            os.kill(int(child), signal.SIGKILL)
    rc, text = command("attach", "--cgroup", "no/such/group", socket=socket)
    check(rc == 1 and "no control group" in text, text.strip())


# ---- contexts in flight ----

def in_flight(python, mode, place):
    """Attached to twice in the middle: what began before, and went on while nothing was seen, is in no wrong trace."""
    wrong = total = 0
    folder = f"{place}/{mode}"
    code = ("import runpy, sys, opentelemetry.sdk.trace; sys.argv = sys.argv[1:]; print('up', flush=True); "
            "runpy.run_path(sys.argv[0], run_name='__main__')")
    with started(python, "-c", code, MIX, mode, "600") as p:
        for turn in range(10 if LONG else 2):
            rc, text = command("attach", "-o", f"{folder}{turn}", "--hz", 999, "-d", "1500ms", p.pid)
            check(rc == 0 and p.poll() is None, f"{mode}: {text.splitlines()[0] if rc == 0 else text}")
        p.kill()
        said = p.stderr.read()
    check(not said, f"{mode}: the program said nothing {said}")
    for turn in range(10 if LONG else 2):
        for t in traces(f"{folder}{turn}"):
            rows = folded(f"{folder}{turn}", t["trace_id"])
            wrong += wrong_and_unmarked(rows, f"work_{int(t['trace_id'], 16) - 1}", str)[0]
            total += sum(weight for _, weight in rows)
        led = ledgers(f"{folder}{turn}")
        check(led["samples"] == told(led), f"{mode}: ledger: {led['samples']} samples, all told of")
    check(wrong == 0 and total > 1000, f"{mode}: {wrong} of {total} samples in a wrong trace")


# ---- many cycles ----

def target_of(link):
    try:
        return os.readlink(link)
    except FileNotFoundError:  # closed in between
        return ""


def state(pid):
    fds = [target_of(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    kib = int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])
    own = [fd for fd in fds if fd and not fd.startswith("pipe:") and "pidfd" not in fd]  # the load's children come and go
    return len(own), sum("perf_event" in fd for fd in fds), kib


LOAD = """
async def main():
    async def work():
        while True:
            sum(range(3000)); await asyncio.sleep(0)
    async def children():
        while True:
            await (await asyncio.create_subprocess_exec("true")).wait()
    threading.Thread(target=spin, daemon=True).start()
    await asyncio.gather(*(work() for _ in range(20)), children())
asyncio.run(main())
"""


def cycles(python, socket):
    states_seen, held = [], []
    with started(python, "-c", PROGRAM + LOAD) as p:
        for i in range(CYCLES):
            for what in ("attach", "detach"):
                rc, text = command(what, p.pid, socket=socket)
                if rc or p.poll() is not None:
                    check(False, f"{python}: {what} in cycle {i}: {text}")
                    return
                held.append(float(STOPPED.search(text).group(1)))
            states_seen.append(state(p.pid))
    held.sort()
    first, last = states_seen[min(2, CYCLES // 2)], states_seen[-1]
    check(all(perf == 0 for _, perf, _ in states_seen) and last[0] <= max(s[0] for s in states_seen[:4]) and
          last[2] < first[2] + (8 << 10), f"{python}: {CYCLES} cycles under load: {first} then {last} descriptors, events, KiB; held for "
          f"{held[len(held) // 2]:.1f} ms (median), {held[len(held) * 99 // 100]:.1f} ms (99%)")


def main():
    packages, others = sys.argv[2], sys.argv[3:]
    place = tempfile.mkdtemp(prefix="attach-", dir="/tmp")
    with daemon(place) as socket:
        for python in others:
            states(python, socket)
        refusals(others[0], socket)
        selectors(others[0], socket)
        for python in others if LONG else others[-1:]:
            cycles(python, socket)
    for mode in ("otel", "otel_threads"):
        in_flight(packages, mode, place)
    if RESULT["good"]:
        shutil.rmtree(place)
    else:
        print(f"kept for a look: {place}")
    sys.exit(0 if RESULT["good"] else 1)


if __name__ == "__main__":
    main()
