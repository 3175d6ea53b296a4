"""Answers that are cut off or empty, under each policy: what is called, what is recorded, what is counted."""
import base64
import collections
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import TestCase, Witness, chat_line, read_jsonl, run


class AnswersAskedForAgain(TestCase):
    def go(self, name, lines, *options, code=0):
        witness = self.start(Witness(self.folder, "--keep-bodies"))
        source = self.write(f"{name}.jsonl", "".join(line + "\n" for line in lines))
        out, err = self.path(f"{name}.out"), self.path(f"{name}.err")
        got, report, text = run("run", source, "--backend", witness.url, "--data-dir", self.path(f"{name}-data"), "-o",
                                out, "--errors", err, "--json", *options, cwd=self.folder)
        self.assertEqual(got, code, text)
        files = [{line["custom_id"]: line for line in read_jsonl(path)} for path in (out, err)]
        return *files, witness, json.loads(report.splitlines()[-1])

    @staticmethod
    def line(key, **what):
        return chat_line(key, f"<<{json.dumps({'key': key, **what})}>>", max_tokens=8)

    def bodies(self, witness, key):
        return [json.loads(base64.b64decode(call["raw"])) for call in witness.calls() if call["key"] == key]

    def test_cut_off_and_empty_answers(self):
        for mode in ([], ["--stream"]):
            lines = [self.line("once-short", length=True, times=1), self.line("always-short", length=True),
                     self.line("once-empty", empty=True, times=1), self.line("always-empty", empty=True),
                     self.line("fine"), self.line("late", status=500, times=1)]
            name = "retry" + "".join(mode)
            results, errors, witness, report = self.go(name, lines, "--on-truncated", "retry", "--on-empty", "retry", *mode)
            self.assertEqual(errors, {})
            count = collections.Counter(call["key"] for call in witness.calls())
            self.assertEqual(dict(count), {"once-short": 2, "always-short": 2, "once-empty": 2, "always-empty": 3,
                                           "fine": 1, "late": 2})
            self.assertEqual([b["max_tokens"] for b in self.bodies(witness, "once-short")], [8, 32])
            self.assertEqual([b["max_tokens"] for b in self.bodies(witness, "always-empty")], [8, 8, 8])
            told = {key: line["nightshift"] for key, line in results.items()}
            self.assertEqual(told["once-short"]["flags"], [])
            self.assertEqual(told["always-short"]["flags"], ["truncated"])
            self.assertEqual(told["always-empty"]["flags"], ["empty"])
            # Counted apart from the tries after failures.
            self.assertEqual({key: (t["attempts"], t.get("truncated_retries", 0), t.get("empty_retries", 0))
                              for key, t in told.items()},
                             {"once-short": (1, 1, 0), "always-short": (1, 1, 0), "once-empty": (1, 0, 1),
                              "always-empty": (1, 0, 2), "fine": (1, 0, 0), "late": (2, 0, 0)})
            self.assertEqual(report["answer_retries"], {"truncated": 2, "empty": 3})

    def test_by_policy_they_are_failures_that_can_be_looked_at(self):
        lines = [self.line("short", length=True), self.line("empty", empty=True), self.line("fine")]
        results, errors, witness, _ = self.go("fail", lines, "--on-truncated", "fail", "--on-empty", "fail", code=3)
        self.assertEqual(set(results), {"fine"})
        for key in ("short", "empty"):
            line = errors[key]
            self.assertIsNone(line["response"])
            self.assertEqual(line["error"]["code"], "quality_check_failed")
            self.assertEqual(line["nightshift"]["error_class"], "quality_check_failed")
            self.assertIn("choices", line["nightshift"]["partial_response"])
        self.assertEqual(len(witness.calls()), 3)

    def test_kept_unless_asked(self):
        results, errors, witness, _ = self.go("keep", [self.line("short", length=True), self.line("empty", empty=True)])
        self.assertEqual((len(results), len(errors), len(witness.calls())), (2, 0, 2))


if __name__ == "__main__":
    unittest.main()
