"""Runs the demo and reads its output as its user does: one flame graph over the three services of the slow trace, with the
un-instrumented function on top and the root's tag once on each thread; tenant acme leads; nothing is lost, the ledger adds up; the
files are there. Attached to, no request fails either.   demo_check.py [--otel | --attach]
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "truth"))
from dovetail_store import BUILD, by_frame, dovetail, folded, ledgers, must, told  # noqa: E402

ROOT = os.path.join(os.path.dirname(__file__), "..")
STORE = f"{BUILD}/demo/store"
SERVICES = ("gateway", "orders", "pricing")
SKIPPED = 77


def section(text, title):
    return text.split(f"== {title}", 1)[1].split("\n== ", 1)[0]


def hottest(part):
    return part.split("hottest functions", 1)[1].splitlines()[2]


def check_trace(out):
    """The slow trace: what is printed of it, and all of it."""
    first = section(out, "The slowest requests").splitlines()[3]
    good = must(all(s in first for s in SERVICES) and "GET /quote" in first, f"the slowest: {first.strip()}")
    slow = section(out, "Where the slowest one spent its time")
    trace = re.search(r"^trace ([0-9a-f]{32})  GET /quote$", slow, re.M).group(1)
    shown = [s for s in SERVICES if re.search(rf"{s} \(pid \d+\)", slow)]
    good &= must(shown == list(SERVICES), f"its flame graph shows {shown}")
    good &= must("calculate_discounts" in hottest(slow), f"the un-instrumented function is on top: {hottest(slow).strip()}")

    full = dovetail("flame", trace, "--full", "--store", STORE)
    threads = re.findall(r"\s(?:├ |└ )?(\S+ \(\d+\))$", full, re.M)
    tags = re.findall(rf"\s{trace}/[0-9a-f]{{16}}/GET /quote$", full, re.M)
    good &= must(len(threads) >= 4 and len(tags) == len(threads) and len(set(tags)) == 1,
                 f"the root's tag shows once on each of {len(threads)} threads")
    rows = folded(STORE, trace)
    counts = {s: sum(w for stack, w in rows if stack[0] == s) for s in SERVICES}
    good &= must(min(counts.values()) > 0 and sum(counts.values()) == by_frame(rows, ())["all"],
                 f"samples of all three services, and of no other: {counts}")
    return good


def main():
    requests = "80" if sys.argv[1:] else "300"
    done = subprocess.run(["sh", f"{ROOT}/integration/demo.sh", *sys.argv[1:]], capture_output=True, text=True,
                          env={**os.environ, "DEMO_REQUESTS": requests})
    out = done.stdout
    if done.returncode == SKIPPED:
        print(done.stderr.strip().splitlines()[-1])
        sys.exit(1 if os.environ.get("CI") == "true" else SKIPPED)
    if not must(done.returncode == 0, f"demo: exit {done.returncode} {done.stderr[-2000:]}"):
        sys.exit(1)
    good = must(f"{requests} requests, 0 failed" in out, "all requests are answered")
    if "--attach" in sys.argv:
        good &= must(out.count("attached:") == 3 and out.count("detached:") == 3 and out.count(", 0 failed") == 4,
                     "attached to all three while requests came, and detached")
        print("\n".join(line for line in out.splitlines() if "small tenants" in line))
    status = section(out, "How the profiler is doing")
    good &= must("adds up" in status and "0  samples lost by the kernel" in status, "the ledger adds up, nothing is lost")
    led = ledgers(STORE)
    good &= must(led["samples"] == told(led) and not led["lost_queue"] + led["lost_end"],
                 f"the whole ledger: {led['samples']} samples, all told of, none lost")
    good &= check_trace(out)
    good &= must("calculate_discounts" in hottest(section(out, "All that tenant acme cost")), "it is what tenant acme pays for")
    first = next(line for line in section(out, "Who used how much").splitlines() if "tenant=" in line)
    good &= must(first.endswith("tenant=acme"), f"acme used the most: {first.strip()}")
    files = re.findall(r"\S+\.(?:html|jfr)$", section(out, "Look on"), re.M)
    good &= must(len(files) == 3 and all(os.path.getsize(f) > 1000 for f in files), "its pages and its recording are there")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
