"""The signal walker: right frames, names and lines, bounds, and no crash under a storm of signals."""
import asyncio
import asyncio.base_events
import functools
import gc
import json
import json.decoder
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
import unittest

import dovetail
import fakelib
from dovetail import _dovetail

LONG = os.environ.get("DOVETAIL_LONG")
OK, NO_THREAD_STATE, WINDOW, FAULT, CODE_GONE = 0, 1, 2, 4, 7
HAS_QUALNAME = sys.version_info >= (3, 11)


def codes_of(module):
    """Every code object in a source file."""
    with open(module.__file__, encoding="utf-8") as f:
        todo = [compile(f.read(), module.__file__, "exec")]
    while todo:
        code = todo.pop()
        yield code
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]


def lines_of(code):
    """(offset, line) of every instruction, by the interpreter's own decoder."""
    if sys.version_info >= (3, 10):
        for begin, end, line in code.co_lines():
            for offset in range(begin, end, 2):
                yield offset, line or 0
    else:
        import dis
        starts = dict(dis.findlinestarts(code))
        line = code.co_firstlineno
        for offset in range(0, len(code.co_code), 2):
            line = starts.get(offset, line)
            yield offset, line


class Lines(unittest.TestCase):
    def test_every_instruction_of_the_library_has_the_interpreters_line(self):
        n = 0
        modules = asyncio.base_events, json.decoder, traceback, unittest.case, subprocess, re, functools
        for module in modules:
            for code in codes_of(module):
                for offset, line in lines_of(code):
                    self.assertEqual(_dovetail._line(code, offset), line, (code, offset))
                    n += 1
        self.assertGreater(n, 10_000)

    def test_before_the_first_instruction_is_the_first_line(self):
        code = compile("\n\nx = 1\n", "f.py", "exec")
        self.assertEqual(_dovetail._line(code, -2), code.co_firstlineno)

    def test_lines_of_thousands_and_backwards(self):
        code = compile("\n" * 70_000 + "x = (\n" + "\n" * 300 + "f(\n1))\n", "f.py", "exec")
        for offset, line in lines_of(code):
            self.assertEqual(_dovetail._line(code, offset), line)


class Stacks(unittest.TestCase):
    def expect(self):
        frame, out = sys._getframe(1), []
        while frame:
            code = frame.f_code
            name = code.co_qualname if HAS_QUALNAME else code.co_name
            out.append((name, code.co_filename, code.co_firstlineno, frame.f_lineno))
            frame = frame.f_back
        return out

    def test_stack_is_the_interpreters(self):
        seen, truncated = _dovetail._walk(); wanted = self.expect()
        self.assertEqual(seen, wanted)
        self.assertFalse(truncated)

    def test_stack_through_c_calls_generators_and_coroutines(self):
        def key(_):
            seen.append((_dovetail._walk()[0], self.expect()))
            return 0

        def generator():
            yield sorted([1], key=key)

        async def coroutine():
            return next(generator())
        seen = []
        asyncio.run(coroutine())
        list(map(key, [1]))
        self.assertEqual(len(seen), 2)
        for got, wanted in seen:
            self.assertEqual(got, wanted)

    def test_deep_stack_keeps_leaf_and_root_side(self):
        def down(n):
            return down(n - 1) if n else (_dovetail._walk(), self.expect())
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(5000)
        try:
            (seen, truncated), wanted = down(2000)
        finally:
            sys.setrecursionlimit(limit)
        self.assertTrue(truncated)
        self.assertEqual(len(seen), 512)
        self.assertEqual(seen[:384], wanted[:384])
        self.assertEqual(seen[384:], wanted[-128:])

    def test_names_beyond_ascii(self):
        names = {}
        exec(compile("def grüße_日本():\n    return walk()\n", "größe/日本😀.py", "exec"),
             {"walk": _dovetail._walk}, names)
        frames, _ = list(names.values())[0]()
        self.assertEqual(frames[0][:2], ("grüße_日本", "größe/日本😀.py"))

    def test_lone_surrogate_in_a_name_is_replaced(self):
        code = compile("walk()", "a\udcffb.py", "eval")
        self.assertEqual(eval(code, {"walk": _dovetail._walk})[0][0][1], "a\ufffdb.py")

    def test_long_names_are_cut(self):
        code = compile("walk()", "x" * 10_000, "eval")
        self.assertEqual(len(eval(code, {"walk": _dovetail._walk})[0][0][1]), 1024)

    def test_same_function_made_again_is_one(self):
        def make():
            names = {}
            exec(compile("def f():\n    return walk()\n", "again.py", "exec"),
                 {"walk": _dovetail._walk}, names)
            names["f"]()
        make()
        before = dovetail.status()["codes"]
        for _ in range(1000):
            make()
        self.assertEqual(dovetail.status()["codes"], before)

    def test_reused_address_has_its_own_name(self):
        for i in range(2000):
            names = {}
            exec(compile(f"def f{i % 50}():\n    return walk()\n", f"file{i % 50}.py", "exec"),
                 {"walk": _dovetail._walk}, names)
            frame = names[f"f{i % 50}"]()[0][0]
            self.assertEqual(frame[:2], (f"f{i % 50}", f"file{i % 50}.py"))


