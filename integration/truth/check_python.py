"""The truth tests of the Python shim: every sample in its own trace, and each trace's share of the CPU time right.

    check_python.py MODE PYTHON     MODE of py_mix.py; PYTHON the interpreter (a venv's where MODE needs packages)
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from dovetail_store import LONG, folded, interval, ledgers, must, profile, told, traces  # noqa: E402

SURE_NS = 20_000_000  # CPU time of 20 sampling periods: a trace with that much cannot go without a sample
MIX = os.path.join(os.path.dirname(__file__), "py_mix.py")


def wrong_and_unmarked(rows, own):
    """Samples with another trace's work or orphan() on the stack, and samples with no work function at all."""
    wrong = unmarked = 0
    for stack, weight in rows:
        names = {frame.split(" ")[0] for frame in stack}
        marks = {name for name in names if name.startswith("work_") or name == "orphan"}
        wrong += weight * bool(marks - {own})
        unmarked += weight * (not marks)
    return wrong, unmarked


def main():
    mode, python = sys.argv[1], sys.argv[2]
    seconds = 25 if LONG else 8
    out, store = profile(python, MIX, mode, str(seconds), hz=999)
    spent = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}
    counts, wrong, unmarked = {}, 0, 0
    # Traces are drawn at random and some work for seconds at a time (eager tasks): one may get no CPU time at all,
    # or less than a sampling period, and is then rightly not in the store.
    known = {t["trace_id"] for t in traces(store)}
    some, sure = ({t for t in spent if spent[t] >= least} for least in (1, SURE_NS))
    good = must(sure <= known <= some and len(sure) > 20,
                f"{len(known)} traces, all of them ours, and all {len(sure)} with CPU time enough")
    for trace in spent:
        rows = folded(store, trace) if trace in known else []
        w, u = wrong_and_unmarked(rows, f"work_{int(trace, 16) - 1}")
        wrong, unmarked = wrong + w, unmarked + u
        counts[trace] = sum(weight for _, weight in rows) - u
    total = sum(counts.values()) + unmarked
    marked = total - unmarked
    good &= must(wrong == 0 and total > seconds * 300, f"{mode}: {wrong} of {total} samples in a wrong trace")
    inside = sum(low <= spent[t] / sum(spent.values()) <= high
                 for t in spent for low, high in [interval(counts[t], marked)])
    good &= must(inside >= 0.9 * len(spent), f"{inside} of {len(spent)} traces' shares within their 95% interval")
    led = ledgers(store)
    good &= must(led["samples"] == told(led), f"ledger: {led['samples']} samples = {led['joined']} joined + {led['outside']}"
                 f" outside + {led['ambiguous']} ambiguous + {led['lost_end']} lost")
    good &= must(led["no_stack"] <= 0.03 * led["joined"], f"{led['no_stack']} of {led['joined']} without a Python stack;"
                 f" {unmarked} between the work functions")
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
