"""Jobs under limits per minute, small: close to what the limits allow, hardly a refusal, no attempt
used up. tests/bench/pacing.py is the same at full size.

NIGHTSHIFT_PACING_REQUESTS (default 600) and NIGHTSHIFT_PACING_SECONDS (default 6) make it longer.
"""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PROGRAM, Process, Sim, TestCase, run
from pacing import scenario

REQUESTS = int(os.environ.get("NIGHTSHIFT_PACING_REQUESTS", "600"))
SECONDS = float(os.environ.get("NIGHTSHIFT_PACING_SECONDS", "6"))
# A short run on a busy machine: starting and ending count for more, and the limits are smaller.
SLACK = 1.5 / SECONDS


class Pacing(TestCase):
    def check(self, name, ratio, refusals):
        outcome = scenario(name, self.path("run"), REQUESTS, SECONDS)
        print(f"{name}: {outcome}", file=sys.stderr)
        self.assertEqual((outcome.answered, outcome.failed), (REQUESTS, 0))
        self.assertEqual(outcome.attempts_max, 1, "a refusal must not use up an attempt")
        self.assertLessEqual(outcome.refusals, refusals)
        self.assertLessEqual(outcome.ratio, ratio + SLACK)

    def test_tokens_per_minute_told_by_headers(self):
        self.check("tokens per minute, headers", 1.03, 3)

    def test_requests_per_minute_told_by_headers(self):
        self.check("requests per minute, headers", 1.03, 3)

    def test_no_headers(self):
        self.check("requests per minute, no headers", 1.10, REQUESTS // 10)

    def test_what_waits_for_a_limit_says_so(self):
        sim = self.start(Sim("--profile", "cerebras", "--requests-per-minute", 5, "--log", self.path("sim.log")))
        source = self.write("in.jsonl", "".join(json.dumps({"prompt": f"say {i}", "max_tokens": 5}) + "\n" for i in range(20)))
        data = self.path("data")
        job = self.start(Process([PROGRAM, "run", source, "--backend", "cerebras=" + sim.url, "--data-dir", data,
                                  "-o", self.path("out.jsonl")]))

        def waiting():
            code, out, _ = run("jobs", "--json", "--data-dir", data)
            return (json.loads(out)[0]["waiting_for"] or "") if code == 0 and json.loads(out) else ""

        self.eventually(lambda: "requests per minute, " in waiting(), "the job says what it waits for, and how long")
        code, out, err = run("workers", "--data-dir", data)
        self.assertEqual(code, 0, err)
        self.assertIn("paced to 5 requests per minute as it told", out)
        job.send(signal.SIGINT)
        self.assertEqual(job.wait(), 130)


if __name__ == "__main__":
    unittest.main()
