"""What the Node shim says of programs with known truth, on one Node.js.

    check.py CHECK NODE     CHECK: one of the functions below; NODE_PATH has the packages
"""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../truth"))
from dovetail_store import LONG, must, profile, traces  # noqa: E402


def contexts(node):
    """The open scope is the right one wherever the program looks."""
    good = True
    runs = [("mixed", [])] if not LONG else [(mode, []) for mode in ("own", "otel", "mixed")]
    if version(node) == 22:
        runs.append(("mixed", ["--experimental-async-context-frame"]))
    for mode, flags in runs:
        out, store = profile(node, *flags, os.path.join(HERE, "truth.js"), mode, "60000" if LONG else "8000")
        found = json.loads(out.splitlines()[-1])
        for thread, r in found.items():
            good &= must(r["wrong"] == 0 and r["checks"] >= 2000 and r["resyncs"] == 0,
                         f"node {version(node)} {mode} {' '.join(flags)} {thread}: {r['wrong']} of {r['checks']} checks wrong,"
                         f" {r['resyncs']} resyncs {r['first'] or ''}")
        good &= must(len(traces(store)) > 0, f"{len(traces(store))} traces in the store")
        shutil.rmtree(store)
    return good


def version(node):
    return int(subprocess.run([node, "-p", "process.versions.node.split('.')[0]"], capture_output=True, text=True).stdout)


if __name__ == "__main__":
    sys.exit(0 if globals()[sys.argv[1]](sys.argv[2]) else 1)
