"""Attaching to a C program that has called dvt_start and sleeps, and detaching: what is in which trace, what is refused, what is left
behind.   check_attach_c.py
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "truth"))
from dovetail_store import BUILD, LONG, folded, ledgers, must, told, traces  # noqa: E402
from mix_check import wrong_and_unmarked  # noqa: E402

CYCLES = 100 if LONG else 8
THREADS = 3
RESULT = {"good": True}
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("DOVETAIL", "OTEL"))}


def check(claim, text):
    RESULT["good"] &= must(claim, text)


def start(*args, env=None):
    p = subprocess.Popen([f"{BUILD}/truth/truth_dormant", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env={**ENV, **(env or {})})
    while "libdovetail.so" not in pathlib.Path(f"/proc/{p.pid}/maps").read_text():
        time.sleep(0.01)
    time.sleep(0.1)  # dvt_start is its first call
    return p


def end(p):
    served = int(p.communicate(timeout=60)[0])
    check(p.returncode == 0 and served > 0, f"it went on to its end: {served} requests")


def ask(*args, user=None):
    done = subprocess.run([f"{BUILD}/bin/dovetail", *map(str, args)], capture_output=True, text=True, env=ENV, user=user)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def resources(pid):
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    threads = len(os.listdir(f"/proc/{pid}/task"))
    rss = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
    return fds, threads, rss


def samples_of(store):
    """(samples, of them wrong, unknown traces) over all traces. Of a request that was under way only the inner scope was seen to
    open: it has no id of its own and is told as a trace of its own."""
    n = wrong = unknown = 0
    for t in traces(store):
        rows = folded(store, t["trace_id"])
        n += sum(weight for _, weight in rows)
        k = int(t["trace_id"], 16) - 1
        unknown += k >= 8
        wrong += wrong_and_unmarked(rows, f"work_{k}", str)[0] if k < 8 else sum(w for stack, w in rows if "orphan" in stack)
    return n, wrong, unknown


def cycles(folder):
    p = start()
    code, out, _ = ask("attach", "--dry-run", p.pid)
    check(code == 0 and out.endswith("would be attached"), f"dry run: {out}")
    code, out, _ = ask("detach", p.pid)
    check(code == 1 and "not profiled" in out, f"detach before: {out}")
    total = wrong = 0
    before = None
    for i in range(CYCLES):
        store = f"{folder}/store-{i}"
        code, out, err = ask("attach", "--duration", "700ms", "--hz", "997", "-o", store, p.pid)
        if code or "attached: scopes of dovetail.h" not in out or ": detached" not in out:
            check(False, f"cycle {i}: exit {code} {out} {err}")
            break
        n, w, unknown = samples_of(store)
        led = ledgers(store)
        # At a detach a thread's last sample may be one of a scope that nobody will say more of.
        if (not n or unknown > THREADS or led["samples"] != told(led) or led["lost_end"] > 2 * THREADS or led["lost_kernel"]
                or led["lost_queue"] or led["uncovered_ns"] > 200_000_000):
            check(False, f"cycle {i}: {n} samples, {unknown} unknown traces; {dict(led)}")
        total, wrong = total + n, wrong + w
        shutil.rmtree(store)
        before = before or resources(p.pid)
    after = resources(p.pid)
    check(wrong == 0 and total > 100 * CYCLES, f"{CYCLES} times attached and detached: {wrong} of {total} samples in a wrong trace")
    check(after[0] == before[0] and after[1] == before[1] and after[2] < before[2] + 2048,
          f"left behind since the first: {after[0] - before[0]} descriptors, {after[1] - before[1]} threads, {after[2] - before[2]} KiB")
    end(p)


def namespaces(folder):
    """In pid, mount, network and user namespaces of its own, as in a container."""
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        print("ok    namespaces cannot be made here: not looked at")
        return
    outer = subprocess.Popen([*inside, f"{BUILD}/truth/truth_dormant"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, env=ENV)
    pid = None
    while not pid:
        pid = next((int(d) for d in os.listdir("/proc") if d.isdigit() and parent(d) == outer.pid and is_ready(d)), None)
        time.sleep(0.01)
    time.sleep(0.1)
    code, out, err = ask("attach", "--duration", "1s", "--hz", "997", "-o", f"{folder}/store-ns", pid)
    n, wrong, unknown = samples_of(f"{folder}/store-ns") if code == 0 else (0, 0, 0)
    check(code == 0 and n > 100 and wrong == 0 and unknown <= THREADS, f"in namespaces of its own: {wrong} of {n} samples in a wrong trace")
    end(outer)


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def is_ready(pid):
    try:
        return "libdovetail.so" in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def refusals():
    p = start("no-start")
    code, out, _ = ask("attach", p.pid)
    check(code == 3 and "dvt_start" in out, f"one that never calls dvt_start: {out}")
    end(p)
    p = start(env={"DOVETAIL": "off"})
    code, out, _ = ask("attach", p.pid)
    check(code == 3 and "DOVETAIL=off" in out, f"switched off: {out}")
    end(p)
    p = start()
    os.kill(p.pid, signal.SIGSTOP)
    code, out, _ = ask("attach", p.pid)
    check(code == 3 and ("stopped" in out or "do not run" in out), f"stopped: {out}")
    os.kill(p.pid, signal.SIGCONT)
    if os.geteuid() == 0:
        code, out, _ = ask("attach", p.pid, user=65534)
        check(code == 3 and "as root" in out, f"another user's: {out}")
    end(p)


def main():
    with tempfile.TemporaryDirectory(prefix="attach-c-") as folder:
        cycles(folder)
        namespaces(folder)
        refusals()
    sys.exit(0 if RESULT["good"] else 1)


if __name__ == "__main__":
    main()
