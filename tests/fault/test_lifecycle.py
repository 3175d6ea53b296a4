"""What people do to a job in the middle of it, and what is left of it: with the real program, and a
backend whose log says what was called and what was given up.

NIGHTSHIFT_LIFECYCLE_ROUNDS (default 2) repeats the cancellations, each at another moment.
"""
import json
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Coordinator, TestCase, Witness, Worker, chat_line, read_jsonl, run

ROUNDS = int(os.environ.get("NIGHTSHIFT_LIFECYCLE_ROUNDS", "2"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))


class Lifecycle(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)

    def fleet(self, *witness_options, concurrency=4):
        self.witness = self.start(Witness(self.folder, *witness_options))
        self.coordinator = self.start(Coordinator(self.path("data"), "--lease-ttl", "3s"))
        self.where = ("--coordinator", self.coordinator.address)
        self.concurrency = concurrency
        return self.worker()

    def worker(self):
        return self.start(Worker(self.coordinator.address, self.witness.url, "--name", "w", "--data-dir",
                                 self.path("w"), "--concurrency", self.concurrency))

    def submit(self, name, ids, *options, fault=None):
        lines = [chat_line(c, f'<<{json.dumps({"key": c, **(fault or {})})}>> say {c}') for c in ids]
        source = self.write(name + ".jsonl", "\n".join(lines) + "\n")
        code, out, err = run("submit", source, *options, *self.where)
        self.assertEqual(code, 0, err)
        return out.strip()

    def status(self, job):
        code, out, err = run("status", job, "--json", *self.where)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def files(self, job):
        for kind in ("results", "errors"):
            code, _, err = run(kind, job, *self.where, "--force", "-o", self.path(kind))
            self.assertEqual(code, 0, err)
        code, out, err = run("audit", *self.where)
        self.assertEqual(code, 0, out + err)
        return read_jsonl(self.path("results")), read_jsonl(self.path("errors"))

    def control(self, what, job, code=0):
        yes = ("--yes",) if what == "cancel" else ()
        got, out, err = run(what, job, *yes, *self.where)
        self.assertEqual(got, code, out + err)

    def wait_for_state(self, job, *states):
        self.eventually(lambda: self.status(job)["state"] in states, f"{job} becomes {states}")
        return self.status(job)

    # R31, R32, R40: the 25 lines are all there, each once.
    def test_25_requests_cancelled_in_the_middle_are_all_accounted_for(self):
        self.fleet("--latency", "0.1")
        for round_ in range(ROUNDS):
            ids = [f"c{round_}-{i}" for i in range(25)]
            job = self.submit(f"c{round_}", ids)
            some = self.rng.randrange(1, 20)
            self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= some, f"{some} answers")
            self.control("cancel", job)
            status = self.wait_for_state(job, "cancelled", "completed")
            results, errors = self.files(job)
            self.check_files_cover(results, errors, ids)
            self.assertEqual(len(results), status["counts"]["succeeded"])
            self.assertGreaterEqual(len(results), some)
            self.assertEqual(status["counts"]["cancelled"], len(errors))
            self.assertEqual({e["error"]["code"] for e in errors} - {"batch_cancelled"}, set())
            print(f"cancelled after {some}: {len(results)} results, {len(errors)} cancelled", file=sys.stderr)
            # Again is fine, and changes nothing.
            self.control("cancel", job, code=0 if status["state"] == "cancelled" else 2)
            self.assertEqual(self.status(job)["counts"], status["counts"])

    # R41: the backend sees the connections close, and works on nothing that nobody wants.
    def test_calls_under_way_are_given_up_within_a_second_of_the_cancellation(self):
        self.fleet("--latency", "30", concurrency=16)
        ids = [f"u-{i}" for i in range(40)]
        job = self.submit("u", ids)
        self.eventually(lambda: self.witness.counters()["in_flight"] == 16, "16 calls under way")
        begin = time.monotonic()
        self.control("cancel", job)
        self.eventually(lambda: self.witness.counters()["in_flight"] == 0, "all given up")
        took = time.monotonic() - begin
        print(f"16 calls given up {took:.2f} s after the cancellation was asked for", file=sys.stderr)
        self.assertLess(took, 1.0 + 0.5, "one second, and what the command itself takes")
        self.assertEqual([c for c in self.witness.calls() if c["how"] == "answered"], [])
        self.assertEqual(self.wait_for_state(job, "cancelled")["counts"]["cancelled"], 40)

    # R1, R7: the 27 are kept, cancelling works while nobody is there, and the rest runs afterwards.
    def test_the_only_worker_is_killed_and_the_next_one_runs_the_rest(self):
        worker = self.fleet("--latency", "0.1")
        ids = [f"k-{i}" for i in range(64)]
        job = self.submit("k", ids)
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 27, "27 answers")
        worker.kill()
        other = self.submit("o", ["o-1", "o-2"])
        kept = self.status(job)["counts"]["succeeded"]
        self.control("cancel", other)
        self.wait_for_state(other, "cancelled")
        self.assertGreaterEqual(self.status(job)["counts"]["succeeded"], kept)
        self.worker()
        code, _, err = run("watch", job, *self.where)
        self.assertEqual(code, 0, err)
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertEqual(errors, [])

    # R33: what was earned before the deadline stays, also when nobody is there when it passes.
    def test_a_deadline_that_passes_while_the_worker_is_down_keeps_what_is_done(self):
        worker = self.fleet("--latency", "0.1")
        ids = [f"e-{i}" for i in range(60)]
        job = self.submit("e", ids, "--deadline", "4s")
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 5, "5 answers")
        worker.kill()
        status = self.wait_for_state(job, "expired")
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertGreaterEqual(len(results), 5)
        self.assertEqual(status["counts"]["expired"], len(errors))
        self.assertEqual({e["error"]["code"] for e in errors}, {"batch_expired"})
        # It is over: no command but a retry moves it.
        for what in ("cancel", "pause", "resume"):
            self.control(what, job, code=2)
        self.assertEqual(self.status(job), status)

    # R34, R38: failures are counted as such, and a job of nothing else completes with its errors.
    def test_failures_are_counted_and_a_job_of_failures_completes(self):
        self.fleet()
        ids = [f"f-{i}" for i in range(5)]
        job = self.submit("f", ids, fault={"status": 400})
        code, _, err = run("watch", job, *self.where)
        self.assertEqual(code, 3, err)
        status = self.status(job)
        self.assertEqual((status["state"], status["counts"]["failed"], status["counts"]["succeeded"]),
                         ("completed", 5, 0))
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertEqual({e["response"]["status_code"] for e in errors}, {400})


if __name__ == "__main__":
    unittest.main()
