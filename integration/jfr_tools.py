"""Compares what `jfr print --json` shows of a segment with what was written into it. Used by jfr_tools.sh.

Usage: jfr_tools.py EXPECTED JSON
EXPECTED: the lines of `test_chunk --segment`; JSON: the events jdk.ExecutionSample, in any order.
Exit 1, with the first difference, unless both hold the same samples.
"""
import datetime
import json
import re
import sys


def nanoseconds(iso):
    whole, _, fraction = iso.rstrip("Z").partition(".")
    seconds = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp()
    return int(seconds) * 10**9 + int((fraction or "0").ljust(9, "0"))


def line(values):
    trace = values["stackTrace"]
    frames = "".join(f"{f['method']['name']}:{f['lineNumber']};" for f in trace["frames"])
    return (f"{nanoseconds(values['startTime'])} {values['sampledThread']['osName']} "
            f"{frames}{' truncated' if trace['truncated'] else ''}")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        expected = sorted(f.read().splitlines())
    with open(sys.argv[2], encoding="utf-8") as f:
        events = json.load(f)["recording"]["events"]
    shown = sorted(line(e["values"]) for e in events)
    if expected != shown:
        wrong = sorted(set(expected) ^ set(shown))
        sys.exit(f"{len(expected)} samples written, {len(shown)} shown, first difference:\n{wrong[0] if wrong else '?'}")
    print(f"{len(shown)} samples, every stack right")


main()
