"""uvloop enters contexts by the C API, not by Context.run: the truth test on it."""
import asyncio
import sys
import unittest

import uvloop

import fakelib
import test_async


class TruthTest(test_async.Case):
    def test_the_open_scope_is_the_tasks_in_100_000_checks(self):
        fakelib.logging(False)
        truth = test_async.Truth(13)
        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(truth.main())
        loop.close()
        truth.pool.shutdown()
        print(f"\n{sys.version.split()[0]} uvloop: {truth.checks} checks, {truth.wrong} wrong")
        self.assertEqual((truth.wrong, truth.samples), (0, []))


if __name__ == "__main__":
    unittest.main()