class ForeignHandlers(unittest.TestCase):
    def run_child(self, code):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    def test_a_real_fault_still_kills_the_process(self):
        done = self.run_child("import dovetail, ctypes; ctypes.string_at(1)")
        self.assertEqual(done.returncode, -signal.SIGSEGV)

    def test_faulthandler_before_us_still_speaks(self):
        done = self.run_child("import faulthandler; faulthandler.enable()\n"
                              "import dovetail, ctypes; ctypes.string_at(1)")
        self.assertIn("Segmentation fault", done.stderr)
        self.assertEqual(done.returncode, -signal.SIGSEGV)

    def test_faulthandler_after_us_still_speaks_and_walks_work(self):
        done = self.run_child("import dovetail, faulthandler, ctypes; faulthandler.enable()\n"
                              "assert dovetail._dovetail._walk()[0][0][0] == '<module>'\nctypes.string_at(1)")
        self.assertIn("Segmentation fault", done.stderr)
        self.assertEqual(done.returncode, -signal.SIGSEGV)


# ---- the storm ----

def leaf(n):
    x = 0
    for i in range(n * 10):
        x += i * i
    return x


def raiser(n):
    if n == 0:
        raise ValueError(n)
    try:
        raiser(n - 1)
    finally:
        leaf(1)


def exceptions(i):
    try:
        raiser(20)
    except ValueError as e:
        return str(e)


def dying_code(i):
    names = {}
    source = (f"def made_{i % 7}(n):\n  x = [k * 2 for k in range(n)]\n"
              f"  def inner(a):\n    return sum(a) + leaf(1)\n  return inner(x)\n")
    exec(compile(source, f"dyn{i % 7}.py", "exec"), {"leaf": leaf}, names)
    names[f"made_{i % 7}"](20)


def recursion(n):
    return recursion(n + 1) + 1


def recursion_limit(i):
    if i % 20 == 0:
        try:
            recursion(0)
        except RecursionError:
            pass


def g0(n):
    for _ in range(n):
        yield leaf(1)


def g1(n):
    yield from g0(n)


def generators(i):
    g = g1(5)
    next(g)
    try:
        g.throw(KeyError)
    except KeyError:
        pass
    return sum(g1(20)) + sum(x for x in g0(5))


async def co0(n):
    return leaf(n)


async def co1(n):
    return [await co0(1) for _ in range(n)]


def coroutines(i):
    try:
        co1(10).send(None)
    except StopIteration:
        pass


def key(x):
    return -x[0] + leaf(1)


def c_calls(i):
    sorted([(random.random(), k) for k in range(40)], key=key)
    json.dumps({"a": list(range(30))})
    re.sub("a+", substitute, "xaaxaxaa")
    list(map(leaf, [1, 2, 3]))


def substitute(match):
    return "b"


class Thing:
    def __del__(self):
        leaf(1)

    def __eq__(self, other):
        return leaf(1) > 0


def cycles(i):
    a, b = Thing(), Thing()
    a.other, b.other = b, a
    a == b
    gc.collect(0)


OPERATIONS = [dying_code, exceptions, recursion_limit, generators, coroutines, c_calls, cycles]


def work(seed, end):
    rng = random.Random(seed)
    i = seed
    while time.monotonic() < end:
        i += 1
        rng.choice(OPERATIONS)(i)
        if rng.random() < 0.02:
            time.sleep(0.0002)


def young_threads(seed, end):
    while time.monotonic() < end:
        t = threading.Thread(target=work, args=(seed, 0))
        t.start()
        t.join()


def storm_load(seconds):
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=f, args=(k, end)) for k, f in enumerate([work, work, young_threads])]
    for t in threads:
        t.start()
    work(99, end)
    for t in threads:
        t.join()


class Calls:
    """The (caller, callee) pairs that really happen, by the interpreter's own profile hook."""

    def __init__(self):
        self.pairs = set()

    @staticmethod
    def name(code):
        return code.co_qualname if HAS_QUALNAME else code.co_name, code.co_filename

    def __call__(self, frame, event, arg):
        if event == "call" and frame.f_back:
            self.pairs.add((self.name(frame.f_back.f_code), self.name(frame.f_code)))


def is_unannounced(caller, callee):
    """Calls that the profile hook does not tell of: finalizers, anywhere; throw() into a generator."""
    return callee.endswith("__del__") or (caller, callee) == ("generators", "g0")


class StormTest(unittest.TestCase):
    def test_no_crash_and_no_impossible_call_under_a_storm_of_signals(self):
        calls = Calls()
        threading.setprofile(calls)
        sys.setprofile(calls)
        try:
            storm_load(3)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        fakelib.reset()
        with fakelib.Storm():
            storm_load(60 if LONG else 4)
        walks = fakelib.walks()
        total = sum(walks.values())
        refused = sum(n for reason, n in walks.items() if reason not in (OK, NO_THREAD_STATE))
        faults = dovetail.status()["faults"]
        print(f"\n{sys.version.split()[0]}: {total} walks, by reason {walks}, faults {faults}")
        self.assertGreater(walks[OK], 1000)
        self.assertLess(refused, total / 50)
        known = {name for pair in calls.pairs for name in pair}
        mine = {name for name in known if name[1] == __file__ or name[1].startswith("dyn")}
        unseen = {(a, b) for a, b in fakelib.walked_pairs()
                  if (a, b) not in calls.pairs and a in mine and b in mine and not is_unannounced(a[0], b[0])}
        self.assertEqual(unseen, set())


if __name__ == "__main__":
    unittest.main()
