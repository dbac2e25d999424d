"""The truth tests of the C API: programs that know where their CPU time went, against what Dovetail says.

    check.py shares|flush|budget|thread_per_request|tiny_scopes

Each prints its figures and fails when one is outside the stated error. DOVETAIL_LONG=1 runs the full sizes.
"""
import collections
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from dovetail_store import BUILD, LONG, SURE, by_frame, folded, interval, ledgers, must, profile, told, traces  # noqa: E402

FUNCTIONS = [f"work_{share}" for share in (31, 23, 17, 13, 9, 6, 1)]


def program(name):
    return f"{BUILD}/truth/truth_{name}"


def ledger_adds_up(store):
    led = ledgers(store)
    return must(led["samples"] == told(led) and led["lost_kernel"] <= led["samples"] // 500 and led["samples"] > 0,
                f"ledger: {led['samples']} samples = {led['joined']} joined + {led['outside']} outside"
                f" + {led['ambiguous']} ambiguous + {led['lost_end']} lost; kernel lost {led['lost_kernel']}")


def shares():
    out, store = profile(program("shares"), "60" if LONG else "15")
    truth = collections.defaultdict(dict)
    for line in out.splitlines():
        trace, function, spent = line.split()
        truth[trace][function] = int(spent)
    inside = n_shares = wrong = total = 0
    for trace, spent in truth.items():
        rows = folded(store, trace)
        n = sum(weight for _, weight in rows)
        counts = by_frame(rows, FUNCTIONS)
        for function in FUNCTIONS:
            low, high = interval(counts[function], n)
            # Below 5 expected samples the product says "too few samples" instead of an interval.
            if counts[function] >= 5:
                n_shares += 1
                inside += low <= spent[function] / sum(spent.values()) <= high
        own = f"trace_{int(trace, 16) - 1}"
        wrong += sum(w for stack, w in rows if any(f.startswith("trace_") and f.split(" ")[0] != own for f in stack))
        total += n
    good = must(inside >= 0.9 * n_shares, f"{inside} of {n_shares} shares within their 95% interval")
    good &= must(wrong == 0 and total > 0, f"{wrong} of {total} samples in a wrong trace")
    return good & ledger_adds_up(store), store


def flush():
    out, store = profile(program("flush"), "60" if LONG else "20", hz=100)
    spent = {k: int(v) for k, v in (line.split() for line in out.splitlines())}
    counts = by_frame(folded(store), ["flush", "fill"])
    truth = 100 * spent["flush"] / sum(spent.values())
    said = 100 * counts["flush"] / counts["all"]
    # 2 points over a minute; a shorter run has fewer samples, and its own error is wider.
    bound = max(2, 100 * SURE * (0.2 * 0.8 / counts["all"]) ** 0.5)
    return must(abs(said - truth) <= bound, f"flush {said:.2f}% of {counts['all']} samples, truth {truth:.2f}%"
                f" (bound {bound:.1f})"), store


def budget():
    out, store = profile(program("budget"), "20" if LONG else "6", hz=100)
    good, per_scope = True, []
    for line in out.splitlines():
        trace, *spent = line.split()
        rows = folded(store, trace, "--by", "tag")
        threads, tags = collections.Counter(), collections.defaultdict(set)
        for stack, weight in rows:
            threads[stack[1]] += weight
            tags[stack[1]].add(stack[2])
        per_scope += threads.values()
        once = all(len(t) == 1 and t.pop().endswith("/work") for t in tags.values())
        good &= must(len(threads) == 2 and all(27 <= n <= 31 for n in threads.values()) and once,
                     f"{trace[-2:]}: samples per scope {sorted(threads.values())}, CPU {[s // 1000000 for s in map(int, spent)]} ms,"
                     f" root's tag once on each of {len(threads)} threads")
    return good & must(per_scope, f"mean {sum(per_scope) / max(1, len(per_scope)):.2f} samples per scope"), store


def thread_per_request():
    n = "20000" if LONG else "4000"
    out, store = profile(program("thread_per_request"), n)
    spent = {k: int(v) for k, v in (line.split() for line in out.splitlines())}
    counts = by_frame(folded(store), ["parse", "reply"])
    expected = spent["scope"] * 99 / 1e9
    led = ledgers(store)
    uncovered = led["uncovered_ns"] / spent["scope"]
    # 5% is the bound for 20,000 requests; a shorter run adds the counting error of n samples.
    error = abs(counts["all"] / expected - 1)
    good = must(error <= 0.05 + (0 if LONG else SURE / expected ** 0.5),
                f"{counts['all']} samples, CPU time / period = {expected:.0f} (off by {100 * error:.1f}%)")
    low, high = interval(counts["parse"], counts["all"], SURE)
    truth = spent["parse"] / (spent["parse"] + spent["reply"])
    good &= must(low <= truth <= high, f"parse {100 * counts['parse'] / counts['all']:.1f}%"
                 f" [{100 * low:.1f}, {100 * high:.1f}], truth {100 * truth:.1f}%")
    good &= must(uncovered < 0.05, f"not covered before arming: {100 * uncovered:.2f}% of the CPU time")
    return good & ledger_adds_up(store), store


def tiny_scopes():
    out, store = profile(program("tiny_scopes"), "1000000", hz=999)
    words = out.split()
    n_tiny, n_every = int(words[1]), int(words[3])
    rows = {int(t["trace_id"], 16): t for t in traces(store)}
    led = ledgers(store)
    sent = led["shim_kept"] - n_every
    # Those closed while the thread's arming was under way, where only the daemon can tell; none of the other trace.
    kept = sent - led["scopes_empty"]
    tiny, every = rows[1], rows[2]
    good = must(tiny["scopes"] == kept > 0 and kept - led["repeated"] <= tiny["samples"] <= kept + 2 + kept // 100,
                f"of {n_tiny} scopes of 2 us {sent} were sent, {led['scopes_empty']} of them while its sampling began and without"
                f" a sample; {tiny['scopes']} are there with {tiny['samples']} samples")
    good &= must(every["scopes"] == n_every, f"of {n_every} scopes closed always {every['scopes']} arrived")
    good &= must(led["shim_dropped"] == n_tiny - sent, f"{led['shim_dropped']} dropped by rule and counted")
    # Whether samples are lost is seen against close_always, where every scope is told: same share of samples inside.
    return good & ledger_adds_up(store), store


def main():
    good, store = globals()[sys.argv[1]]()
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
