"""The truth tests of the C API: programs that know where their CPU time went, against what Dovetail says.

    check.py shares|flush|budget|thread_per_request|tiny_scopes|waits

Each prints its figures and fails when one is outside the stated error. DOVETAIL_LONG=1 runs the full sizes.
"""
import collections
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from dovetail_store import BUILD, LONG, SURE, by_frame, dovetail, folded, interval, ledgers, must, profile, told, traces  # noqa: E402

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


def error(said, inside, outside):
    """How far it lies outside what the clocks just inside and just outside the scope say."""
    return max(inside - said, said - outside, 0)


def waits():
    out, store = profile(program("waits"), "30" if LONG else "6", options=["--wall"])
    trace = json.loads(dovetail("trace", "1".zfill(32), "--store", store, "--json"))
    said = {s["name"]: s for s in trace["scopes"]}
    good, worst, n = True, collections.Counter(), collections.Counter()
    for line in out.splitlines():
        name, *numbers = line.split()
        if name == "first-0":
            continue  # the thread's arming was under way
        s = said[name]
        (wall, cpu, waits, preemptions), outside = map(int, numbers[:4]), list(map(int, numbers[4:]))
        off, off_outside = wall - cpu, outside[0] - outside[1]
        claims = {"sum": (s["on_cpu_ns"] + s["blocked_ns"] + s["runnable_ns"], wall, outside[0]),
                  "on-CPU": (s["on_cpu_ns"], cpu, outside[1]),
                  "off-CPU": (s["blocked_ns"] + s["runnable_ns"], off, off_outside)}
        # A thread that was only ever blocked, or only ever preempted, tells how long it was each.
        if outside[3] == 0:
            claims["blocked"] = (s["blocked_ns"], off, off_outside)
        if outside[2] == 0:
            claims["runnable"] = (s["runnable_ns"], off, off_outside)
        for what, claim in claims.items():
            wrong = error(*claim)
            worst[what] = max(worst[what], wrong)
            n[what] += 1
            if wrong > max(0.01 * wall, 50_000):
                good &= must(False, f"{name}: {what} is off by {wrong / 1e3:.0f} us (said {claim[0] / 1e6:.3f} ms, truth {claim[1] / 1e6:.3f} to {claim[2] / 1e6:.3f}) of {wall / 1e6:.1f} ms")
        if error(s["waits"], waits, outside[2]) or error(s["preemptions"], preemptions, outside[3]) or s["unknown_ns"]:
            good &= must(False, f"{name}: {s['waits']} waits, truth {waits} to {outside[2]}; {s['preemptions']} preemptions,"
                         f" truth {preemptions} to {outside[3]}; {s['unknown_ns']} ns not known")
    good &= must(all(n[what] for what in ("sum", "on-CPU", "blocked", "runnable")),
                 "greatest errors: " + ", ".join(f"{what} {worst[what] / 1000:.0f} us ({n[what]} scopes)" for what in n))
    text = dovetail("trace", "1".zfill(32), "--store", store)
    good &= must(" wall = " in text and " blocked + " in text and "preempted-0" in text, "the same is told as text")
    outer = said["nested-0"]
    own, wall = outer["self"], outer["wall_ns"]
    # 10 ms of computing are its own, the 10 ms of sleep its inner scope's.
    good &= must(own["on_cpu_ns"] >= 9_500_000 and own["wall_ns"] + 10_000_000 <= wall and own["waits"] < outer["waits"],
                 f"of {wall / 1e6:.1f} ms {own['wall_ns'] / 1e6:.1f} are the outer scope's own, {own['on_cpu_ns'] / 1e6:.1f} of them"
                 f" on a CPU; {own['waits']} of {outer['waits']} waits")
    return good, store


def main():
    good, store = globals()[sys.argv[1]]()
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
