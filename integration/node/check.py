"""What the Node shim says of programs with known truth, on one Node.js.

    check.py CHECK NODE     CHECK: one of the functions below; NODE_PATH has the packages
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

UNNAMED = {"(other functions)", "[anon]", "[unknown]"}
SURE_SHARE = 0.01  # of all samples, so at least eight: a trace with that much cannot go without one
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../truth"))
from dovetail_store import BUILD, LONG, SURE, dovetail, must, profile, traces  # noqa: E402
from mix_check import judge  # noqa: E402


def contexts(node):
    """The open scope is the right one wherever the program looks."""
    good = True
    runs = [("mixed", [])] if not LONG else [(mode, []) for mode in ("own", "otel", "mixed")]
    if version(node) == 22:
        runs.append(("mixed", ["--experimental-async-context-frame"]))
    for mode, flags in runs:
        out, store = profile(node, *flags, os.path.join(HERE, "truth.js"), mode, "60000" if LONG else "6000")
        found = json.loads(out.splitlines()[-1])
        for thread, r in found.items():
            good &= must(r["wrong"] == 0 and r["checks"] >= 1500 and r["resyncs"] == 0,
                         f"node {version(node)} {mode} {' '.join(flags)} {thread}: {r['wrong']} of {r['checks']} checks wrong,"
                         f" {r['resyncs']} resyncs {r['first'] or ''}")
        good &= must(len(traces(store)) > 0, f"{len(traces(store))} traces in the store")
        shutil.rmtree(store)
    return good


def samples(node):
    """Every sample of interleaved requests in its own trace, each trace's share right, and JavaScript's frames named."""
    seconds = 40 if LONG else 4
    out, store = profile(node, os.path.join(HERE, "mix.js"), "mixed", str(seconds), hz=999)
    frames = unnamed = 0

    def look(stack, weight):
        nonlocal frames, unnamed
        frames += weight * (len(stack) - 2)
        unnamed += weight * sum(frame in UNNAMED for frame in stack)
    good = judge(f"node {version(node)}", out, store, sure_work=lambda work: SURE_SHARE * work, more_than=10,
                 at_least=seconds * 200, no_stack=0.01, z=SURE, look=look)
    good &= must(unnamed <= 0.03 * frames, f"{unnamed} of {frames} frames without a name")
    shutil.rmtree(store)
    return good


def api(node):
    """Names, labels, parents and lines as they were given, by OpenTelemetry and by own scopes; nothing without a daemon."""
    script = os.path.join(HERE, "api.js")
    out, store = profile(node, script, hz=999, env={"DOVETAIL_BAGGAGE": "tenant, plan"})
    good = must(out.splitlines()[-1] == "good", f"node {version(node)}: {out.strip()}")
    found = {t["root_name"]: t for t in traces(store)}
    labels = {name: dict(t["labels"]) for name, t in found.items()}
    good &= must(labels.get("GET /orders/:id") == {"tenant": "acme", "late": "yes"}, f"a renamed span's labels: {labels}")
    good &= must(labels.get("own") == {"plan": "gold", "late": "1"}, "an own scope's labels")
    good &= must(any(t["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736" for t in found.values()), "the trace that came in")
    good &= must(line_of("twice", store) == line_in(script, "most of its time"), f"twice() is on line {line_of('twice', store)}")
    shutil.rmtree(store)
    package = os.path.join(BUILD, "lib/node/dovetail")
    for env in ({"DOVETAIL": "off"}, {"DOVETAIL_SOCKET": "/nowhere/socket"}):
        done = subprocess.run([node, "--require", package, script], env={**os.environ, **env}, capture_output=True, text=True)
        good &= must(done.stdout.splitlines()[-1:] == ["good"] and not done.stderr, f"with {env}: {done.stdout} {done.stderr}")
    return good


def web(node):
    """A service of ES modules with Express and OpenTelemetry's HTTP instrumentation: run by Dovetail, or with --import."""
    seconds, script, good = 20 if LONG else 3, os.path.join(HERE, "web.mjs"), True
    for way in ("run", "import") if LONG else ("run",) if version(node) in (18, 22) else ("import",):
        out, store = profile(node, script, str(seconds), hz=999) if way == "run" else imported(node, script, str(seconds))
        good &= judge(f"node {version(node)} {way}", out, store, sure_work=lambda work: SURE_SHARE * work, more_than=10,
                      at_least=seconds * 100, no_stack=0.01, z=SURE)
        names = {(t["root_name"], t["root_service"]) for t in traces(store)}
        good &= must(names == {("GET", "web.mjs")}, f"root spans: {names}")
        shutil.rmtree(store)
    return good


