"""Attaching to running JVMs under load, and detaching: what is in which trace, what is refused, what is left behind.

    check_attach.py BUILD_DIR JDK_HOME
"""
import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jars  # noqa: E402
from check_mix import method, write_works  # noqa: E402
from dovetail_store import BUILD, LONG, dovetail, folded, ledgers, must, told, traces  # noqa: E402
from mix_check import wrong_and_unmarked  # noqa: E402

JDK = sys.argv[2]
CYCLES = 100 if LONG else 6
MAX_GROWTH_KIB = 32 << 10  # of a JVM under load, which has not used all of its own yet
RESULT = {"good": True}
for name in ("DOVETAIL_SOCKET", "DOVETAIL_SERVICE", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
    os.environ.pop(name, None)


def check(claim, text):
    RESULT["good"] &= must(claim, text)


class Daemon:
    """A dovetaild with its own store and socket."""

    def __init__(self, folder):
        os.mkdir(folder)
        self.store, self.socket = f"{folder}/store", f"{folder}/control.sock"
        os.environ["DOVETAIL_SOCKET"] = self.socket
        self.process = subprocess.Popen([f"{BUILD}/bin/dovetaild", "--store", self.store, "--socket", self.socket, "--hz", "999"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.end)
        while subprocess.run([f"{BUILD}/bin/dovetail", "status"], capture_output=True).returncode:
            if self.process.poll() is not None:
                sys.exit("dovetaild does not start")

    def end(self):
        self.process.terminate()
        self.process.wait()


def java(*args, options=()):
    """Without Dovetail: not even DOVETAIL_SOCKET."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DOVETAIL")}
    return subprocess.Popen([f"{JDK}/bin/java", "-Xmx128m", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Works.*",
                             "-XX:CompileCommand=dontinline,Held.*", *options, *args], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


def command(name, *args):
    done = subprocess.run([f"{BUILD}/bin/dovetail", name, *map(str, args)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def await_jvm(p):
    """Until it could be attached to."""
    while command("attach", "--dry-run", p.pid)[0]:
        if p.poll() is not None:
            sys.exit(f"the JVM ended: {p.stdout.read()}")


def state(pid):
    """What there is of ours in a process."""
    fds = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            names.append(pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip())
        except OSError:
            pass  # it has just ended
    kib = int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])
    return {"fds": len(fds), "perf": sum("perf_event" in fd for fd in fds), "kib": kib,
            "threads": sum(name.lower().startswith(("dovetail", "zmq")) for name in names)}


# ---- refusals ----

def refusals(classes):
    """(options, what the answer must say): none may be sent SIGQUIT, which would print "Full thread dump"."""
    for options, why in ((["-XX:+DisableAttachMechanism"], "DisableAttachMechanism"),
                         (["-XX:+DisableAttachMechanism", "-XX:-UsePerfData"], "DisableAttachMechanism")):
        p = java("-cp", classes, "Held", "platform", options=options)
        p.stdout.readline()  # its first phase has worked
        code, text = command("attach", p.pid)
        check(code == 3 and why in text and p.poll() is None, f"refused: {' '.join(options)}")
        p.send_signal(signal.SIGSTOP)
        code, text = command("attach", p.pid)
        check(code == 3, "refused: stopped")
        p.send_signal(signal.SIGCONT)
        p.stdin.close()
        out = p.stdout.read()
        p.wait()
        check("thread dump" not in out, "it printed no threads")
    check(command("attach", p.pid)[0] == 1, "a process that has ended is not there")


# ---- contexts in flight ----

# method: the trace that it may be seen in, and whether it must be. All others: in none.
SEEN_IN = {"first": (2, True), "restored": (1, True), "kept": (3, True), "again": (3, False), "last": (5, True)}


def held(kind, classes, daemon):
    p = java("-cp", classes, "Held", kind, options=["-Djdk.virtualThreadScheduler.parallelism=1",
                                                    "-Djdk.virtualThreadScheduler.maxPoolSize=1"] if kind == "virtual" else [])

    def await_phase(n):
        line = p.stdout.readline()
        while line and line.strip() != str(n):  # a JVM's warnings
            line = p.stdout.readline()
        if not line:
            sys.exit(f"Held ended before its phase {n}")

    def next_phase():
        p.stdin.write("\n")
        p.stdin.flush()

    await_phase(0)
    code, text = command("attach", p.pid)
    check(code == 0 and "OpenTelemetry" in text, text.strip())
    for n in range(1, 9):
        next_phase()
        await_phase(n)
        if n == 3:
            check(command("detach", p.pid)[0] == 0, "detached within a scope")
        if n == 4:
            check(command("attach", p.pid)[0] == 0, "attached again within a scope of which nothing was seen")
    names = [line.split()[1] for line in dovetail("status").splitlines() if line.strip().startswith(str(p.pid))]
    check("Held" in names, f"the service is called by its main class: {names}")
    p.stdin.close()
    p.wait()
    daemon.end()
    seen = {}
    for t in traces(daemon.store):
        for stack, weight in folded(daemon.store, t["trace_id"]):
            for name in {method(frame.split(" ")[0]) for frame in stack if frame.startswith("Held.")}:
                seen[name, int(t["trace_id"], 16)] = seen.get((name, int(t["trace_id"], 16)), 0) + weight
    known = {"before", "first", "restored", "kept", "unseen", "still_unseen", "alien", "again", "last"}
    for name in sorted(known):
        trace, must_be = SEEN_IN.get(name, (None, False))
        elsewhere = {t: n for (m, t), n in seen.items() if m == name and t != trace}
        check(not elsewhere, f"{kind}: {name}(): {seen.get((name, trace), 0)} samples in trace {trace}, in others: {elsewhere}")
        check(not must_be or seen.get((name, trace), 0) > 10, f"{kind}: {name}() was seen")


# ---- load, and many cycles ----

def cycles(classes, daemon):
    seconds = 120 if LONG else 30
    # Its heap is there from the start, so that what grows is something else.
    p = java("-cp", classes, "Mix", "threads", str(seconds),
             options=["-Dotel.service.name=orders", "-Xms128m", "-XX:+AlwaysPreTouch"])
    await_jvm(p)
    states = []
    for i in range(CYCLES):
        for name in ("attach", "detach"):
            code, text = command(name, p.pid)
            if code:
                sys.exit(f"{name} in cycle {i}: {text}")
        states.append(state(p.pid))
    check(all(s["perf"] == 0 and s["threads"] == 0 for s in states), f"after each of {len(states)} detaches no event and no thread")
    # The connection over which a JVM answered may still be open.
    few, many = max(s["fds"] for s in states[:3]), min(s["fds"] for s in states[-3:])
    check(many <= few, f"file descriptors: {few}, then {many}")
    half, end = states[len(states) // 2]["kib"], states[-1]["kib"]
    check(end - half < MAX_GROWTH_KIB, f"memory: {half} KiB, then {end} KiB")
    code, text = command("attach", "--duration", "2s", p.pid)
    check(code == 0, "profiled for 2 s")
    p.kill()
    out = p.stdout.read()
    p.wait()
    check("thread dump" not in out and "Exception" not in out, "the program noticed nothing")
    daemon.end()
    wrong = total = 0
    for t in traces(daemon.store, "--service", "orders"):
        rows = folded(daemon.store, t["trace_id"], "--service", "orders")
        w, _ = wrong_and_unmarked(rows, f"work_{int(t['trace_id'], 16) - 1}", method)
        wrong, total = wrong + w, total + sum(weight for _, weight in rows)
    check(wrong == 0 and total > 100, f"{wrong} of {total} samples of the service, called as for OpenTelemetry, in a wrong trace")


def main():
    folder = pathlib.Path(BUILD) / "truth" / "jvm" / f"attach-{os.path.basename(JDK)}"
    class_path = os.pathsep.join([jars(BUILD), f"{BUILD}/lib/java/dovetail.jar"])
    folder.mkdir(parents=True, exist_ok=True)
    write_works(folder / "Works.java")
    compile_java(JDK, folder, class_path, HERE / "Mix.java", HERE / "Held.java", folder / "Works.java")
    classes = f"{class_path}{os.pathsep}{folder}"
    version = int(subprocess.run([f"{JDK}/bin/java", "-XshowSettings:properties", "-version"], capture_output=True, text=True)
                  .stderr.split("java.specification.version = ")[1].split()[0])
    place = tempfile.mkdtemp(prefix="attach-", dir="/tmp")
    for kind in ["platform"] * (version < 21 or LONG) + ["virtual"] * (version >= 21):
        daemon = Daemon(f"{place}/{kind}")
        held(kind, classes, daemon)
    daemon = Daemon(f"{place}/load")
    refusals(classes)
    cycles(classes, daemon)
    led = ledgers(daemon.store)
    check(led["samples"] == told(led), f"ledger: {led['samples']} samples, all told of")
    if RESULT["good"]:
        shutil.rmtree(place)
    else:
        print(f"kept for a look: {place}")
    sys.exit(0 if RESULT["good"] else 1)


if __name__ == "__main__":
    main()
