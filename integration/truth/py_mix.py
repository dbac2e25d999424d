"""A Python program that knows which trace each stretch of its CPU time belongs to.

    py_mix.py asyncio|threads|otel|eager|uvloop|gevent SECONDS

Each trace k works in a function of its own, work_k: a sample with work_k outside trace k is a wrong one. orphan() runs in no
scope and must be in no trace. Prints "TRACE CPU_NS" a line, by the thread's CPU clock.
"""
import asyncio
import collections
import concurrent.futures
import contextvars
import random
import sys
import threading
import time

N_TRACES = 40
spent = collections.Counter()
lock = threading.Lock()
deadline = 0.0


def make_work(k):
    names = {}
    exec(f"def work_{k}(n):\n    x = 0\n    for i in range(n):\n        x += i * i % 7\n    return x\n", names)
    return names[f"work_{k}"]


works = [make_work(k) for k in range(N_TRACES)]


def trace_id(k):
    return k + 1


def parent(k):
    return f"00-{trace_id(k):032x}-{trace_id(k):016x}-01"


def work(k, rng):
    begin = time.thread_time_ns()
    works[k](rng.randrange(500, 20_000))
    with lock:
        spent[k] += time.thread_time_ns() - begin


def orphan(n):
    x = 0
    for i in range(n):
        x += i
    return x


class OwnApi:
    """Scopes by dovetail.scope."""

    def __init__(self):
        import dovetail
        self.api = dovetail

    def trace(self, k):
        return self.api.scope("request", traceparent=parent(k), tenant=f"t{k % 3}")

    def child(self, name):
        return self.api.scope(name)

    def carry(self, fn):
        context = contextvars.copy_context()
        return lambda: context.run(fn)


class OtelApi:
    """Scopes by the current spans of the OpenTelemetry SDK; nothing of Dovetail is imported."""

    def __init__(self):
        from opentelemetry import context
        from opentelemetry.context.context import Context
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
        self.tracer = TracerProvider().get_tracer("mix")
        self.context = context

        def remote(k):
            ids = SpanContext(trace_id(k), trace_id(k), True, TraceFlags(1))
            return set_span_in_context(NonRecordingSpan(ids), Context())
        self.remote = remote

    def trace(self, k):
        return self.tracer.start_as_current_span("request", context=self.remote(k))

    def child(self, name):
        return self.tracer.start_as_current_span(name)

    def carry(self, fn):
        current = self.context.get_current()

        def run():
            token = self.context.attach(current)
            try:
                fn()
            finally:
                self.context.detach(token)
        return run


async def task(api, seed):
    rng = random.Random(seed)
    while time.monotonic() < deadline:
        k = rng.randrange(N_TRACES)
        with api.trace(k):
            for _ in range(rng.randrange(1, 6)):
                work(k, rng)
                await asyncio.sleep(0)
                if rng.random() < 0.3:
                    with api.child("inner"):
                        work(k, rng)
                        await asyncio.sleep(rng.random() / 1000)
                        work(k, rng)
                if rng.random() < 0.1:
                    await asyncio.gather(*(step(api, k, rng) for _ in range(3)))
                if rng.random() < 0.1:
                    await cancelled(k, rng)
                async for _ in steps(k, rng):
                    pass
        orphan(rng.randrange(5000))
        await asyncio.sleep(0)


async def step(api, k, rng):
    with api.child("gathered"):
        work(k, rng)
        await asyncio.sleep(0)
        work(k, rng)


async def steps(k, rng):
    for i in range(2):
        work(k, rng)
        await asyncio.sleep(0)
        yield i


async def cancelled(k, rng):
    async def endless():
        while True:
            work(k, rng)
            await asyncio.sleep(0)
    try:
        await asyncio.wait_for(endless(), 0.002)
    except asyncio.TimeoutError:
        pass


async def run_tasks(api, eager=False):
    if eager:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    await asyncio.gather(*(task(api, seed) for seed in range(16)))


def thread(api, pool, seed):
    rng = random.Random(seed)
    while time.monotonic() < deadline:
        k, other = rng.randrange(N_TRACES), rng.randrange(N_TRACES)
        with api.trace(k):
            work(k, rng)
            # The child's end on the pool's thread must not clear the parent's here, nor leak there.
            jobs = [pool.submit(api.carry(lambda: child(api, k, random.Random(seed)))) for _ in range(2)]
            jobs.append(pool.submit(orphan, 5000))
            work(k, rng)
            with api.trace(other):
                work(other, rng)
            work(k, rng)
            for job in jobs:
                job.result()
            work(k, rng)
        orphan(rng.randrange(5000))


def child(api, k, rng):
    with api.child("in the pool"):
        work(k, rng)
    work(k, rng)


def run_threads(api):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        threads = [threading.Thread(target=thread, args=(api, pool, seed)) for seed in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def run_gevent(api):
    import gevent

    def greenlet(seed):
        rng = random.Random(seed)
        while time.monotonic() < deadline:
            k = rng.randrange(N_TRACES)
            with api.trace(k):
                for _ in range(4):
                    work(k, rng)
                    gevent.sleep(0)
                with api.child("inner"):
                    gevent.sleep(0)
                    work(k, rng)
            orphan(rng.randrange(5000))
            gevent.sleep(0)
    gevent.joinall([gevent.spawn(greenlet, seed) for seed in range(16)])


def main():
    global deadline
    mode = sys.argv[1]
    api = OtelApi() if mode.startswith("otel") else OwnApi()
    deadline = time.monotonic() + float(sys.argv[2])
    if mode == "gevent":
        run_gevent(api)
    elif mode == "uvloop":
        import uvloop
        loop = uvloop.new_event_loop()
        loop.run_until_complete(run_tasks(api))
        loop.close()
    elif mode in ("threads", "otel_threads"):
        run_threads(api)
    else:
        asyncio.run(run_tasks(api, eager=mode == "eager"))
    for k in range(N_TRACES):
        print(f"{trace_id(k):032x} {spent[k]}")


if __name__ == "__main__":
    main()
