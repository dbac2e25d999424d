"""What the Python shim costs: each figure hooked and unhooked in the same run, in ns of thread CPU time.

    bench_python.py BUILD_DIR [PYTHON]

Runs three children: plain (no shim), absent (the shim, no daemon), daemon (under `dovetail run`). The tests
of a child take turns in many short rounds, of which the best counts, and so do the children.
Targets: a scope <= 0.8x of a `with` of a pure Python context manager that reads the clock twice;
an asyncio step +100 to 300 ns.
"""
import asyncio
import contextvars
import json
import os
import subprocess
import sys
import tempfile
import time

ROUNDS, TURNS = 40, 3


class Empty:
    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return False


class TwoClocks:
    __slots__ = ("name", "start", "end")

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = time.monotonic_ns()
        return self

    def __exit__(self, *exc_info):
        self.end = time.monotonic_ns()
        return False


def measure(tests):
    """{name: ns for one turn of the best round}"""
    found = {}
    for _ in range(ROUNDS):
        for name, function in tests.items():
            n = 200 if "span" in name else 2000
            begin = time.thread_time_ns()
            function(n)
            ns = (time.thread_time_ns() - begin) / n
            found[name] = min(ns, found.get(name, ns))
    return found


def loop(n):
    for _ in range(n):
        pass


def clock_read(n):
    clock = time.monotonic_ns
    for _ in range(n):
        clock()


def with_empty(n):
    for _ in range(n):
        with Empty():
            pass


def with_two_clocks(n):
    for _ in range(n):
        with TwoClocks("name"):
            pass


variable = contextvars.ContextVar("unrelated")


def set_reset(n):
    for _ in range(n):
        variable.reset(variable.set(1))


def nothing():
    pass


def context_run(n):
    run = contextvars.copy_context().run
    for _ in range(n):
        run(nothing)


def steps(n, manager=Empty):
    async def worker():
        with manager():
            for _ in range(n // 10):
                await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(worker() for _ in range(10)))
    asyncio.run(main())


def of_shim():
    import dovetail

    def scope(n):
        for _ in range(n):
            with dovetail.scope("name"):
                pass

    def scope_with_label(n):
        for _ in range(n):
            with dovetail.scope("name", tenant="acme"):
                pass

    def nested(n):
        with dovetail.scope("outer"):
            scope(n)
    return {"scope": scope, "scope nested": nested, "scope with a label": scope_with_label,
            "asyncio step, scoped": lambda n: steps(n, lambda: dovetail.scope("task"))}


def of_otel():
    try:
        from opentelemetry import context
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace import set_span_in_context
    except ImportError:
        return {}
    tracer = TracerProvider().get_tracer("bench")
    current = set_span_in_context(tracer.start_span("name"))

    def attach_detach(n):
        for _ in range(n):
            context.detach(context.attach(current))

    def span(n):
        for _ in range(n):
            with tracer.start_as_current_span("name"):
                pass
    return {"otel attach+detach": attach_detach, "otel start_as_current_span": span}


def child(mode):
    tests = {"loop": loop, "clock read": clock_read, "with, empty": with_empty,
             "with, two clocks": with_two_clocks, "set+reset, other variable": set_reset,
             "Context.run": context_run, "asyncio step": steps}
    if mode != "plain":
        import dovetail
        assert dovetail.status()["enabled"], dovetail.status()
        tests.update(of_shim())
    tests.update(of_otel())
    time.sleep(3)  # the connection is made, or given up for now, in the background
    for name, ns in measure(tests).items():
        print(json.dumps([name, ns]))


def run_child(build, python, mode):
    env = dict(os.environ, PYTHONPATH=os.path.join(build, "lib/python"), PYTHONDONTWRITEBYTECODE="1",
               DOVETAIL_SOCKET="/nonexistent/dovetail.sock")
    command = [python, os.path.abspath(__file__), "--child", mode]
    with tempfile.TemporaryDirectory() as store:
        if mode == "daemon":
            del env["DOVETAIL_SOCKET"]
            command = [os.path.join(build, "bin/dovetail"), "run", "-o", store, "--"] + command
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{mode}: {done.stderr}")
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def main():
    build = sys.argv[1]
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    modes = ("plain", "absent", "daemon")
    found = {mode: {} for mode in modes}
    for _ in range(TURNS):
        for mode in modes:
            for name, ns in run_child(build, python, mode).items():
                found[mode][name] = min(ns, found[mode].get(name, ns))
    print(f"{'ns each, less the loop':32}" + "".join(f"{m:>10}" for m in modes) + f"{'daemon - plain':>17}")
    for name in found["daemon"]:
        base = {m: found[m]["loop"] if name != "loop" else 0 for m in modes}
        values = [found[m][name] - base[m] if name in found[m] else None for m in modes]
        cells = "".join(f"{v:10.0f}" if v is not None else f"{'':10}" for v in values)
        added = f"{values[2] - values[0]:17.0f}" if values[0] is not None else ""
        print(f"{name:32}{cells}{added}")
    for mode in modes[1:]:
        own = found[mode]
        ratio = (own["scope"] - own["loop"]) / (own["with, two clocks"] - own["loop"])
        print(f"scope / with of two clocks, {mode}: {ratio:.2f} (target 0.80)")


if __name__ == "__main__":
    child(sys.argv[2]) if sys.argv[1] == "--child" else main()
