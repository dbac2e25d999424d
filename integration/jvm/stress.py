"""JVMs under stress at 1 kHz while the daemon is killed and started again and profiling turned on and off: nothing breaks or grows.

    stress.py BUILD_DIR [SECONDS [JDK_HOME...]]     20 seconds, 1800 where DOVETAIL_LONG is set; on each JDK from 17 on

On each JDK, one JVM has the agent from its start (G1), another gets it by `dovetail attach` and loses it by `detach` in each round
(ZGC). A round is a tenth of the time, at most 10 s; at its end the daemon is killed. Held: both JVMs run to their end and leave no
hs_err file; memory and file descriptors of both and of the daemon do not grow in the last third; every sample has a fate.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jdks, skip  # noqa: E402
from dovetail_store import BUILD, LONG, ledgers, must, told, traces  # noqa: E402

MAX_ROUND_S = 10
MORE_FDS = 24  # threads that are being sampled just then: one or two each
MORE_MB = 48
JVM = ["-Xms192m", "-Xmx192m", "-XX:+AlwaysPreTouch", "-XX:ReservedCodeCacheSize=64m", "-XX:MaxMetaspaceSize=96m"]


class Daemon:
    def __init__(self, folder):
        self.folder, self.socket, self.store = folder, f"{folder}/control.sock", f"{folder}/store"
        self.log, self.process = f"{folder}/daemon.log", None

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([f"{BUILD}/bin/dovetaild", "--store", self.store, "--socket", self.socket,
                                             "--hz", "1000"], stderr=log)
        while self.process.poll() is None and not self.answers():
            pass
        return self.process.poll() is None

    def answers(self):
        return subprocess.run([f"{BUILD}/bin/dovetail", "status"], env=self.env(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def env(self):
        return {**os.environ, "DOVETAIL_SOCKET": self.socket}

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(60)


def jvm(folder, jdk, seconds, env, *options):
    return subprocess.Popen([f"{jdk}/bin/java", *JVM, *options, "-cp", f"{folder}:{BUILD}/lib/java/dovetail.jar", "Stress",
                             str(seconds)], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def size(pid):
    """(resident MB, file descriptors); None once it is gone."""
    with contextlib.suppress(OSError, StopIteration):
        with open(f"/proc/{pid}/status") as f:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        return rss // 1024, len(os.listdir(f"/proc/{pid}/fd"))
    return None


def switch(daemon, what, pid):
    """attach or detach; True if it was done."""
    done = subprocess.run([f"{BUILD}/bin/dovetail", what, str(pid)], env=daemon.env(), capture_output=True, text=True)
    if done.returncode:
        print(f"      {what}: exit {done.returncode}: {(done.stdout + done.stderr).strip()}")
    return done.returncode == 0


def grown(name, sizes):
    """Of what was seen in the second third and the last one."""
    third = len(sizes) // 3
    before, after = sizes[third:2 * third], sizes[2 * third:]
    mb, fds = (max(s[i] for s in after) - max(s[i] for s in before) for i in (0, 1))
    return must(mb <= MORE_MB and fds <= MORE_FDS, f"{name}: {sizes[-1][0]} MB and {sizes[-1][1]} descriptors at the end; in the"
                f" last third {mb:+d} MB and {fds:+d} descriptors at most")


def rounds(daemon, jvms, end, round_s):
    """Until `end`. Returns ({name: sizes}, rounds, attached and detached as often)."""
    sizes = {name: [] for name in [*jvms, "daemon"]}
    n = switched = 0
    while time.monotonic() < end:
        stop = min(end, time.monotonic() + round_s)
        switched += switch(daemon, "attach", jvms["attached"].pid)
        while time.monotonic() < stop and all(p.poll() is None for p in jvms.values()):
            time.sleep(round_s / 10)
        for name, pid in [*((name, p.pid) for name, p in jvms.items()), ("daemon", daemon.process.pid)]:
            sizes[name] += [s for s in [size(pid)] if s]
        switched -= switch(daemon, "detach", jvms["attached"].pid)
        n += 1
        daemon.end(9)
        if any(p.poll() is not None for p in jvms.values()) or not daemon.start():
            break
    return sizes, n, switched == 0


def stress(jdk, seconds):
    folder = tempfile.mkdtemp(prefix="stress-", dir=BUILD)
    compile_java(jdk, folder, f"{BUILD}/lib/java/dovetail.jar", HERE / "Stress.java")
    daemon = Daemon(folder)
    if not daemon.start():
        sys.exit(open(daemon.log).read())
    agent = f"-agentpath:{BUILD}/lib/libdovetail_jvm.so"
    jvms = {"agent": jvm(folder, jdk, seconds + 15, daemon.env(), "-XX:+UseG1GC", agent),
            "attached": jvm(folder, jdk, seconds + 15, os.environ, "-XX:+UseZGC")}
    for p in jvms.values():
        p.stdout.readline() # it has begun
    sizes, n, is_paired = rounds(daemon, jvms, time.monotonic() + seconds, min(MAX_ROUND_S, seconds / 10))
    outputs = {name: p.communicate()[0] for name, p in jvms.items()}
    daemon.end(15)
    good = must(n >= 3 and is_paired, f"{n} rounds, each with a daemon that was killed, and attached as often as detached")
    for name, p in jvms.items():
        last = (outputs[name].strip().splitlines() or ["(nothing)"])[-1]
        good &= must(p.returncode == 0 and last.startswith("done "), f"{name}: exit {p.returncode}, {last} scopes")
    good &= must(not list(pathlib.Path(folder).glob("hs_err*")), "no JVM has crashed")
    for name in sizes:
        good &= len(sizes[name]) < 3 or grown(name, sizes[name])
    led = ledgers(daemon.store)
    good &= must(led["samples"] == told(led) and led["joined"] > 0, f"ledger: {led['samples']} samples = {led['joined']} joined +"
                 f" {led['outside']} outside + {led['ambiguous']} ambiguous + {led['lost_end']} lost; {led['no_stack']} without a"
                 " Java stack")
    good &= must(traces(daemon.store), "the store can be read")
    if good:
        shutil.rmtree(folder)
    else:
        print(f"kept for a look: {folder}\n" + "\n".join(f"{k}: {v[-600:]}" for k, v in outputs.items()))
    return good


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1800 if LONG else 20
    homes = sys.argv[3:] or [home for version, home in jdks().items() if version >= 17]
    if not homes:
        skip("there is no JDK from 17 on")
    results = []
    for jdk in homes:
        print(f"{jdk}, {seconds:.0f} s", flush=True)
        results.append(stress(jdk, seconds))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
