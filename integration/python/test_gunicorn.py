"""gunicorn forks its workers after the shim is loaded: each worker has its own scopes, and nothing hangs."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

APPLICATION = """
import json, os
import dovetail, fakelib

def app(environ, start_response):
    fakelib.take()
    with dovetail.scope(environ["PATH_INFO"], traceparent=environ.get("HTTP_TRACEPARENT")):
        trace = dovetail.traceparent()[3:35]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([os.getpid(), trace, fakelib.story()]).encode()]
"""


class Socket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Prefork(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "service.py").write_text(APPLICATION)
        self.socket = str(self.folder / "s")

    def request(self, k):
        c = Socket(self.socket)
        c.request("GET", f"/{k}", headers={"traceparent": f"00-{k + 1:032x}-{k + 1:016x}-01"})
        answer = json.loads(c.getresponse().read())
        c.close()
        return answer

    def wait(self, server):
        """Until it listens: its socket is there a moment before."""
        for _ in range(400):
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(self.socket) == 0 or server.poll() is not None:
                    return
            time.sleep(0.05)

    def test_workers_have_their_own_scopes(self):
        for kind in (["--preload"], ["--worker-class", "gthread", "--threads", "4"]):
            least = 2 if "--preload" in kind else 1  # workers that answer
            command = [sys.executable, "-m", "gunicorn", "--workers", "3", "--chdir", str(self.folder)]
            command += ["--bind", f"unix:{self.socket}", "--log-level", "error", *kind, "service:app"]
            server = subprocess.Popen(command)
            try:
                self.wait(server)
                answers = []
                # A busy machine may have one worker take many in a row.
                while len(answers) < 60 or (len(answers) < 2000 and len({pid for pid, _, _ in answers}) < least):
                    answers.append(self.request(len(answers)))
            finally:
                server.send_signal(signal.SIGTERM)
                self.assertEqual(server.wait(30), 0)
            self.assertGreaterEqual(len({pid for pid, _, _ in answers}), least)
            for k, (_, trace, story) in enumerate(answers):
                self.assertEqual(trace, f"{k + 1:032x}")
                self.assertEqual(story, [f"+/{k}", f"-/{k}"])


if __name__ == "__main__":
    unittest.main()
