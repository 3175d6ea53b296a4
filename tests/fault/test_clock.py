"""The wall clock set by an hour, forwards and backwards, under a coordinator and a worker that run: no lease
lapses, nothing is called twice, and a deadline is neither brought near nor put off.

A preloaded library sets the clock of the two processes ($NIGHTSHIFT_SET_CLOCK, set by ctest; set_clock.cc) and
leaves the monotonic one alone, as setting a machine's clock does.
"""
import json
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fleet import by_key
from nightshift_testing import Coordinator, TestCase, Witness, Worker, chat_line, read_jsonl, run

LIBRARY = os.environ.get("NIGHTSHIFT_SET_CLOCK")
HOUR = 3600


class SetClock(TestCase):
    def setUp(self):
        super().setUp()
        if not LIBRARY:
            print("SKIPPED LOUDLY: NIGHTSHIFT_SET_CLOCK names no library; this test proves nothing here", file=sys.stderr)
            self.skipTest("no library sets the clock")
        self.set_clock(0)
        env = {"LD_PRELOAD": LIBRARY, "NIGHTSHIFT_CLOCK_FILE": self.path("clock")}
        self.witness = self.start(Witness(self.folder, "--latency", "1"))
        self.coordinator = self.start(Coordinator(self.path("data"), "--lease-ttl", "3s", env=env))
        self.where = ("--coordinator", self.coordinator.address)
        self.start(Worker(self.coordinator.address, self.witness.url, "--name", "w", "--data-dir", self.path("w"),
                          "--concurrency", "4", env=env))
        self.jobs = 0

    def set_clock(self, offset):
        with open(self.path("clock.new"), "w") as handle:
            handle.write(f"{offset}\n")
        os.rename(self.path("clock.new"), self.path("clock"))

    def submit(self, requests, *options):
        self.jobs += 1
        self.ids = [f"j{self.jobs}-{i}" for i in range(requests)]
        source = self.write("in.jsonl", "".join(chat_line(c, f'<<{{"key":"{c}"}}>> {c}') + "\n" for c in self.ids))
        code, out, err = run("submit", source, *options, *self.where)
        self.assertEqual(code, 0, err)
        return out.strip()

    def status(self, job):
        return json.loads(run("status", job, "--json", *self.where)[1])

    def test_a_clock_that_is_set_moves_no_lease_and_no_deadline(self):
        for offset in (HOUR, -HOUR):
            with self.subTest(offset=offset):
                self.set_clock(0)
                # Longer than a lease, and than a quarter of its deadline.
                job = self.submit(40, "--deadline", "40s")
                self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 8, "answers")
                self.set_clock(offset)
                code, _, err = run("watch", job, *self.where)
                self.assertEqual(code, 0, err)
                status = self.status(job)
                self.assertEqual(status["counts"]["succeeded"], 40)
                # Or else nothing was tried here.
                self.assertAlmostEqual(status["finished_at"] - time.time(), offset, delta=60)
                groups = by_key(self.witness.calls())
                self.assertEqual([c for c in self.ids if len(groups[c]) != 1], [], "called again")

    def test_a_deadline_passes_when_it_was_to_pass(self):
        for offset in (HOUR, -HOUR):
            with self.subTest(offset=offset):
                self.set_clock(0)
                before = time.monotonic()
                job = self.submit(200, "--deadline", "6s")
                self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 4, "answers")
                self.set_clock(offset)
                code, _, err = run("watch", job, "--timeout", "60s", *self.where)
                self.assertEqual(code, 4, err)
                took = time.monotonic() - before
                print(f"set by {offset:+d} s: expired after {took:.1f} s", file=sys.stderr)
                self.assertEqual(self.status(job)["state"], "expired")
                self.assertGreaterEqual(took, 6)
                self.assertLess(took, 12)
                # What was done stays, and each request is in one file.
                for kind in ("results", "errors"):
                    self.assertEqual(run(kind, job, "--force", "-o", self.path(kind), *self.where)[0], 0)
                self.check_files_cover(read_jsonl(self.path("results")), read_jsonl(self.path("errors")), self.ids)


if __name__ == "__main__":
    unittest.main()
