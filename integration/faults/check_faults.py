"""Bad input and faults, as a user meets them: each must end in a clear text that says what to do, and lose nothing.

    check_faults.py         runs all and prints what the user gets to read
"""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../truth"))
from dovetail_store import BUILD, folded, must, traces  # noqa: E402

BIN = f"{BUILD}/bin"
FAULTS = f"{BUILD}/faults"
folder = tempfile.mkdtemp(prefix="faults-")
good = True


def claim(truth, text):
    global good
    good &= must(truth, text)


def run(*command, timeout=60, **kw):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, errors="replace", **kw)
    return done.returncode, done.stdout, done.stderr.strip()


def says(what, code, err, want_code, *patterns):
    found = all(re.search(p, err, re.I) for p in patterns)
    claim(code == want_code and found, f"{what}: exit {code}: {err.splitlines()[-1] if err else '(nothing)'}")


@contextlib.contextmanager
def daemon(store, *options, prefix=(), socket_name="control.sock"):
    """A daemon with its own socket; yields (process, socket path), stops it by SIGTERM and waits."""
    path = f"{folder}/{socket_name}"
    log = open(f"{folder}/daemon.log", "w+")
    process = subprocess.Popen([*prefix, f"{BIN}/dovetaild", "--store", store, "--socket", path, *options], stderr=log)
    try:
        for _ in range(200):
            if "READY" in daemon_log() or process.poll() is not None:
                break
            time.sleep(0.05)
        yield process, path
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(20)
        log.close()


def daemon_log():
    with open(f"{folder}/daemon.log") as f:
        return f.read()


def make_store(name):
    """A store with the six traces of odd_names."""
    store = f"{folder}/{name}"
    code, _, err = run(f"{BIN}/dovetail", "run", "-o", store, "--", f"{FAULTS}/odd_names")
    if code:
        sys.exit(f"odd_names: {err}")
    return store


def wrong_use():
    code, _, err = run(f"{BIN}/dovetaild", "--store", f"{folder}/x", "--socket", f"{folder}/x.sock", "--event", "no-such-event")
    says("unknown event", code, err, 2, "no-such-event", "cpu-clock")
    code, _, err = run(f"{BIN}/dovetail", "run", "--event", "no-such-event", "--", "true")
    says("unknown event in run", code, err, 2, "no-such-event", "cpu-clock")
    code, _, err = run(f"{BIN}/dovetaild", "--store", f"{folder}/x", "--socket", f"{folder}/x.sock", "--hz", "50000")
    says("rate too high", code, err, 2, "50000|50,000", "10000|10,000", "--force")
    code, _, err = run(f"{BIN}/dovetail", "flame", "deadbeef", "--store", make_store("unknown"))
    says("unknown trace id", code, err, 1, "deadbeef")
    code, _, err = run(f"{BIN}/dovetail", "traces", "--store", f"{folder}/nowhere")
    says("no store there", code, err, 3, "nowhere")
    with open(f"{folder}/bad.conf", "w") as f:
        f.write("hz = 99\nstoer = /x\n")
    code, _, err = run(f"{BIN}/dovetaild", "--config", f"{folder}/bad.conf")
    says("unknown key in the config file", code, err, 2, "bad.conf:2", "stoer")


def no_permission():
    """The service runs on, the daemon says why it samples nothing, doctor says how to mend it."""
    store = f"{folder}/denied"
    with daemon(store, prefix=(f"{FAULTS}/deny_perf",)) as (_, path):
        env = {**os.environ, "DOVETAIL_SOCKET": path}
        code, _, _ = run(f"{FAULTS}/odd_names", env=env)
        claim(code == 0, "no permission for perf events: the service itself runs to its end")
        _, out, _ = run(f"{BIN}/dovetail", "status", env=env)
        claim("perf_event" in out or "not permitted" in out.lower(), f"status says so: {out.strip().splitlines()[-1]}")
    claim(len(traces(store)) == 6, "its always-kept scopes are there all the same")
    code, out, _ = run(f"{FAULTS}/deny_perf", f"{BIN}/dovetail", "doctor")
    claim(code == 3 and "perf_event" in out, f"doctor: exit {code}")


