"""What the Node shim costs and finds, beside a bare run and beside @datadog/pprof (npm), all in one run.

    bench_node.py [MAJOR...]     default: the oldest and the newest Node.js of integration/node

    hop      ns of an await within an OpenTelemetry span, of a span, of an AsyncLocalStorage.run, beyond those of a bare run (target
             for a hop: 150)
    server   CPU time of a request at 99 Hz, against a bare run
    share    of the time that requests work, as samples of 99 Hz: in the right request, in a wrong one, missing
Rounds take turns. DOVETAIL_BUILD names the build folder (default ../../build).
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("DOVETAIL_BUILD") or HERE / "../../build").resolve()
os.environ["DOVETAIL_BUILD"] = str(BUILD)
sys.path[:0] = [str(HERE / "../../integration/node"), str(HERE / "../../integration/truth")]
from dovetail_store import folded, profile, traces  # noqa: E402
from mix_check import wrong_and_unmarked  # noqa: E402
from run import nodes, packages  # noqa: E402

PPROF = "@datadog/pprof@5.20.0"
TURNS = int(os.environ.get("ROUNDS", "3"))
HZ = 99


def pprof_packages():
    """The folder with @datadog/pprof in it, or None."""
    folder = BUILD / "npm-pprof"
    if not (folder / "node_modules" / "@datadog").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", PPROF], cwd=folder, check=False)
        if done.returncode:
            return None
    return folder / "node_modules"


def bare(node, script, *args):
    return json.loads(subprocess.run([node, HERE / "node" / script, *args], check=True, capture_output=True, text=True).stdout)


def profiled(node, script, *args):
    """(what it printed, the store); the caller removes the store."""
    out, store = profile(node, str(HERE / "node" / script), *args, hz=HZ)
    return json.loads(out.splitlines()[-1]), store


def hooked(node, script, *args):
    found, store = profiled(node, script, *args)
    shutil.rmtree(store)
    return found


def hop(node):
    plain, ours = [], []
    for _ in range(TURNS):
        plain.append(bare(node, "hop.js"))
        ours.append(hooked(node, "hop.js"))
    for name in ("hop", "span", "run"):
        before, after = (min(r[name] for r in runs) for runs in (plain, ours))
        print(f"  {name:6s} {before:7.0f} ns bare, {after:7.0f} ns hooked: {after - before:+.0f} ns" + " (target: 150)" * (name == "hop"))


def server(node, has_pprof):
    kinds = {"bare": lambda: bare(node, "server.js"), "dovetail": lambda: hooked(node, "server.js")}
    if has_pprof:
        kinds["pprof"] = lambda: bare(node, "server.js", "pprof")
    found = {kind: [] for kind in kinds}
    for _ in range(TURNS):
        for kind, run in kinds.items():
            found[kind].append(run()["median_us"])
    base = statistics.median(found["bare"])
    for kind, values in found.items():
        print(f"  server {kind:9s} {statistics.median(values):6.0f} us a request [{min(values)} to {max(values)}]:"
              f" {statistics.median(values) / base:.3f} of a bare one")


def print_share(kind, work_ms, right, wrong, unlabelled=0):
    expected = work_ms * HZ / 1000
    missing = max(0, expected - right - wrong)
    print(f"  share  {kind:9s} {100 * right / expected:5.1f}% right, {wrong} samples in a wrong request, {100 * missing / expected:.1f}%"
          f" missing ({unlabelled} of it samples of no request), of {work_ms / 1000:.1f} s of work")


def share(node, has_pprof, seconds="20"):
    found, store = profiled(node, "share.js", "dovetail", seconds)
    right = wrong = 0
    for t in traces(store):
        rows = folded(store, t["trace_id"])
        w, unmarked = wrong_and_unmarked(rows, f"work_{int(t['trace_id'], 16) - 1}", str)
        wrong, right = wrong + w, right + sum(weight for _, weight in rows) - unmarked - w
    shutil.rmtree(store)
    print_share("dovetail", found["work_ms"], right, wrong)
    if has_pprof:
        found = bare(node, "share.js", "pprof", seconds)
        print_share("pprof", found["work_ms"], found["right"], found["wrong"], found["none"])


def main():
    modules, pprof = packages(BUILD), pprof_packages()
    os.environ["NODE_PATH"] = os.pathsep.join(map(str, filter(None, [modules, pprof])))
    found = sorted(nodes(modules).items())
    for major, node in [n for n in found if n[0] in sys.argv[1:]] or [found[0], found[-1]]:
        print(f"Node.js {major}" + ("" if pprof else f"; {PPROF} cannot be installed"))
        hop(node)
        server(node, pprof)
        share(node, pprof)


if __name__ == "__main__":
    main()
