"""The truth tests of the Python shim: every sample in its own trace, and each trace's share of the CPU time right.

    check_python.py MODE PYTHON     MODE of py_mix.py; PYTHON the interpreter (a venv's where MODE needs packages)
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from dovetail_store import LONG, profile  # noqa: E402
from mix_check import judge  # noqa: E402

SURE_NS = 20_000_000  # CPU time of 20 sampling periods: a trace with that much cannot go without a sample
MIX = os.path.join(os.path.dirname(__file__), "py_mix.py")


def main():
    mode, python = sys.argv[1], sys.argv[2]
    seconds = 25 if LONG else 8
    out, store = profile(python, MIX, mode, str(seconds), hz=999)
    good = judge(mode, out, store, sure_work=lambda work: SURE_NS, more_than=20, at_least=seconds * 300, no_stack=0.01)
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
