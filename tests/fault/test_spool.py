"""Answers that were paid for survive the worker's own death: the backend's log shows that what was
answered is not called again, whoever dies in between.
"""
import collections
import glob
import hashlib
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Coordinator, TestCase, Witness, Worker, chat_line, read_jsonl, run

REQUESTS = int(os.environ.get("NIGHTSHIFT_SPOOL_REQUESTS", "400"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))
# From the end of a call to its answer in the kernel's hands, with a machine that is busy.
KEPT_WITHIN = 0.5


class Spooled(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.witness = self.start(Witness(self.folder, "--latency", "0.1"))

    def job(self, prefix):
        """A file of requests, their ids, and what each must be answered."""
        ids = [f"{prefix}-{i}" for i in range(REQUESTS)]
        lines = [chat_line(c, f'<<{{"key":"{c}"}}>> say {c}') for c in ids]
        expected = {}
        for custom_id, line in zip(ids, lines):
            body = line[line.index('"body": ') + len('"body": '):-1]
            expected[custom_id] = "echo:" + hashlib.sha1(body.encode()).hexdigest()[:12]
        return self.write(prefix + ".jsonl", "\n".join(lines) + "\n"), expected

    def coordinator(self, data, address="127.0.0.1:0"):
        return self.start(Coordinator(self.path(data), "--lease-ttl", "20s", address=address))

    def worker(self, address, *options):
        return self.start(Worker(address, self.witness.url, "--name", "w", "--data-dir", self.path("w"),
                                 "--concurrency", "24", *options))

    def submit(self, source, address):
        code, out, err = run("submit", source, "--coordinator", address)
        self.assertEqual(code, 0, err)
        return out.strip()

    def calls_of(self, expected):
        return [c for c in self.witness.calls() if c["key"] in expected]

    def answers(self, job, *where):
        code, _, err = run("results", job, *where, "--force", "-o", self.path("out.jsonl"))
        self.assertEqual(code, 0, err)
        return read_jsonl(self.path("out.jsonl"))

    def finish(self, job, address, expected):
        code, _, err = run("watch", job, "--coordinator", address)
        self.assertEqual(code, 0, err)
        code, out, err = run("audit", "--coordinator", address)
        self.assertEqual(code, 0, out + err)
        got = {r["custom_id"]: r["response"]["body"]["choices"][0]["message"]["content"]
               for r in self.answers(job, "--coordinator", address)}
        self.assertEqual(got, expected)

    def outage(self, data, source, expected):
        """The coordinator dies while the worker calls; the worker finishes what it was given. Returns
        address, job and the keys that were answered and are recorded nowhere."""
        coordinator = self.coordinator(data)
        worker = self.worker(coordinator.address)
        job = self.submit(source, coordinator.address)
        self.eventually(lambda: len(self.calls_of(expected)) >= REQUESTS // 8, "the first calls")
        coordinator.kill()
        quiet = [len(self.witness.calls()), time.monotonic()]

        def nothing_more_comes():
            seen = len(self.witness.calls())
            if seen != quiet[0] or self.witness.counters()["in_flight"] > 0:
                quiet[:] = [seen, time.monotonic()]
            time.sleep(0.05)
            return time.monotonic() - quiet[1] > 1.0
        self.eventually(nothing_more_comes, "the worker has called all that it was given")
        recorded = {r["custom_id"] for r in self.answers(job, "--data-dir", self.path(data))}
        waiting = {c["key"] for c in self.calls_of(expected)} - recorded
        print(f"answered {len(self.calls_of(expected))}, recorded {len(recorded)}, waiting {len(waiting)}", file=sys.stderr)
        self.assertGreater(len(waiting), 5, "there is something to lose")
        return coordinator.address, job, worker, waiting

    def repeated(self, expected):
        counts = collections.Counter(c["key"] for c in self.calls_of(expected))
        self.assertEqual(set(counts), set(expected))
        return {key for key, n in counts.items() if n > 1}

    def test_answers_of_a_dead_worker_are_delivered_by_the_next_and_none_is_called_again(self):
        source, expected = self.job("a")
        address, job, worker, _ = self.outage("data", source, expected)
        worker.kill()
        self.coordinator("data", address)
        again = self.worker(address)
        again.wait_for(r"spool .*: \d+ answers were left there")
        self.finish(job, address, expected)
        self.assertEqual(self.repeated(expected), set())
        self.assertEqual(again.end(), 0)
        self.assertEqual(glob.glob(self.path("w") + "/spool/*.spool"), [], "nothing is left when all is delivered")

    def test_a_damaged_spool_costs_the_damaged_answers_and_no_more(self):
        source, expected = self.job("a")
        address, job, worker, waiting = self.outage("data", source, expected)
        worker.kill()
        hit = 0
        for path in glob.glob(self.path("w") + "/spool/*.spool"):
            with open(path, "rb") as handle:
                content = bytearray(handle.read())
            for _ in range(3 if content else 0):
                content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
                hit += 1
            with open(path, "wb") as handle:
                handle.write(content)
        self.assertGreater(hit, 0)
        self.coordinator("data", address)
        self.worker(address)
        self.finish(job, address, expected)
        self.assertLessEqual(len(self.repeated(expected)), hit)

    def test_only_calls_in_flight_are_repeated_when_both_die_at_once(self):
        source, expected = self.job("a")
        coordinator = self.coordinator("data")
        worker = self.worker(coordinator.address)
        address = coordinator.address
        job = self.submit(source, address)
        self.eventually(lambda: len(self.calls_of(expected)) >= REQUESTS * 3 // 4, "three quarters of the calls")
        killed_at = time.time()
        for process in self.rng.sample([coordinator, worker], 2):
            process.kill()
        self.eventually(lambda: self.witness.counters()["in_flight"] == 0, "the backend noticing")
        safe = {c["key"] for c in self.calls_of(expected)
                if c["how"] == "answered" and c["ended"] < killed_at - KEPT_WITHIN}
        self.assertGreater(len(safe), 0)
        self.coordinator("data", address)
        self.worker(address)
        self.finish(job, address, expected)
        repeated = self.repeated(expected)
        print(f"repeated {len(repeated)}, answered long before the kill {len(safe)}", file=sys.stderr)
        self.assertEqual(repeated & safe, set())

    def test_answers_for_one_store_never_reach_another(self):
        source, expected = self.job("a")
        address, job, worker, _ = self.outage("data", source, expected)
        # Another coordinator takes the address, and its first job has the same number.
        other = self.coordinator("other", address)
        other_source, other_expected = self.job("b")
        other_job = self.submit(other_source, address)
        if self.rng.random() < 0.5:
            worker.kill()
            worker = self.worker(address)
        self.finish(other_job, address, other_expected)
        self.assertEqual(self.repeated(other_expected), set())
        other.kill()
        self.coordinator("data", address)
        self.finish(job, address, expected)
        self.assertEqual(self.repeated(expected), set())

    def test_a_spool_is_one_workers(self):
        coordinator = self.coordinator("data")
        first = self.worker(coordinator.address)
        first.wait_for(r"spool +\S*/w/spool$")
        # In the same data folder the next one finds another place; told to take the same, it refuses.
        second = self.worker(coordinator.address)
        second.wait_for(r"spool +\S*/w/spool-2$")
        third = self.worker(coordinator.address, "--spool-dir", self.path("w") + "/spool")
        self.assertEqual(third.wait(), 1)
        self.assertIn(f"another nightshift process (pid {first.pid}) has {self.path('w')}/spool open",
                      "\n".join(third.err))
        self.assertIn("--spool-dir", "\n".join(third.err))

    def test_without_a_spool_it_says_what_that_costs(self):
        coordinator = self.coordinator("data")
        worker = self.worker(coordinator.address, "--spool-dir", "none")
        worker.wait_for("no spool: when this worker dies, the answers")
        worker.wait_for(r"spool +none$")
        self.assertEqual(os.path.exists(self.path("w")), False)


if __name__ == "__main__":
    unittest.main()