def stores():
    store = make_store("kept")
    with daemon(store) as (process, _):
        code, _, err = run(f"{BIN}/dovetaild", "--store", store, "--socket", f"{folder}/second.sock")
        says("second daemon on one store", code, err, 3, str(process.pid))
    before = {t["trace_id"] for t in traces(store)}

    os.rename(f"{store}/index.db", f"{folder}/index.db")
    for extra in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{store}/index.db{extra}")
    with daemon(store):
        pass
    claim({t["trace_id"] for t in traces(store)} == before, f"index missing: all {len(before)} traces indexed again")

    segment = f"{store}/segments/{sorted(os.listdir(f'{store}/segments'))[0]}"
    db = sqlite3.connect(f"file:{store}/index.db?mode=ro", uri=True)
    offset, size = db.execute("SELECT offset, bytes FROM chunks ORDER BY offset DESC LIMIT 1").fetchone()
    db.close()
    with open(segment, "r+b") as f:
        f.seek(offset + size // 2)
        f.write(bytes(40))
    code, out, err = run(f"{BIN}/dovetail", "verify", "--store", store)
    claim(code == 4 and "segments" in out + err, f"corrupt segment: verify: exit {code}: {(out + err).strip().splitlines()[-1]}")
    with open(segment, "ab") as f:
        f.write(b"FLR\0 torn in the middle")
    with daemon(store):
        pass
    claim(len(traces(store)) == len(before), "a torn tail is cut at the next start, the traces stay")

    with open(f"{folder}/file", "w") as f:
        f.write("not a folder")
    code, _, err = run(f"{BIN}/dovetaild", "--store", f"{folder}/file", "--socket", f"{folder}/f.sock")
    says("store is a file", code, err, 2, "file")


def mounted():
    """Read-only and full file systems, in a mount namespace of our own."""
    script = f"""
set -e
mkdir -p {folder}/ro {folder}/small
mount -t tmpfs -o size=64k,ro none {folder}/ro
mount -t tmpfs -o size=400k none {folder}/small
{BIN}/dovetaild --store {folder}/ro/store --socket {folder}/ro.sock 2>{folder}/ro.err || echo "read-only exit $?"
dd if=/dev/zero of={folder}/small/filler bs=1k count=340 2>/dev/null
{BIN}/dovetail run -o {folder}/small/store -- {FAULTS}/odd_names 2>{folder}/full.err || echo "full exit $?"
cat {folder}/full.err >&2
"""
    code, out, err = run("unshare", "-m", "sh", "-c", script)
    if "unshare" in err:
        claim(os.environ.get("CI") != "true", "SKIPPED: no mount namespace to be had: " + err)
        return
    with open(f"{folder}/ro.err") as f:
        says("read-only store", 3 if "read-only exit 3" in out else 0, f.read(), 3, "read-only")
    claim(re.search("full|space", err, re.I) is not None, f"disk full: {err.strip().splitlines()[-1] if err else '(nothing)'}")


def garbage():
    """Whatever comes to the socket, the daemon lives and the next service is served."""
    store = f"{folder}/garbage"
    with daemon(store) as (process, path):
        for payload in (b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4000), b"\x93\x01", b"\xdd\xff\xff\xff\xff"):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(path)
            with contextlib.suppress(OSError):
                s.send(payload)
                s.settimeout(2)
                s.recv(65536)
            s.close()
        code, _, _ = run(f"{FAULTS}/odd_names", env={**os.environ, "DOVETAIL_SOCKET": path})
        claim(process.poll() is None and code == 0, "garbage on the socket: the daemon lives on")
    claim(len(traces(store)) == 6, "and the service after it is recorded whole")


