"""A small urgent job among many requests of a low priority: it begins at once and ends about as soon as
it would alone, although the workers have others waiting already.

NIGHTSHIFT_URGENT_BACKGROUND (default 100000) is how many; a million is the long proof:

    NIGHTSHIFT_URGENT_BACKGROUND=1000000 tests/integration/test_urgent.py -v
"""
import json
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Coordinator, Sim, TestCase, Worker, read_jsonl, run

BACKGROUND = int(os.environ.get("NIGHTSHIFT_URGENT_BACKGROUND", "100000"))
URGENT = 10


class Urgent(TestCase):
    def submit(self, name, source, *options):
        """A job to its end: (seconds, milliseconds until its first call)."""
        results = self.path(name + ".results.jsonl")
        begun = time.monotonic()
        code, _, err = run("submit", source, "--coordinator", self.address, "--wait", "-o", results, *options)
        took = time.monotonic() - begun
        self.assertEqual(code, 0, err)
        answers = read_jsonl(results)
        self.assertEqual(len(answers), URGENT)
        return took, min(answer["nightshift"]["queued_ms"] for answer in answers)

    def test_an_urgent_job_among_many(self):
        sim = self.start(Sim("--profile", "gpu", "--reply-tokens", 100, "--reply-spread", 0.5))
        self.address = self.start(Coordinator(self.path("data"))).address
        self.start(Worker(self.address, sim.url))
        urgent = self.write("urgent.jsonl", "".join(json.dumps({"prompt": f"urgent {i}"}) + "\n" for i in range(URGENT)))
        many = self.write("many.jsonl", "".join(json.dumps({"prompt": f"say {i}"}) + "\n" for i in range(BACKGROUND)))
        self.submit("warm", urgent)
        alone, _ = self.submit("alone", urgent)
        code, out, err = run("submit", many, "--coordinator", self.address, timeout=600)
        self.assertEqual(code, 0, err)
        background = out.strip()

        def counts():
            return json.loads(run("status", background, "--coordinator", self.address, "--json")[1])["counts"]

        self.eventually(lambda: counts()["succeeded"] > 100, "the background runs")
        took, first = self.submit("urgent", urgent, "--priority", 10)
        print(f"urgent job of {URGENT} among {BACKGROUND}: first call after {first} ms, ended after {took:.2f} s, "
              f"alone {alone:.2f} s: {took / alone:.2f} times", file=sys.stderr)
        self.assertGreater(counts()["pending"], 0, "the background was over before")
        self.assertLessEqual(first, 1000)
        self.assertLessEqual(took, 3 * alone)
        self.assertEqual(run("cancel", background, "--coordinator", self.address, "--yes")[0], 0)


if __name__ == "__main__":
    unittest.main()
