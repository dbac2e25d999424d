"""The shim in whole processes: `dovetail run`, exits, forks, sub-interpreters, off, absent."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import dovetail

PACKAGE = pathlib.Path(dovetail.__file__).resolve().parent
AUTO = PACKAGE / "_auto"


def run(code, *, path=(), env=()):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, path)), **dict(env))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, cwd="/")


class Threads(unittest.TestCase):
    code = """
import threading, dovetail, fakelib
def run(target, *args, **kwargs):
    t = threading.Thread(target=target, args=args, kwargs=kwargs)
    t.start()
    t.join()
def idle(*args, **kwargs):
    assert (args, kwargs) == ((1,), {"x": 2})
    seen.append(fakelib.thread_starts())
def scoped():
    with dovetail.scope("a"):
        pass
def old():
    while time.thread_time() < 0.01:
        pass
    scoped()
import time
seen = []
with dovetail.scope("main"):
    pass
run(old)
run(idle, 1, x=2)
run(scoped)
run(idle, 1, x=2)
run(idle, 1, x=2)
fakelib.active(False)
run(idle, 1, x=2)
print(seen)
"""

    def test_new_threads_are_announced_once_a_young_one_had_a_scope_and_with_a_daemon(self):
        done = run(self.code, path=[PACKAGE.parent, pathlib.Path(__file__).parent])
        self.assertEqual((done.stdout, done.stderr), ("[0, 1, 2, 2]\n", ""))

    def test_an_exception_in_a_thread_is_told_as_without_us(self):
        code = self.code.replace("print(seen)", "fakelib.active(True)\nrun(lambda: 1 / 0)")
        done = run(code, path=[PACKAGE.parent, pathlib.Path(__file__).parent])
        self.assertIn("ZeroDivisionError", done.stderr)
        self.assertNotIn("dovetail", done.stderr)


class Auto(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_loads_dovetail_and_leaves_no_trace_on_sys_path(self):
        done = run("import sys; print(sys.modules['dovetail'].status()['enabled'], "
                   "[p for p in sys.path if 'dovetail' in p])", path=[AUTO])
        self.assertEqual((done.stdout, done.stderr), ("True []\n", ""))

    def test_children_are_profiled_too(self):
        done = run("import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', "
                   "'import sys; print(\"dovetail\" in sys.modules)']).decode())", path=[AUTO])
        self.assertEqual(done.stdout.strip(), "True")

    def test_a_sitecustomize_that_was_there_still_runs(self):
        (self.folder / "sitecustomize.py").write_text("import sys; sys.was_there = True")
        done = run("import sys; print(sys.was_there, sys.modules['sitecustomize'].__file__, "
                   "'dovetail' in sys.modules)", path=[AUTO, self.folder])
        self.assertEqual(done.stdout, f"True {self.folder}/sitecustomize.py True\n")

    def test_an_error_in_it_is_told_as_without_us(self):
        (self.folder / "sitecustomize.py").write_text("import no_such_module")
        ours, plain = (run("print('goes on')", path=p) for p in ([AUTO, self.folder], [self.folder]))
        self.assertEqual(ours.stdout, plain.stdout)
        self.assertEqual(ours.stderr.splitlines()[-1], plain.stderr.splitlines()[-1])

    def test_the_applications_own_module_of_our_name_is_not_hidden_after_chaining(self):
        (self.folder / "sitecustomize.py").write_text("import dovetail")
        self.assertEqual(run("print(1)", path=[AUTO, self.folder]).stdout, "1\n")

    def test_no_extension_for_this_interpreter_does_nothing(self):
        empty = self.folder / "dovetail"
        empty.mkdir()
        for f in PACKAGE.glob("*.py"):
            (empty / f.name).write_text(f.read_text())
        done = run("""
import asyncio, dovetail
async def f():
    async with dovetail.scope("a", x=1) as s:
        s.label(y=2)
@dovetail.scope("b")
def g(x): return x
with dovetail.scope("a", traceparent="x", links=[]): dovetail.label(x=1)
asyncio.run(f())
print(g(3), dovetail.traceparent(), dovetail.status()["enabled"], dovetail.status()["error"].split(":")[0])
""", path=[self.folder])
        self.assertEqual((done.stdout, done.stderr), ("3 None False ModuleNotFoundError\n", ""))


class Processes(unittest.TestCase):
    def python(self, code, **kw):
        return run(code, path=[PACKAGE.parent, pathlib.Path(__file__).parent], **kw)

    def test_off_is_inert_and_says_so(self):
        done = self.python("import dovetail\nwith dovetail.scope('a'): print(dovetail.status()['enabled'], "
                           "dovetail.status()['error'])", env={"DOVETAIL": "off"})
        self.assertEqual(done.stdout, "False switched off by DOVETAIL=off\n")

    def test_stops_before_the_interpreter_goes(self):
        done = self.python("import dovetail", env={"FAKE_PRINT_STOP": "1"})
        self.assertEqual(done.stderr, "dvt_stop called\n")

    def test_exit_with_daemon_threads_in_scopes(self):
        code = ("import dovetail, threading, time\n"
                "def forever():\n"
                "    while True:\n"
                "        with dovetail.scope('a'): pass\n"
                "for _ in range(8): threading.Thread(target=forever, daemon=True).start()\n"
                "time.sleep(0.1)\n")
        for _ in range(5):
            done = self.python(code)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_sub_interpreters_are_let_be(self):
        code = """
import contextvars, sys
import dovetail, fakelib
try:
    import _xxsubinterpreters as sub
except ImportError:
    import _interpreters as sub
with dovetail.scope("a"):
    fakelib.take()
    i = sub.create()
    run = getattr(sub, "run_string", None) or sub.exec
    run(i, "import contextvars; v = contextvars.ContextVar('current_context'); v.reset(v.set(1)); "
           "contextvars.copy_context().run(lambda: None)")
    sub.destroy(i)
    print(fakelib.take())
"""
        done = self.python(code)
        self.assertEqual((done.stdout, done.returncode), ("[]\n", 0), done.stderr)

    def test_multiprocessing_workers_have_their_own_scopes(self):
        code = """
import multiprocessing, dovetail, fakelib
def work(k):
    fakelib.take()
    with dovetail.scope(f"w{k}"): pass
    return fakelib.story()
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(4)))
"""
        done = self.python(code)
        self.assertEqual(done.stdout, str([[f"+w{k}", f"-w{k}"] for k in range(4)]) + "\n", done.stderr)

    def test_traceparent_helpers(self):
        header = dovetail.format_traceparent("0AF7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", False)
        self.assertEqual(header, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
        self.assertEqual(dovetail.parse_traceparent(header),
                         ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", False))
        self.assertIsNotNone(dovetail.parse_traceparent("cc" + header[2:] + "-more"))
        for bad in ("", None, 3, header + "-more", "ff" + header[2:], header.upper(), header + "\n",
                    header.replace("b7ad", "zzzz"), "00-" + "0" * 32 + header[35:],
                    header[:36] + "0" * 16 + "-01"):
            self.assertIsNone(dovetail.parse_traceparent(bad), bad)
        with self.assertRaises(ValueError):
            dovetail.format_traceparent("1", "2")


if __name__ == "__main__":
    unittest.main()