def odd_names():
    store = make_store("odd")
    rows = traces(store)
    claim(len(rows) == 6 and max(len(t["root_name"].encode()) for t in rows) == 256, "a name of 10 kB is cut to 256 bytes")
    code, out, _ = run(f"{BIN}/dovetail", "traces", "--store", store, "--color=never")
    claim(code == 0 and "\x1b" not in out and "\a" not in out, "terminal escapes in names are shown, not sent")
    run(f"{BIN}/dovetail", "flame", "--store", store, "-o", f"{folder}/odd.html", "--by", "scope")
    run(f"{BIN}/dovetail", "flame", "--store", store, "-o", f"{folder}/odd.svg", "--by", "scope")
    with open(f"{folder}/odd.html", encoding="utf-8") as f:
        page = f.read()
    claim("<script>alert" not in page and "Content-Security-Policy" in page, "HTML in names is escaped, the page has a CSP")
    code, _, err = run(sys.executable, "-c", f"import xml.dom.minidom; xml.dom.minidom.parse('{folder}/odd.svg')")
    claim(code == 0, f"the SVG is well-formed XML {err}")
    claim(all(weight > 0 for _, weight in folded(store)), "folded output has a line a stack")
    json.dumps(rows)


def killed():
    """A service killed in the middle of a request, a daemon killed in the middle of a service."""
    store = f"{folder}/killed"
    env = {**os.environ, "DOVETAIL_SOCKET": f"{folder}/control.sock"}
    with daemon(store):
        victim = subprocess.Popen([f"{BUILD}/truth/truth_flush", "60"], env=env, stdout=subprocess.DEVNULL)
        time.sleep(3)
        victim.kill()
        victim.wait()
        time.sleep(1)
    row = traces(store)[0]
    claim(row["samples"] > 100 and row.get("cut"), f"service killed: {row['samples']} samples of its open scope kept, marked cut")

    store = f"{folder}/restarted"
    with daemon(store) as (first, _):
        victim = subprocess.Popen([f"{BUILD}/truth/truth_shares", "8"], env=env, stdout=subprocess.DEVNULL)
        time.sleep(2)
        first.kill()
        first.wait()
    killed_ns = time.time_ns()
    with daemon(store):
        claim(victim.wait(30) == 0, "daemon killed: the service never notices")
    rows = traces(store)
    resumed_ms = (min(t["start_unix_ns"] for t in rows if t["start_unix_ns"] > killed_ns) - killed_ns) / 1e6
    # A second from the daemon's return, and this machine's time to start it.
    claim(resumed_ms < 3000, f"reporting resumes {resumed_ms:.0f} ms after the kill, restart included")
    claim(sum(t["samples"] for t in rows) > 99, f"{sum(t['samples'] for t in rows)} samples since")


def namespaces():
    """A service in a pid namespace of its own, where it is process 1: the right process and threads, the same numbers."""
    store = f"{folder}/namespaces"
    with daemon(store, "--hz", "100") as (_, path):
        env = {**os.environ, "DOVETAIL_SOCKET": path}
        code, out, err = run("unshare", "--pid", "--fork", "--mount-proc", f"{BUILD}/truth/truth_budget", "2", env=env)
        if code and "unshare" in err:
            claim(os.environ.get("CI") != "true", "SKIPPED: no pid namespace to be had: " + err)
            return
    for line in out.splitlines():
        trace = line.split()[0]
        per_thread = {}
        for stack, weight in folded(store, trace):
            per_thread[stack[1]] = per_thread.get(stack[1], 0) + weight
        claim(len(per_thread) == 2 and all(27 <= n <= 31 for n in per_thread.values()),
              f"in a pid namespace: samples per thread {per_thread}, 29 expected")


def main():
    for step in (wrong_use, no_permission, stores, mounted, garbage, odd_names, namespaces, killed):
        print(f"-- {step.__name__}")
        step()
    shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
