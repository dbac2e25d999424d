"""The shim with the real library and daemon: what `dovetail run` stores is what the program did. Skipped
where the machine does not allow perf events, with the reason."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

BUILD = pathlib.Path(os.environ["DOVETAIL_BUILD"])
DOVETAIL = BUILD / "bin" / "dovetail"

PRELUDE = """
import asyncio, contextvars, os, sys, threading, time
import dovetail
def make(k):
    names = {}
    exec(f"def work_{k}(t):\\n  end = time.thread_time() + t\\n"
         "  while time.thread_time() < end:\\n    for i in range(1000): pass", {"time": time}, names)
    return names[f"work_{k}"]
works = [make(k) for k in range(8)]
def parent(k):
    return f"00-{k + 1:032x}-{k + 1:016x}-01"
"""


class Real(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store = os.path.join(self.folder.name, "store")

    def run_program(self, program, *, prelude=PRELUDE, code=0, env=()):
        path = os.path.join(self.folder.name, "program.py")
        with open(path, "w") as f:
            f.write(prelude + textwrap.dedent(program))
        env = dict(os.environ, **dict(env))
        env.pop("PYTHONPATH", None)  # `dovetail run` alone must do
        command = [str(DOVETAIL), "run", "-o", self.store, "--hz", "999", "--", sys.executable, path]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=200)
        if "perf_event" in done.stderr and "permi" in done.stderr.lower():
            self.skipTest("perf events are not allowed here")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def query(self, *args):
        command = [str(DOVETAIL), *args, "--store", self.store]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def traces(self):
        return [json.loads(line) for line in self.query("traces", "--json").splitlines()]

    def functions(self, trace_id):
        """Names of the functions in the trace's stacks, with the samples of each."""
        found = {}
        for line in self.query("flame", trace_id, "--samples", "-f", "folded").splitlines():
            stack, weight = line.rsplit(" ", 1)
            for name in set(stack.split(";")):
                found[name] = found.get(name, 0) + float(weight)
        return found

    def works_by_trace(self):
        """{k: names of work_ functions seen in trace k}"""
        ids = [t["trace_id"] for t in self.traces()]
        return {int(i, 16) - 1: {f for f in self.functions(i) if f.startswith("work_")} for i in ids}

    def test_interleaved_tasks_have_their_own_samples(self):
        self.run_program("""
            async def task(k):
                with dovetail.scope("request", traceparent=parent(k), tenant=f"t{k}"):
                    for _ in range(15):
                        works[k](0.01)
                        await asyncio.sleep(0)
            async def main():
                await asyncio.gather(*(task(k) for k in range(8)))
            asyncio.run(main())
            """)
        self.assertEqual(self.works_by_trace(), {k: {f"work_{k}"} for k in range(8)})
        tenants = {t["labels"]["tenant"] for t in self.traces()}
        self.assertEqual(tenants, {f"t{k}" for k in range(8)})

    def test_threads_and_executors_have_their_own_samples(self):
        self.run_program("""
            def request(k):
                with dovetail.scope("request", traceparent=parent(k)):
                    t = threading.Thread(target=contextvars.copy_context().run, args=(works[k], 0.1))
                    t.start()
                    works[k](0.1)
                    t.join()
                works[7](0.02)  # in no scope
            threads = [threading.Thread(target=request, args=(k,)) for k in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
            """)
        self.assertEqual(self.works_by_trace(), {k: {f"work_{k}"} for k in range(4)})

    def test_function_lines_and_qualified_names(self):
        self.run_program("""
            class Shop:
                def discounts(self):
                    works[0](0.3)
            with dovetail.scope("request", traceparent=parent(0)):
                Shop().discounts()
            """)
        functions = self.functions("%032x" % 1)
        name = "Shop.discounts" if sys.version_info >= (3, 11) else "discounts"
        self.assertGreater(functions.get(name, 0), 50, functions)

    def test_forked_child_is_profiled_as_itself(self):
        self.run_program("""
            def child(k):
                with dovetail.scope("child", traceparent=parent(k)):
                    works[k](0.2)
            with dovetail.scope("parent", traceparent=parent(0)):
                works[0](0.1)
                pids = []
                for k in (1, 2):
                    pid = os.fork()
                    if pid == 0:
                        child(k)
                        sys.exit(0)
                    pids.append(pid)
                for pid in pids: os.waitpid(pid, 0)
                works[0](0.1)
            """)
        self.assertEqual(self.works_by_trace(), {k: {f"work_{k}"} for k in range(3)})

    def test_program_without_dovetail_in_it_runs_unchanged(self):
        done = self.run_program("""
            import sys
            print(sys.argv[1:], "sitecustomize" in sys.modules, [p for p in sys.path if "dovetail" in p])
            sys.stderr.write("err")
            sys.exit(3)
            """, prelude="", code=3)
        self.assertEqual(done.stdout, "[] True []\n")

    def test_exit_by_exception_in_a_daemon_thread_program_is_clean(self):
        done = self.run_program("""
            def forever():
                while True:
                    with dovetail.scope("bg", traceparent=parent(1)): works[1](0.001)
            for _ in range(4): threading.Thread(target=forever, daemon=True).start()
            with dovetail.scope("request", traceparent=parent(0)): works[0](0.2)
            raise SystemExit(5)
            """, code=5)
        self.assertNotIn("Traceback", done.stderr)
        self.assertNotIn("Fatal", done.stderr)


if __name__ == "__main__":
    if not DOVETAIL.exists() or not (BUILD / "bin" / "dovetaild").exists():
        print("the daemon and the command are not built")
        sys.exit(77)
    unittest.main()
