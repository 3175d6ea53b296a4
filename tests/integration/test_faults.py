"""Every fault that the witness can be told to make, streamed and not: the right class, the right number of
calls, the right file. The witness's own log counts the calls.
"""
import collections
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import TestCase, Witness, chat_line, read_jsonl, run

TIMEOUT = 3  # of one call, seconds
ATTEMPTS = 2
FINE = (None, 1)
# A connection that had served before and dies as it is used again may have died of age: once for each attempt
# that costs a second call, and nothing else.
DEAD = range(ATTEMPTS, 2 * ATTEMPTS + 1)


def error(message, code=None, kind="invalid_request_error"):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


# name: directive, what becomes of it (error class or None, calls) not streamed, and streamed where
# that differs. `times` makes a fault that passes; without it every call meets it.
TABLE = {
    # Nothing wrong.
    "fine": ({}, FINE),
    "key-alone": ({"tokens": 7}, FINE),
    "delay": ({"delay": 0.3}, FINE),
    "slow": ({"slow": [6, 0.05]}, FINE),
    "empty": ({"empty": True}, FINE),
    "length": ({"length": True}, FINE),
    # Refused for good, by the status or by the words.
    "400": ({"status": 400}, ("invalid_request", 1)),
    "404": ({"status": 404}, ("invalid_request", 1)),
    "413": ({"status": 413}, ("invalid_request", 1)),
    "422": ({"status": 422}, ("invalid_request", 1)),
    "410": ({"status": 410}, ("model_not_found", 1)),
    "501": ({"status": 501}, ("invalid_request", 1)),
    "400-too-long": ({"status": 400, "body": error("too long", "context_length_exceeded")}, ("context_too_long", 1)),
    "400-too-long-words": ({"status": 400, "body": error(
        "This model's maximum context length is 8 tokens. However, you requested 9 tokens.")}, ("context_too_long", 1)),
    "400-filter": ({"status": 400, "body": error("no", "content_filter")}, ("content_filter", 1)),
    "404-model": ({"status": 404, "body": error("The model `x` does not exist", "model_not_found")}, ("model_not_found", 1)),
    "400-flat": ({"status": 400, "body": {"message": "no", "type": "bad", "code": "x"}}, ("invalid_request", 1)),
    "422-detail": ({"status": 422, "body": {"detail": [{"loc": ["body"], "msg": "no", "type": "missing"}]}},
                   ("invalid_request", 1)),
    "400-html": ({"status": 400, "body": "<html>no</html>"}, ("invalid_request", 1)),
    "400-nothing": ({"status": 400, "body": ""}, ("invalid_request", 1)),
    "redirect": ({"status": 302, "headers": {"location": "http://127.0.0.1:1/v1"}}, ("invalid_request", 1)),
    # Failures: tried again, and charged.
    "500-once": ({"status": 500, "times": 1}, (None, 2)),
    "500": ({"status": 500}, ("server_error", ATTEMPTS)),
    "502": ({"status": 502, "body": "<html>bad gateway</html>"}, ("server_error", ATTEMPTS)),
    "504": ({"status": 504}, ("server_error", ATTEMPTS)),
    "409": ({"status": 409}, ("server_error", ATTEMPTS)),
    "424": ({"status": 424}, ("server_error", ATTEMPTS)),
    # Too busy: waited for, and not charged.
    "429-once": ({"status": 429, "times": 1, "headers": {"retry-after": "0"}}, (None, 2)),
    "429-thrice": ({"status": 429, "times": 3, "headers": {"retry-after": "0"}}, (None, 4)),
    "503-twice": ({"status": 503, "times": 2}, (None, 3)),
    "529-once": ({"status": 529, "times": 1}, (None, 2)),
    "408-once": ({"status": 408, "times": 1}, (None, 2)),
    # Connections and time.
    "before-once": ({"drop": "before", "times": 1}, (None, 2)),
    "before": ({"drop": "before"}, ("connection_error", DEAD)),
    # The witness cuts only answers that are not streamed.
    "mid-once": ({"drop": "mid", "times": 1}, (None, 2), FINE),
    "mid": ({"drop": "mid"}, ("connection_error", ATTEMPTS), FINE),
    "hang-once": ({"hang": True, "times": 1}, (None, 2)),
    "hang": ({"hang": True}, ("timeout", ATTEMPTS)),
    "delay-too-long": ({"delay": 3 * TIMEOUT, "times": 1}, (None, 2)),
    # 200, and no answer.
    "garbage-once": ({"garbage": True, "times": 1}, (None, 2)),
    "garbage": ({"garbage": True}, ("incomplete_response", ATTEMPTS)),
    "null": ({"null": True}, ("incomplete_response", ATTEMPTS)),
    # It was taken to be worked on elsewhere: asking again would only make it work twice.
    "stub": ({"stub": True}, ("incomplete_response", 1)),
    # Faults of streams; not streamed there is nothing of them.
    "sse-error-once": ({"sse_error": 2, "times": 1}, FINE, (None, 2)),
    "sse-cut-first": ({"sse_cut": 0}, FINE, ("incomplete_response", ATTEMPTS)),
    "sse-cut-once": ({"sse_cut": 2, "times": 1}, FINE, (None, 2)),
    "sse-cut": ({"sse_cut": 2}, FINE, ("incomplete_response", ATTEMPTS)),
    "sse-cut-late": ({"sse_cut": 3, "slow": [4, 0.02]}, FINE, ("incomplete_response", ATTEMPTS)),
}


