"""A prompt that kills whoever touches it: the worker that calls a backend with it, or the backend.
The others of its job succeed, and it ends as failed after a few deaths.

Sizes come from the environment: NIGHTSHIFT_POISON_REQUESTS (default 500), NIGHTSHIFT_POISON_WORKERS
(default 2), NIGHTSHIFT_SEED.
"""
import os
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Coordinator, Process, TestCase, Worker, chat_line, read_jsonl, run

REQUESTS = int(os.environ.get("NIGHTSHIFT_POISON_REQUESTS", "500"))
WORKERS = int(os.environ.get("NIGHTSHIFT_POISON_WORKERS", "2"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))
BACKEND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mortal_backend.py")
# What a supervisor takes to start a process again.
RESTART_AFTER = 0.3


class Supervised:
    """Starts a process again whenever it has died, until the test ends."""

    def __init__(self, make, pid_file=None):
        self.make, self.pid_file = make, pid_file
        self.deaths = 0
        self.stopping = False
        self._start()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _start(self):
        self.process = self.make()
        if self.pid_file:
            with open(self.pid_file + ".new", "w") as handle:
                handle.write(str(self.process.pid))
            os.replace(self.pid_file + ".new", self.pid_file)

    def _watch(self):
        while not self.stopping:
            if self.process.process.poll() is None:
                time.sleep(0.02)
                continue
            self.deaths += 1
            time.sleep(RESTART_AFTER)
            if not self.stopping:
                self._start()

    def kill(self):
        self.stopping = True
        self.thread.join()
        self.process.kill()


class Poison(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)

    def backend(self, log, *options, port=0):
        process = Process([sys.executable, BACKEND, "--log", self.path(log), "--port", str(port), *options])
        process.wait_for(r"listening on (http://\S+)")
        return process

    def source(self, requests):
        """A file of requests, one of which is deadly; its id and all of them."""
        ids = [f"r-{i}" for i in range(requests)]
        deadly = self.rng.choice(ids)
        return self.write("in.jsonl", "".join(
            chat_line(c, ("deadly " if c == deadly else "say ") + c) + "\n" for c in ids)), deadly, ids

    def submit(self, source, address):
        code, out, err = run("submit", source, "--coordinator", address)
        self.assertEqual(code, 0, err)
        return out.strip()

    def calls(self, prefix):
        return [c["key"] for name in os.listdir(self.folder) if name.startswith(prefix)
                for c in read_jsonl(self.path(name), torn_tail=True)]

    def check(self, job, address, ids, deadly, code_expected):
        code, _, err = run("watch", job, "--coordinator", address)
        self.assertEqual(code, 3, err)
        code, out, err = run("audit", "--coordinator", address)
        self.assertEqual(code, 0, out + err)
        for kind in ("results", "errors"):
            code, _, err = run(kind, job, "--coordinator", address, "-o", self.path(kind))
            self.assertEqual(code, 0, err)
        results, errors = read_jsonl(self.path("results")), read_jsonl(self.path("errors"))
        self.check_files_cover(results, errors, ids)
        self.assertEqual([e["custom_id"] for e in errors], [deadly])
        self.assertEqual(errors[0]["error"]["code"], code_expected)
        for r in results:
            self.assertEqual(r["response"]["body"]["choices"][0]["message"]["content"],
                             f"echo say {r['custom_id']}")
        return errors[0]

    def deadly_to_workers(self, restart_coordinator):
        source, deadly, ids = self.source(REQUESTS)
        coordinator = self.start(Coordinator(self.path("data"), "--lease-ttl", "3s"))
        address = coordinator.address
        fleet = []
        for i in range(WORKERS):
            pid_file = self.path(f"pid-{i}")
            url = self.start(self.backend(f"calls-{i}", "--kills", pid_file)).wait_for(r"(http://\S+)").group(1) + "/v1"
            fleet.append(self.start(Supervised(
                lambda i=i, url=url: Worker(address, url, "--name", f"w{i}", "--data-dir", self.path(f"w{i}"),
                                            "--concurrency", "16"), pid_file)))
        job = self.submit(source, address)
        if restart_coordinator:
            self.eventually(lambda: self.calls("calls-").count(deadly) >= 2, "the second death")
            coordinator.kill()
            time.sleep(0.5)
            self.start(Coordinator(self.path("data"), "--lease-ttl", "3s", address=address))
        error = self.check(job, address, ids, deadly, "worker_crashed")
        deaths = sum(w.deaths for w in fleet)
        print(f"requests {REQUESTS}, workers {WORKERS}, deaths {deaths}, calls {len(self.calls('calls-'))}",
              file=sys.stderr)
        self.assertEqual(self.calls("calls-").count(deadly), deaths)
        self.assertEqual(error["nightshift"]["error_class"], "worker_crashed")
        return deaths

    def test_a_prompt_that_kills_workers_costs_three_of_them_and_the_others_succeed(self):
        self.assertEqual(self.deadly_to_workers(restart_coordinator=False), 3)

    def test_a_restart_of_the_coordinator_in_the_middle_costs_one_more_at_most(self):
        self.assertIn(self.deadly_to_workers(restart_coordinator=True), (3, 4))

    def test_a_prompt_that_kills_its_backend_fails_alone(self):
        source, deadly, ids = self.source(60)
        coordinator = self.start(Coordinator(self.path("data")))
        first = self.backend("calls", "--latency", "0.2")
        port = int(first.wait_for(r":(\d+)").group(1))
        first.kill()
        backend = self.start(Supervised(lambda: self.backend("calls", "--latency", "0.2", port=port)))
        self.start(Worker(coordinator.address, f"http://127.0.0.1:{port}/v1", "--name", "w", "--data-dir",
                          self.path("w"), "--concurrency", "64"))
        job = self.submit(source, coordinator.address)
        self.check(job, coordinator.address, ids, deadly, "connection_error")
        print(f"deaths {backend.deaths}, calls {len(self.calls('calls'))}", file=sys.stderr)
        self.assertEqual(self.calls("calls").count(deadly), backend.deaths)
        # Three until it is called alone, then one for each of its five attempts.
        self.assertLessEqual(backend.deaths, 3 + 5)


if __name__ == "__main__":
    unittest.main()
