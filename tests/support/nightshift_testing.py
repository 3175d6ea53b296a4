"""What the Python tests share: starting the program, servers and witnesses, and reading files.

The program under test is $NIGHTSHIFT_PROGRAM (set by ctest). Independent tools, such as the witness
backend, are in $NIGHTSHIFT_TOOLS (default: ../shared/tools beside the source tree); a test that
needs one that is absent is skipped with a loud line. Every process is ended by the test that
started it, by its own id.
"""
import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("NIGHTSHIFT_PROGRAM", os.path.join(ROOT, "build", "dev", "nightshift"))
TOOLS = os.environ.get("NIGHTSHIFT_TOOLS", os.path.join(os.path.dirname(ROOT), "shared", "tools"))

# Waiting for something that should come: far above what it takes, so that a slow machine is no
# failure, and a hang is.
PATIENCE = 60.0


def tool(name):
    """The path of an independent tool, or a loud skip."""
    path = os.path.join(TOOLS, name)
    if not os.path.exists(path):
        print(f"SKIPPED LOUDLY: {name} is not in {TOOLS}; this test proves nothing here", file=sys.stderr)
        raise unittest.SkipTest(f"{name} is absent")
    return path


class Process:
    """A child process whose output lines are kept; ended when the test ends."""

    def __init__(self, argv, env=None, cwd=None, stdin=None):
        merged = {**os.environ, **(env or {})}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        stdin=stdin or subprocess.DEVNULL, env=merged, cwd=cwd)
        self.out, self.err = [], []
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._read, args=(pipe, lines), daemon=True)
                         for pipe, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for thread in self._threads:
            thread.start()
        atexit.register(self.kill)

    def _read(self, pipe, lines):
        for line in iter(pipe.readline, b""):
            with self._changed:
                lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self._changed.notify_all()

    def wait_for(self, pattern, timeout=PATIENCE):
        """The match of the first output line that fits; AssertionError when none comes."""
        until = time.monotonic() + timeout
        with self._changed:
            while True:
                for line in self.out + self.err:
                    match = re.search(pattern, line)
                    if match:
                        return match
                left = until - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not any(t.is_alive() for t in self._threads)):
                    raise AssertionError(f"no line like {pattern!r}; out={self.out[-5:]} err={self.err[-10:]}")
                self._changed.wait(min(left, 0.2))

    @property
    def pid(self):
        return self.process.pid

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def end(self, timeout=PATIENCE):
        """SIGTERM, and the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout=PATIENCE):
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(5)
        return code


class Witness(Process):
    """The independent backend. `url` ends in /v1."""

    def __init__(self, folder, *options):
        self.log = os.path.join(folder, f"witness-{time.monotonic_ns()}.jsonl")
        super().__init__([sys.executable, tool("witness_server.py"), "--log", self.log, *map(str, options)])
        self.url = self.wait_for(r"listening on (http://\S+)").group(1) + "/v1"

    def calls(self):
        """Every call the backend saw, in order of their end."""
        return read_jsonl(self.log, torn_tail=True)

    def counters(self):
        with urllib.request.urlopen(self.url[:-len("/v1")] + "/witness", timeout=PATIENCE) as reply:
            return json.load(reply)


class Sim(Process):
    """The program's own simulated backend."""

    def __init__(self, *options):
        super().__init__([PROGRAM, "sim-server", "--listen", "127.0.0.1:0", *map(str, options)])
        self.url = self.wait_for(r"listening on (http://\S+)").group(1) + "/v1"


class Coordinator(Process):
    def __init__(self, data_dir, *options, address="127.0.0.1:0", env=None):
        super().__init__([PROGRAM, "coordinator", "--grpc", address, "--http", "127.0.0.1:0",
                          "--data-dir", data_dir, *map(str, options)], env=env)
        self.address = self.wait_for(r"(127\.0\.0\.1:\d+)$").group(1)


class Worker(Process):
    """Without a --data-dir among the options, in a folder of its own that goes with the tests."""

    def __init__(self, coordinator_address, backend, *options, env=None):
        if "--data-dir" not in options:
            folder = tempfile.mkdtemp(prefix="nightshift-worker-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            options += ("--data-dir", folder)
        super().__init__([PROGRAM, "worker", "--coordinator", coordinator_address, "--backend", backend,
                          "--http", "127.0.0.1:0", *map(str, options)], env=env)


def run(*arguments, env=None, cwd=None, timeout=300, input=None):
    """Runs the program to its end: (code, stdout, stderr) as text."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=timeout, cwd=cwd,
                          env={**os.environ, **(env or {})}, input=input)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def read_jsonl(path, torn_tail=False):
    if not os.path.exists(path):
        return []
    with open(path, "rb") as handle:
        lines = handle.read().split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        if line:
            try:
                records.append(json.loads(line))
            except ValueError:
                if not (torn_tail and number >= len(lines) - 1):
                    raise
    return records


def chat_line(custom_id, prompt, model="m", **body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions",
                       "body": {"model": model, "messages": [{"role": "user", "content": prompt}], **body}})


class TestCase(unittest.TestCase):
    """A folder of its own for each test, removed when it has passed."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="nightshift-test-")
        self._processes = []
        self.addCleanup(self._clean)

    def _clean(self):
        for process in reversed(self._processes):
            process.kill()
        result = self._outcome.result  # `_outcome.success` is that of this very cleanup
        if any(getattr(test, "test_case", test) is self for test, _ in result.failures + result.errors):
            print(f"kept for inspection: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, process):
        self._processes.append(process)
        return process

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        path = self.path(name)
        with open(path, "wb") as handle:
            handle.write(content if isinstance(content, bytes) else content.encode())
        return path

    def eventually(self, condition, what, timeout=PATIENCE):
        until = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"did not happen within {timeout} s: {what}")
            time.sleep(0.02)

    def check_files_cover(self, results, errors, custom_ids):
        """Each request is in exactly one of the two files, and each file is in input order."""
        result_ids = [r["custom_id"] for r in results]
        error_ids = [r["custom_id"] for r in errors]
        self.assertEqual(len(result_ids) + len(error_ids), len(custom_ids))
        self.assertEqual(sorted(result_ids + error_ids), sorted(custom_ids))
        place = {c: i for i, c in enumerate(custom_ids)}
        for ids in (result_ids, error_ids):
            places = [place[c] for c in ids]
            self.assertEqual(places, sorted(places), "not in input order")
