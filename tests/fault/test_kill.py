"""kill -9 at random moments: every request still ends in exactly one outcome, and the backend's own
log shows that no more calls were repeated than were in flight when something died.

Sizes come from the environment, so that the same test serves as a quick gate and as a long proof:
NIGHTSHIFT_KILL_REQUESTS (default 3000), NIGHTSHIFT_KILLS (default 4), NIGHTSHIFT_SEED.
"""
import collections
import hashlib
import json
import os
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import (PROGRAM, Coordinator, Process, TestCase, Witness, Worker, chat_line,
                                read_jsonl, run)

REQUESTS = int(os.environ.get("NIGHTSHIFT_KILL_REQUESTS", "3000"))
KILLS = int(os.environ.get("NIGHTSHIFT_KILLS", "4"))
# How long an answer may take from the backend to the disk, seconds: a commit takes milliseconds, on a
# disk that others load a good part of a second.
DURABLE_WITHIN = 2.0
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))


class Killed(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.ids = [f"r-{i}" for i in range(REQUESTS)]
        # The witness counts calls per key, and names the key in its log.
        self.source = self.write("in.jsonl", "".join(
            chat_line(c, f'<<{{"key":"{c}"}}>> say {c}') + "\n" for c in self.ids))

    def repeats(self, witness):
        counts = collections.Counter(c["key"] for c in witness.calls())
        self.assertEqual(set(counts), set(self.ids), "some requests were never called")
        return sum(n - 1 for n in counts.values())

    def recorded_now(self):
        """The requests whose outcome is on disk, whatever the job's state; none before its seal."""
        code, out, err = run("jobs", "--json", "--data-dir", self.path("data"))
        self.assertEqual(code, 0, err)
        recorded = set()
        for job in json.loads(out):
            code, _, err = run("results", job["id"], "--data-dir", self.path("data"), "--force",
                               "-o", self.path("now.jsonl"))
            self.assertEqual(code, 0, err)
            recorded |= {r["custom_id"] for r in read_jsonl(self.path("now.jsonl"))}
        return recorded

    def audit(self, *where):
        code, out, err = run("audit", *where)
        self.assertEqual(code, 0, out + err)

    def check_outcomes(self, results_path, errors_path):
        results, errors = read_jsonl(results_path), read_jsonl(errors_path)
        self.assertEqual(errors, [])
        self.check_files_cover(results, errors, self.ids)
        bodies = {}
        with open(self.source, "rb") as handle:
            for line in handle:
                start = line.index(b'"body": ') + len(b'"body": ')
                bodies[line[line.index(b'"custom_id": "') + 14:].split(b'"')[0].decode()] = line.rstrip(b"\n")[start:-1]
        for r in results:
            expected = "echo:" + hashlib.sha1(bodies[r["custom_id"]]).hexdigest()[:12]
            self.assertEqual(r["response"]["body"]["choices"][0]["message"]["content"], expected)

    def test_run_killed_again_and_again_finishes_with_each_outcome_once(self):
        witness = self.start(Witness(self.folder, "--latency", "0.02"))
        command = [PROGRAM, "run", self.source, "--backend", witness.url, "--data-dir", self.path("data"),
                   "-o", self.path("out.jsonl"), "--errors", self.path("err.jsonl")]
        under_way, recorded = 0, set()
        for _ in range(KILLS):
            seen = len(witness.calls())
            victim = self.start(Process(command, cwd=self.folder))
            more = self.rng.randrange(1, max(2, REQUESTS // (KILLS + 1)))
            self.eventually(lambda: len(witness.calls()) >= seen + more or victim.process.poll() is not None,
                            "calls at the backend")
            time.sleep(self.rng.random() * 0.05)
            killed_at = time.time()
            victim.kill()
            self.eventually(lambda: witness.counters()["in_flight"] == 0, "the backend noticing")
            self.audit("--data-dir", self.path("data"))
            calls = witness.calls()[seen:]
            again = sorted(c["key"] for c in calls if c["key"] in recorded)
            self.assertEqual(again, [], "called although their outcome was recorded")
            recorded = self.recorded_now()
            lost = [c for c in calls if c["key"] not in recorded]
            old = sorted(c["key"] for c in lost if c["how"] == "answered" and c["ended"] < killed_at - DURABLE_WITHIN)
            self.assertEqual(old, [], f"answered more than {DURABLE_WITHIN} s before the kill, and not on disk")
            under_way += len(lost)
        code, _, err = run(*command[1:], cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.audit("--data-dir", self.path("data"))
        self.check_outcomes(self.path("out.jsonl"), self.path("err.jsonl"))
        repeats = self.repeats(witness)
        print(f"kills {KILLS}, requests {REQUESTS}, repeated calls {repeats}, under way at the kills {under_way}",
              file=sys.stderr)
        self.assertLessEqual(repeats, under_way)

    def test_fleet_with_dying_workers_and_coordinator_finishes_with_each_outcome_once(self):
        witness = self.start(Witness(self.folder, "--latency", "0.03"))
        data = self.path("data")
        coordinator = self.start(Coordinator(data, "--lease-ttl", "5s"))
        address = coordinator.address
        workers = [self.start(Worker(address, witness.url, "--name", f"w{i}", "--data-dir", self.path(f"w{i}")))
                   for i in range(3)]
        code, out, err = run("submit", self.source, "--coordinator", address)
        self.assertEqual(code, 0, err)
        job = out.strip()

        self.eventually(lambda: len(witness.calls()) >= REQUESTS // 5, "the first fifth")
        before = len(witness.calls())
        workers[0].kill()
        self.eventually(lambda: len(witness.calls()) >= max(before, REQUESTS * 2 // 5), "two fifths")
        workers[1].send(signal.SIGTERM)
        self.assertEqual(workers[1].wait(), 0)
        self.eventually(lambda: len(witness.calls()) >= REQUESTS * 3 // 5, "three fifths")
        coordinator.kill()
        time.sleep(1.0)
        coordinator = self.start(Coordinator(data, "--lease-ttl", "5s", address=address))
        code, _, err = run("watch", job, "--coordinator", address)
        self.assertEqual(code, 0, err)

        self.audit("--coordinator", address)
        code, out, err = run("results", job, "--coordinator", address, "-o", self.path("out.jsonl"))
        self.assertEqual(code, 0, err)
        code, out, err = run("errors", job, "--coordinator", address, "-o", self.path("err.jsonl"))
        self.assertEqual(code, 0, err)
        self.check_outcomes(self.path("out.jsonl"), self.path("err.jsonl"))
        repeats = self.repeats(witness)
        peak = max(c["in_flight"] for c in witness.calls())
        print(f"fleet: requests {REQUESTS}, repeated calls {repeats}, peak in flight {peak}", file=sys.stderr)
        # One worker died with its calls; the one that was stopped and the restart of the coordinator
        # must cost nothing.
        self.assertLessEqual(repeats, peak)


if __name__ == "__main__":
    unittest.main()
