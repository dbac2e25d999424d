"""What the mixes of all runtimes are held against: every sample in its own trace, and each trace's share of the work right.

A mix prints "TRACE_ID WORK" for each of its traces; trace k+1 alone runs work_k, and no trace runs orphan.
"""
from dovetail_store import folded, interval, ledgers, must, told, traces


def wrong_and_unmarked(rows, own, plain):
    """Samples with another trace's work or orphan() on the stack, and samples with no work function at all."""
    wrong = unmarked = 0
    for stack, weight in rows:
        names = {plain(frame.split(" ")[0]) for frame in stack}
        marks = {name for name in names if name.startswith("work_") or name == "orphan"}
        wrong += weight * bool(marks - {own})
        unmarked += weight * (not marks)
    return wrong, unmarked


def judge(title, out, store, sure_work, more_than, at_least, no_stack, z=1.96, plain=str, look=None):
    """Prints what holds and what does not; whether all does.

    sure_work(all the work): how much of it a trace cannot have without a sample; there must be more_than such traces. at_least:
    samples. no_stack: the share of samples that may lack a managed stack. z: of the shares' intervals. plain: a frame's name ->
    the function's. look(stack, weight): called for every stack.
    """
    spent = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}
    work = sum(spent.values())
    counts, wrong, unmarked = {}, 0, 0
    # Traces are drawn at random and some work for seconds at a time: one may get no CPU time at all, or less than a sampling
    # period, and is then rightly not in the store.
    known = {t["trace_id"] for t in traces(store)}
    some, sure = ({t for t in spent if spent[t] >= least} for least in (1, sure_work(work)))
    good = must(sure <= known <= some and len(sure) > more_than,
                f"{title}: {len(known)} traces, all of them ours, and all {len(sure)} with work enough")
    for trace in spent:
        rows = folded(store, trace) if trace in known else []
        w, u = wrong_and_unmarked(rows, f"work_{int(trace, 16) - 1}", plain)
        wrong, unmarked = wrong + w, unmarked + u
        counts[trace] = sum(weight for _, weight in rows) - u
        for stack, weight in rows if look else []:
            look(stack, weight)
    marked = sum(counts.values())
    total = marked + unmarked
    good &= must(wrong == 0 and total > at_least, f"{title}: {wrong} of {total} samples in a wrong trace")
    inside = sum(low <= spent[t] / work <= high for t in spent for low, high in [interval(counts[t], marked, z)])
    good &= must(inside >= 0.9 * len(spent), f"{inside} of {len(spent)} traces' shares within their interval (z = {z})")
    led = ledgers(store)
    good &= must(led["samples"] == told(led), f"ledger: {led['samples']} samples = {led['joined']} joined + {led['outside']}"
                 f" outside + {led['ambiguous']} ambiguous + {led['lost_end']} lost")
    return good & must(led["no_stack"] <= no_stack * led["joined"],
                       f"{led['no_stack']} of {led['joined']} without a managed stack; {unmarked} between the work functions")