class Faults(TestCase):
    def table_holds(self, mode, options, place):
        witness = self.start(Witness(self.folder))
        # A backend that fails everything is left alone for a while: this one is mostly a good one.
        lines = []
        for name, (what, *_) in TABLE.items():
            lines.append(chat_line(name, f"<<{json.dumps({'key': name, **what})}>>", max_tokens=16))
            lines += [chat_line(f"good-{name}-{i}", f"<<{json.dumps({'key': 'good'})}>>") for i in range(9)]
        source = self.write(f"{mode}.jsonl", "".join(line + "\n" for line in lines))
        out, err = self.path(f"{mode}.out"), self.path(f"{mode}.err")
        code, _, text = run("run", source, "--backend", witness.url, "--data-dir", self.path(f"{mode}-data"), "-o", out,
                            "--errors", err, "--max-attempts", ATTEMPTS, "--request-timeout", f"{TIMEOUT}s", *options,
                            cwd=self.folder)
        self.assertEqual(code, 3, text)
        results, errors = read_jsonl(out), read_jsonl(err)
        self.check_files_cover(results, errors, [json.loads(line)["custom_id"] for line in lines])
        results, errors = ({line["custom_id"]: line for line in file} for file in (results, errors))
        calls = collections.Counter(call["key"] for call in witness.calls())
        wrong = []
        for name, (_, *expected) in TABLE.items():
            line = results.get(name) or errors.get(name)
            told = line["nightshift"].get("error_class") if name in errors else None
            error_class, count = expected[min(place, len(expected) - 1)]
            if told != error_class or calls[name] not in (count if isinstance(count, range) else [count]):
                wrong.append(f"{name}: {told} in {calls[name]} calls instead of {error_class} in {count}")
        self.assertEqual(wrong, [], f"{mode}: {len(wrong)} of {len(TABLE)} rows are wrong")
        print(f"{mode}: {len(TABLE)} rows right", file=sys.stderr)
        return results, errors

    def test_not_streamed(self):
        results, errors = self.table_holds("whole", [], 0)
        self.assertEqual(results["empty"]["nightshift"]["flags"], ["empty"])
        self.assertEqual(results["length"]["nightshift"]["flags"], ["truncated"])
        # What a backend rejected over HTTP is its own answer; anything else has a code and a sentence.
        self.assertEqual(errors["400-too-long"]["response"]["status_code"], 400)
        self.assertIsNone(errors["400-too-long"]["error"])
        for name, code in (("hang", "request_timeout"), ("before", "connection_error"),
                           ("garbage", "incomplete_response")):
            self.assertIsNone(errors[name]["response"])
            self.assertEqual(errors[name]["error"]["code"], code)

    def test_streamed(self):
        _, errors = self.table_holds("stream", ["--stream"], 1)
        cut = errors["sse-cut"]
        self.assertIsNone(cut["response"])
        part = cut["nightshift"]["partial_response"]["choices"][0]["message"]["content"]
        self.assertTrue(part.startswith("echo:"), part)
        self.assertLess(len(part), len("echo:") + 12)

    def test_an_error_inside_a_stream(self):
        """Always failing in the same way would look like a broken backend, so it has a job of its own."""
        witness = self.start(Witness(self.folder))
        lines = [chat_line(f"good-{i}", f"say {i}") for i in range(30)]
        lines[10] = chat_line("error", '<<{"key":"error","sse_error":1}>>')
        source = self.write("e.jsonl", "".join(line + "\n" for line in lines))
        code, _, text = run("run", source, "--backend", witness.url, "--data-dir", self.path("data"), "-o",
                            self.path("e.out"), "--errors", self.path("e.err"), "--stream", "--deadline", "8s",
                            cwd=self.folder)
        self.assertEqual(code, 4, text)
        # The engine's 503 is an overload: waited for, uncharged, until the deadline.
        self.assertEqual([line["custom_id"] for line in read_jsonl(self.path("e.err"))], ["error"])
        self.assertGreater(sum(call["key"] == "error" for call in witness.calls()), 1)

    def test_a_refused_key_loses_no_request(self):
        witness = self.start(Witness(self.folder, "--api-key", "sk-right"))
        source = self.write("k.jsonl", "".join(chat_line(f"r-{i}", f"say {i}") + "\n" for i in range(5)))
        code, _, text = run("run", source, "--backend", witness.url, "--data-dir", self.path("data"), "-o",
                            self.path("k.out"), cwd=self.folder, env={"NIGHTSHIFT_API_KEY": "sk-wrong"})
        self.assertEqual(code, 2, text)
        self.assertEqual(witness.calls(), [])
        code, _, text = run("run", source, "--backend", witness.url, "--data-dir", self.path("data"), "-o",
                            self.path("k.out"), cwd=self.folder, env={"NIGHTSHIFT_API_KEY": "sk-right"})
        self.assertEqual(code, 0, text)
        self.assertEqual(len(read_jsonl(self.path("k.out"))), 5)


if __name__ == "__main__":
    unittest.main()
