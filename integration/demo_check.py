"""Runs the demo and reads its output as its user does: the un-instrumented function tops the slow trace, the root's tag is there
once on each thread, tenant acme leads, the ledger adds up, the files are there.   demo_check.py"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "truth"))
from dovetail_store import must  # noqa: E402

ROOT = os.path.join(os.path.dirname(__file__), "..")


def section(text, title):
    return text.split(f"== {title}", 1)[1].split("\n== ", 1)[0]


def main():
    done = subprocess.run(["sh", f"{ROOT}/integration/demo.sh"], capture_output=True, text=True)
    out = done.stdout
    good = must(done.returncode == 0, f"demo: exit {done.returncode} {done.stderr[-2000:]}")
    if not good:
        sys.exit(1)
    good &= must("300 requests, 0 failed" in out, "all requests are answered")
    good &= must("adds up" in section(out, "How the profiler is doing"), "the ledger adds up")

    slow = section(out, "Where the slowest one spent its time")
    hottest = slow.split("hottest functions", 1)[1].splitlines()[2]
    good &= must("calculate_discounts" in hottest, f"the un-instrumented function is on top: {hottest.strip()}")
    threads = len(re.findall(r"python3 \(\d+\)", slow))
    tags = len(re.findall(r"[0-9a-f]{32}/[0-9a-f]{16}/GET /quote", slow))
    good &= must(threads == tags > 0, f"the root's tag shows once on each of {threads} threads")

    tenant = section(out, "All that tenant acme cost").split("hottest functions", 1)[1].splitlines()[2]
    good &= must("calculate_discounts" in tenant, "and it is what tenant acme pays for")
    first = next(line for line in section(out, "Who used how much").splitlines() if "tenant=" in line)
    good &= must(first.endswith("tenant=acme"), f"acme used the most: {first.strip()}")
    files = re.findall(r"\S+\.(?:html|jfr)$", section(out, "Look on"), re.M)
    good &= must(len(files) == 3 and all(os.path.getsize(f) > 1000 for f in files), "its pages and its recording are there")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
