"""What the truth tests ask of the product: runs it, reads its answers as a user's script would."""
import collections
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

BUILD = os.environ.get("DOVETAIL_BUILD") or os.path.join(os.path.dirname(__file__), "../../build")
LONG = bool(os.environ.get("DOVETAIL_LONG"))


def dovetail(*args, check=True):
    done = subprocess.run([f"{BUILD}/bin/dovetail", *args], capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"dovetail {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def profile(*command, hz=99, env=None, options=()):
    """Runs command under `dovetail run`; returns (its standard output, the store's folder)."""
    store = tempfile.mkdtemp(prefix="truth-", dir=BUILD)
    done = subprocess.run([f"{BUILD}/bin/dovetail", "run", "-o", store, "--hz", str(hz), *options, "--", *command],
                          capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout, store


def traces(store, *filters):
    out = dovetail("traces", "--store", store, "--json", "--slowest", "1000000", *filters)
    return [json.loads(line) for line in out.splitlines()]


def folded(store, *filters, samples=True):
    """Stacks as [(frames root first, weight)]: samples, or microseconds."""
    out = dovetail("flame", "--store", store, "-f", "folded", *(["--samples"] if samples else []), *filters)
    rows = []
    for line in out.splitlines():
        stack, weight = line.rsplit(" ", 1)
        rows.append((stack.split(";"), int(weight)))
    return rows


def by_frame(rows, names):
    """Samples under each of the named frames, and of all."""
    counts = collections.Counter()
    for stack, weight in rows:
        counts["all"] += weight
        for frame in stack:
            name = frame.split(" ")[0]
            if name in names:
                counts[name] += weight
    return counts


def ledgers(store):
    db = sqlite3.connect(f"file:{store}/index.db?mode=ro", uri=True)
    total = collections.Counter()
    for (text,) in db.execute("SELECT ledger FROM processes"):
        total.update({k: v for k, v in json.loads(text).items() if isinstance(v, int)})
    return total


def told(led):
    """The samples of a ledger that it says what became of."""
    fates = ("joined", "outside", "ambiguous", "repeated", "lost_end", "lost_queue", "pending")
    return sum(led[fate] for fate in fates)


SURE = 3.3  # a claim about one share must not fail once in twenty runs: 99.9%


def interval(count, n, z=1.96):
    """The share's 95% interval as the product prints it (Wilson), or another z's."""
    p = count / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return centre - half, centre + half


def must(claim, text):
    print(("ok    " if claim else "WRONG ") + text)
    return bool(claim)
