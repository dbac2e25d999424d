"""Greenlets switch the thread's context themselves: exact sequences, another tracer, and a truth test."""
import random
import sys
import threading
import unittest

import gevent
import greenlet

import dovetail
import fakelib
import test_async
from dovetail import _dovetail


class Switches(test_async.Case):
    def test_switch_closes_and_reopens(self):
        def a():
            with dovetail.scope("a"):
                b.switch()

        def b():
            with dovetail.scope("b"):
                a.switch()
        with dovetail.scope("warm"):
            pass  # the tracer is put in place at a thread's first scope
        fakelib.take()
        a, b = greenlet.greenlet(a), greenlet.greenlet(b)
        a.switch()
        self.assertEqual(fakelib.story(), ["+a", "-a", "+b", "-b", "+a", "-a"])
        b.switch()
        self.assertEqual(fakelib.story(), ["+b", "-b"])

    def test_tracer_that_was_there_goes_on(self):
        seen = []

        def work():
            greenlet.settrace(lambda event, args: seen.append(event))
            with dovetail.scope("a"):
                greenlet.greenlet(lambda: None).switch()
        t = threading.Thread(target=work)
        t.start()
        t.join()
        self.assertEqual(seen, ["switch", "switch"])
        self.assertEqual(fakelib.story(), ["+a", "-a", "+a", "-a"])


class TruthTest(test_async.Case):
    """Greenlets that spawn, sleep and nest scopes at random, on two threads."""

    checks = wrong = 0

    def check(self, expected):
        now = _dovetail._current()
        self.checks += 1
        self.wrong += (now[1] if now else None) != (expected[-1] if expected else None)

    def work(self, rng, depth, expected):
        self.check(expected)
        with dovetail.scope("s") as scope:
            expected.append(test_async.span_of(scope))
            for _ in range(3):
                self.check(expected)
                gevent.sleep(rng.random() * 0.001 if rng.random() < 0.5 else 0)
                self.check(expected)
                if depth < 3 and rng.random() < 0.6:
                    gevent.spawn(self.work, rng, depth + 1, []).join()
                    self.check(expected)
                if depth < 3 and rng.random() < 0.5:
                    self.work(rng, depth + 1, expected)
                    self.check(expected)
            expected.pop()
        self.check(expected)

    def loop(self, seed):
        rng = random.Random(seed)
        while self.checks < test_async.CHECKS:
            gevent.joinall([gevent.spawn(self.work, rng, 0, []) for _ in range(100)])

    def test_the_open_scope_is_the_greenlets_in_100_000_checks(self):
        fakelib.logging(False)
        threads = [threading.Thread(target=self.loop, args=(seed,)) for seed in (1, 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        print(f"\n{sys.version.split()[0]} gevent: {self.checks} checks, {self.wrong} wrong")
        self.assertEqual(self.wrong, 0)


if __name__ == "__main__":
    unittest.main()
