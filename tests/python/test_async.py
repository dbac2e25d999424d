"""Who the thread works for when asyncio tasks, threads and executors take turns: exact sequences, and a truth
test that compares the open scope with the expected one at every step of a random mix of everything."""
import asyncio
import concurrent.futures
import contextvars
import os
import random
import socket
import sys
import threading
import time
import unittest

import dovetail
import fakelib
from dovetail import _dovetail

CHECKS = 100_000 if not os.environ.get("DOVETAIL_QUICK") else 10_000


class Case(unittest.TestCase):
    def setUp(self):
        fakelib.reset()
        self.misuse = fakelib.misuse()

    def tearDown(self):
        self.assertEqual(fakelib.misuse(), self.misuse)
        self.assertEqual(fakelib.open_scopes(), 0)


def span_of(scope):
    return scope.traceparent()[36:52]


class Tasks(Case):
    def test_interleaved_tasks_have_a_scope_for_each_step(self):
        async def worker(name):
            with dovetail.scope(name):
                await asyncio.sleep(0)

        async def main():
            await asyncio.gather(worker("a"), worker("b"))
        asyncio.run(main())
        self.assertEqual(fakelib.story(), ["+a", "-a", "+b", "-b", "+a", "-a", "+b", "-b"])

    def test_async_with_and_async_decorator(self):
        @dovetail.scope("f")
        async def f():
            await asyncio.sleep(0)
            return 7

        async def main():
            async with dovetail.scope("a") as a:
                self.assertEqual(dovetail.traceparent(), a.traceparent())
                return await f()
        self.assertEqual(asyncio.run(main()), 7)
        self.assertEqual(fakelib.story(), ["+a", "+f", "-f", "-a", "+f", "-f", "+a", "-a"])

    def test_child_task_carries_its_parents_scope(self):
        async def child():
            return _dovetail._current()[1]

        async def main():
            with dovetail.scope("a") as a:
                task = asyncio.create_task(child())
            return await task, span_of(a)
        inside, wanted = asyncio.run(main())
        self.assertEqual(inside, wanted)
        self.assertEqual(fakelib.story(), ["+a", "-a", "+a", "-a"])

    def test_cancelled_wait_closes_and_goes_on_right(self):
        async def slow():
            with dovetail.scope("slow"):
                await asyncio.sleep(10)

        async def main():
            with dovetail.scope("outer") as outer:
                try:
                    await asyncio.wait_for(slow(), 0.001)
                except asyncio.TimeoutError:
                    pass
                self.assertEqual(_dovetail._current()[1], span_of(outer))
        asyncio.run(main())
        story = fakelib.story()
        self.assertEqual(story.count("+slow"), story.count("-slow"))
        self.assertGreaterEqual(story.count("+slow"), 2)

    def test_async_generator_left_early(self):
        async def numbers():
            with dovetail.scope("numbers"):
                for i in range(5):
                    yield i

        async def main():
            with dovetail.scope("outer"):
                async for i in numbers():
                    if i == 1:
                        break
        asyncio.run(main())

    @unittest.skipUnless(sys.version_info >= (3, 12), "eager tasks are new in 3.12")
    def test_eager_tasks_have_their_own_scope(self):
        async def child():
            with dovetail.scope("child") as s:
                self.assertEqual(_dovetail._current()[1], span_of(s))
                await asyncio.sleep(0)
                self.assertEqual(_dovetail._current()[1], span_of(s))

        async def main():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            with dovetail.scope("main") as s:
                task = asyncio.create_task(child())
                self.assertEqual(_dovetail._current()[1], span_of(s))
                await task
                self.assertEqual(_dovetail._current()[1], span_of(s))
        asyncio.run(main())

    def test_what_a_connection_reads_is_nobodys(self):
        """Neither of the request in which the connection was made nor of that in which its reading was resumed: by pools and by
        keep-alive it serves others."""
        open_at_reading = []

        class Protocol(asyncio.Protocol):
            def __init__(self):
                self.read = asyncio.Event()

            def data_received(self, data):
                open_at_reading.append(fakelib.open_scopes())
                self.read.set()

        async def main():
            ours, theirs = socket.socketpair()
            with dovetail.scope("first"):
                transport, protocol = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
            for _ in range(2):
                theirs.send(b"x")
                await protocol.read.wait()
                protocol.read.clear()
                transport.pause_reading()
                with dovetail.scope("second"):
                    transport.resume_reading()
            with dovetail.scope("third"):
                theirs.send(b"x")
                await protocol.read.wait()
            transport.close()
            theirs.close()
        asyncio.run(main())
        self.assertEqual(open_at_reading, [0, 0, 0])

    def test_loop_between_steps_works_for_nobody(self):
        seen = []

        class Policy(asyncio.SelectorEventLoop):
            def _run_once(self):
                seen.append(_dovetail._current())
                super()._run_once()

        async def main():
            with dovetail.scope("a"):
                for _ in range(5):
                    await asyncio.sleep(0)
        loop = Policy()
        loop.run_until_complete(main())
        loop.close()
        self.assertEqual(set(seen), {None})