def imported(node, *args):
    """Like profile, with a daemon of its own and --import instead of `dovetail run`."""
    folder = tempfile.mkdtemp(prefix="truth-", dir=BUILD)
    with daemon(folder, f"{folder}.socket", "--hz", "999") as env:
        out = subprocess.run([node, "--import", f"file://{BUILD}/lib/node/dovetail/index.mjs", *args], env=env, check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    return out, folder


CYCLES = 10 if LONG else 2


def ask(env, *args):
    return subprocess.run([f"{BUILD}/bin/dovetail", *args], env=env, capture_output=True, text=True)


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def look(process):
    process.stdin.write("look\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def attach(node):
    """Attached and detached again and again: traces while it is on, nothing left after; refused where it would harm."""
    good = True
    script, title = os.path.join(HERE, "attach.js"), f"node {version(node)}"
    folder = tempfile.mkdtemp(prefix="truth-", dir=BUILD)
    store = os.path.join(folder, "store")
    with daemon(store, os.path.join(folder, "control")) as env, started(node, "--inspect-port=0", script) as process:
        before = look(process)
        for cycle in range(CYCLES):
            on = ask(env, "attach", str(process.pid), "-d", "500ms")
            left = look(process)
            good &= must(on.returncode == 0 and left == before,
                         f"{title}: cycle {cycle}: {on.stdout.strip() or on.stderr} left {left}")
            if cycle == 0:
                settled = threads(process.pid)
        good &= must(threads(process.pid) == settled,
                     f"{title}: {threads(process.pid)} threads, {settled} after the first")
        off = ask(env, "detach", str(process.pid))
        good &= must(off.returncode == 1 and "not profiled" in off.stdout,
                     f"{title}: detached once more: {off.stdout.strip()}")
        with started(node, "--inspect-port=0", script, "handler") as other:
            on = ask(env, "attach", str(other.pid))
            good &= must(on.returncode == 3 and "SIGUSR1 for itself" in on.stdout,
                         f"{title}: own handler: {on.stdout.strip()}")
            look(other)  # "mine" would be a line before it
    good &= must(len(traces(store)) >= CYCLES, f"{title}: {len(traces(store))} traces in the store")
    shutil.rmtree(folder)
    return good


@contextlib.contextmanager
def started(*command):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as process:
        try:
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def daemon(store, socket, *options):
    """Gives the environment that names it."""
    with subprocess.Popen([f"{BUILD}/bin/dovetaild", "--store", store, "--socket", socket, *options], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            env = {**os.environ, "DOVETAIL_SOCKET": socket}
            while ask(env, "status").returncode:
                assert process.poll() is None
            yield env
        finally:
            process.terminate()


def line_of(function, store):
    """The line that most samples with the function on the stack have."""
    nodes = json.loads(dovetail("flame", "--store", store, "-f", "json"))["nodes"]
    return max((n["total_ns"], n["line"]) for n in nodes if n["name"] == function)[1]


def line_in(path, text):
    with open(path) as f:
        return next(i for i, line in enumerate(f, 1) if text in line)


def version(node):
    return int(subprocess.run([node, "-p", "process.versions.node.split('.')[0]"], capture_output=True, text=True).stdout)


if __name__ == "__main__":
    sys.exit(0 if globals()[sys.argv[1]](sys.argv[2]) else 1)
