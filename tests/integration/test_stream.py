"""--stream end to end: the recorded answers are whole, and the times of streams are measured. Streams that
fail: test_faults.py.
"""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Sim, TestCase, Witness, read_jsonl, run


def chat(custom_id, prompt, **body):
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 16, **body}}


def directive(key, **what):
    return f"<<{json.dumps({'key': key, **what})}>>"


class Streams(TestCase):
    def go(self, name, url, lines, *options):
        """Runs the job: (exit code, results and errors by custom_id)."""
        source = self.write(f"{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        out, err = self.path(f"{name}.out"), self.path(f"{name}.err")
        code, _, text = run("run", source, "--backend", url, "--data-dir", self.path(f"{name}-data"), "-o", out,
                            "--errors", err, "--json", *options, cwd=self.folder)
        self.assertIn(code, (0, 3), text)
        files = [read_jsonl(path) if os.path.exists(path) else [] for path in (out, err)]
        return code, *({line["custom_id"]: line for line in file} for file in files)

    def shapes_are_equal(self, plain, streamed):
        """Same members in the same order, and the same account."""
        def shape(value):
            if isinstance(value, dict):
                return [(key, shape(item)) for key, item in value.items()]
            return [shape(item) for item in value] if isinstance(value, list) else type(value).__name__
        self.assertEqual(list(plain), list(streamed))
        for custom_id, line in plain.items():
            a, b = line["response"]["body"], streamed[custom_id]["response"]["body"]
            self.assertEqual(shape(a), shape(b))
            self.assertEqual(a["usage"], b["usage"])
            self.assertEqual([c["finish_reason"] for c in a["choices"]], [c["finish_reason"] for c in b["choices"]])

    def test_streamed_answers_have_the_form_of_whole_ones(self):
        lines = [chat(f"c-{i}", f"question {i}", n=1 + i % 3) for i in range(60)]
        sim = self.start(Sim("--models", "m", "--reply-tokens", "12"))
        code, plain, _ = self.go("plain", sim.url, lines)
        self.assertEqual(code, 0)
        code, streamed, _ = self.go("streamed", sim.url, lines, "--stream")
        self.assertEqual(code, 0)
        self.shapes_are_equal(plain, streamed)
        for line in streamed.values():
            self.assertIsNotNone(line["nightshift"]["ttft_ms"])
            self.assertIn("gap_max_ms", line["nightshift"])

    def test_text_of_a_stream_is_what_the_witness_sent(self):
        witness = self.start(Witness(self.folder))
        code, results, _ = self.go("w", witness.url, [chat(f"c-{i}", directive(f"k{i}", slow=[5, 0.01]))
                                                      for i in range(20)], "--stream")
        self.assertEqual(code, 0)
        sent = {call["key"]: "echo:" + call["sha"][:12] for call in witness.calls()}
        for i in range(20):
            line = results[f"c-{i}"]
            self.assertEqual(line["response"]["body"]["choices"][0]["message"]["content"], sent[f"k{i}"])
            self.assertGreaterEqual(line["nightshift"]["latency_ms"], line["nightshift"]["ttft_ms"] + 30)
            self.assertGreater(line["nightshift"]["gap_max_ms"], 0)


if __name__ == "__main__":
    unittest.main()