class Threads(Case):
    def test_copied_context_takes_the_scope_to_the_thread(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool, dovetail.scope("a") as a:
            context = contextvars.copy_context()
            self.assertEqual(pool.submit(context.run, _dovetail._current).result()[1], span_of(a))
            self.assertIsNone(pool.submit(_dovetail._current).result())
        opens = [e for e in fakelib.take() if isinstance(e, fakelib.Open)]
        self.assertEqual(len({(e.trace, e.span) for e in opens}), 1)
        self.assertEqual(len({e.tid for e in opens}), 2)

    def test_run_in_executor_without_context_is_nobodys(self):
        async def main():
            with dovetail.scope("a"):
                loop = asyncio.get_running_loop()
                self.assertIsNone(await loop.run_in_executor(None, _dovetail._current))
                if hasattr(asyncio, "to_thread"):
                    self.assertIsNotNone(await asyncio.to_thread(_dovetail._current))
        asyncio.run(main())

    def test_childs_end_does_not_clear_the_parents(self):
        def child():
            with dovetail.scope("child"):
                pass
        with dovetail.scope("parent") as parent:
            t = threading.Thread(target=contextvars.copy_context().run, args=(child,))
            t.start()
            t.join()
            self.assertEqual(_dovetail._current()[1], span_of(parent))

    def test_many_threads_leave_nothing(self):
        def work():
            with dovetail.scope("w"):
                pass
        fakelib.logging(False)
        for _ in range(500):
            t = threading.Thread(target=work)
            t.start()
            t.join()


class Fork(Case):
    def test_child_of_a_fork_goes_on_in_its_own_scopes(self):
        with dovetail.scope("a") as a:
            fakelib.take()
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                ok = b"1"
                try:
                    with dovetail.scope("b") as b:
                        same = _dovetail._current()[1] == span_of(b)
                    same = same and _dovetail._current()[1] == span_of(a)
                    ok = b"1" if same and "-a" not in fakelib.story() else b"0"
                except BaseException:
                    ok = b"0"
                os.write(write, ok + b.traceparent().encode())
                os._exit(0)
            os.waitpid(pid, 0)
            answer = os.read(read, 100)
            os.close(read)
            os.close(write)
            self.assertEqual(answer[:1], b"1")
            with dovetail.scope("c") as c:
                self.assertNotEqual(answer[1:].decode(), c.traceparent())


class Truth:
    """Checks the open scope against the one expected at every step. Each task has a stack of them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.checks = self.wrong = 0
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        self.samples = []

    def check(self, expected):
        now = _dovetail._current()
        self.checks += 1
        if (now[1] if now else None) != (expected[-1] if expected else None):
            self.wrong += 1
            if len(self.samples) < 5:
                self.samples.append((now, expected[-1:]))

    def enter(self, expected):
        """A scope whose span is expected while it is open."""
        return _Expected(self, expected)

    def in_thread(self, expected):
        expected = list(expected)
        self.check(expected)
        with self.enter(expected):
            time.sleep(0.0001)
            self.check(expected)
        self.check(expected)

    async def numbers(self, expected):
        for i in range(3):
            self.check(expected)
            yield i
            await asyncio.sleep(0)
            self.check(expected)

    async def worker(self, depth, expected):
        expected = list(expected)
        for _ in range(self.rng.randrange(2, 6)):
            self.check(expected)
            await self.rng.choice(self.STEPS)(self, depth, expected)
            self.check(expected)

    async def yielding(self, depth, expected):
        await asyncio.sleep(0)

    async def sleeping(self, depth, expected):
        await asyncio.sleep(self.rng.random() * 0.002)

    async def nested(self, depth, expected):
        if depth < 5:
            with self.enter(expected):
                await self.worker(depth + 1, expected)
                self.check(expected)

    async def children(self, depth, expected):
        if depth < 4:
            with self.enter(expected):
                tasks = [asyncio.create_task(self.worker(depth + 1, expected)) for _ in range(2)]
                self.check(expected)
                await asyncio.gather(*tasks)
                self.check(expected)

    async def callback(self, depth, expected):
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        with self.enter(expected):
            inside = list(expected)

            def called():
                self.check(inside)
                if not done.done():
                    done.set_result(1)
            loop.call_soon(called) if self.rng.random() < 0.5 else loop.call_later(0.0005, called)
        await done

    async def timeout(self, depth, expected):
        try:
            with self.enter(expected):
                await asyncio.wait_for(asyncio.sleep(0.01), 0.0003)
        except asyncio.TimeoutError:
            pass

    async def executor(self, depth, expected):
        with self.enter(expected):
            context = contextvars.copy_context()
            await asyncio.get_running_loop().run_in_executor(
                self.pool, lambda: context.run(self.in_thread, list(expected)))
            self.check(expected)
        await asyncio.get_running_loop().run_in_executor(self.pool, self.check, [])

    async def generator(self, depth, expected):
        with self.enter(expected):
            async for i in self.numbers(expected):
                self.check(expected)
                if i == 1 and self.rng.random() < 0.3:
                    break

    async def failing(self, depth, expected):
        try:
            with self.enter(expected):
                await asyncio.sleep(0)
                self.check(expected)
                raise ValueError
        except ValueError:
            pass

    async def running(self, depth, expected):
        def f(inside):
            self.check(inside)
            with self.enter(inside):
                contextvars.copy_context().run(self.check, list(inside))
                contextvars.Context().run(self.check, [])
                self.check(inside)
            self.check(inside)
        contextvars.copy_context().run(f, list(expected))

    STEPS = [yielding, sleeping, nested, children, callback, timeout, executor, generator, failing, running]

    async def main(self):
        rounds = 0
        while self.checks < CHECKS:
            rounds += 1
            await asyncio.gather(*[self.worker(0, []) for _ in range(200)])
            if hasattr(asyncio, "eager_task_factory"):
                factory = asyncio.eager_task_factory if rounds % 2 else None
                asyncio.get_running_loop().set_task_factory(factory)


class _Expected:
    def __init__(self, truth, expected):
        self.expected = expected
        self.scope = dovetail.scope("s")

    def __enter__(self):
        self.scope.__enter__()
        self.expected.append(span_of(self.scope))

    def __exit__(self, *exc_info):
        self.expected.pop()
        self.scope.__exit__(*exc_info)


class TruthTest(Case):
    def test_the_open_scope_is_the_tasks_in_100_000_checks(self):
        fakelib.logging(False)
        truth = Truth(7)
        asyncio.run(truth.main())
        truth.pool.shutdown()
        print(f"\n{sys.version.split()[0]}: {truth.checks} checks, {truth.wrong} wrong, resyncs "
              f"{dovetail.status()['resyncs']}")
        self.assertEqual((truth.wrong, truth.samples), (0, []))
        self.assertGreaterEqual(truth.checks, CHECKS)


if __name__ == "__main__":
    unittest.main()
