"""A real inference server: llama.cpp with a tiny random model. The text is nonsense; the protocol,
the batching and the token counts are the real thing.

Needs the tool `real_llama/llama.sh`, set up once (`llama.sh setup`); skipped loudly without it.
"""
import json
import os
import re
import socket
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PROGRAM, Process, TestCase, read_jsonl, run, tool

# Of each route, streamed and not, many at a time.
COUNT = int(os.environ.get("NIGHTSHIFT_LLAMA_COUNT", "60"))
# Of each route, streamed and not, one call at a time.
SAME_COUNT = int(os.environ.get("NIGHTSHIFT_LLAMA_SAME_COUNT", "15"))
ROOT = os.environ.get("ROOT", os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "real-llama"))


COUNTERS = ("prompt_tokens_total", "tokens_predicted_total")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RealLlama(TestCase):
    def setUp(self):
        super().setUp()
        script = tool("real_llama/llama.sh")
        if not os.path.exists(os.path.join(ROOT, "srv", "tiny.gguf")):
            print("SKIPPED LOUDLY: llama.cpp is not set up here (run real_llama/llama.sh setup)", file=sys.stderr)
            self.skipTest("llama.cpp is not set up")
        self.port = free_port()
        # Started and not waited for: `run` has to wait while the model loads.
        self.server = self.start(Process(["bash", script, "serve", str(self.port)]))
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def counters(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10).read().decode()
        return {name: float(re.search(rf"^llamacpp:{name} ([\d.e+]+)", text, re.M).group(1))
                for name in COUNTERS}

    def chat(self, count, **body):
        return [{"custom_id": f"c-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": "tiny", "messages": [{"role": "user", "content": f"report {i} of the night"}], **body}}
            for i in range(count)]

    def text(self, count, **body):
        return [{"custom_id": f"p-{i}", "method": "POST", "url": "/v1/completions", "body": {
            "model": "tiny", "prompt": f"data {i} of the system", **body}} for i in range(count)]

    def native_url(self):
        return "llamacpp=" + self.url[:-len("/v1")] + "/completion"

    def test_every_route_streamed_and_not_with_the_servers_own_counts(self):
        """Without the prompt cache each token of a prompt is counted by the server."""
        body = {"max_tokens": 12, "cache_prompt": False}
        for route, url, lines in (("chat", self.url, self.chat(COUNT, **body)),
                                  ("text", self.url, self.text(COUNT, **body)),
                                  ("native", self.native_url(), self.text(COUNT, **body))):
            for mode in ([], ["--stream"]):
                name = route + "".join(mode)
                before = self.counters() if route != "chat" or mode else dict.fromkeys(COUNTERS, 0)
                results = self.answers(name, url, lines, "--concurrency", "auto", *mode)
                self.assertEqual([r["custom_id"] for r in results], [line["custom_id"] for line in lines])
                for r in results:
                    usage = r["response"]["body"]["usage"]
                    self.assertEqual(r["nightshift"]["prompt_tokens"], usage["prompt_tokens"])
                    self.assertEqual(r["nightshift"]["completion_tokens"], usage["completion_tokens"])
                counted = {key: value - before[key] for key, value in self.counters().items()}
                told = {key: sum(r["nightshift"][key] for r in results) for key in ("prompt_tokens", "completion_tokens")}
                print(f"{name}: {len(results)} of {COUNT} answered, tokens {told}, the server's own {counted}",
                      file=sys.stderr)
                self.assertEqual(told, {"prompt_tokens": counted["prompt_tokens_total"],
                                        "completion_tokens": counted["tokens_predicted_total"]})

    def test_slots_and_prompt_cache_are_shown(self):
        lines = self.chat(300, max_tokens=200, cache_prompt=True)
        source = self.write("in.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        data = self.path("data")
        job = self.start(Process([PROGRAM, "run", source, "--backend", self.url, "--data-dir", data, "-o",
                                  self.path("out.jsonl"), "--wait-for-backend", "60s"]))

        def load():
            code, out, _ = run("workers", "--json", "--data-dir", data)
            workers = json.loads(out) if code == 0 and out else []
            return workers[0]["backends"][0]["load"] if workers and workers[0]["backends"] else None

        self.eventually(lambda: load() is not None, "the server's load is shown")
        told = load()
        self.assertEqual(told["slots"], 8)
        self.assertIsNotNone(told["running"])
        _, shown, _ = run("workers", "--data-dir", data)
        print("\n".join(line for line in shown.splitlines() if "server " in line), file=sys.stderr)
        self.assertIn("of 8 slots running", shown)
        self.assertEqual(job.wait(300), 0)
        # The same beginning of every prompt: llama.cpp tells what of it was in the cache.
        self.assertTrue(any(line["nightshift"].get("cached_tokens", 0) > 0 for line in read_jsonl(self.path("out.jsonl"))))

    def answers(self, name, url, lines, *options):
        source = self.write(f"{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        out = self.path(f"{name}.out")
        code, _, err = run("run", source, "--backend", url, "--data-dir", self.path(f"{name}-data"), "-o", out,
                           "--wait-for-backend", "60s", "--json", *options, cwd=self.folder)
        self.assertEqual(code, 0, err)
        return read_jsonl(out)

    def test_streamed_answers_equal_whole_ones_on_every_route(self):
        """One call at a time, temperature 0, no prompt cache: then the server itself is repeatable."""
        steady = {"max_tokens": 12, "temperature": 0, "cache_prompt": False}
        chats, texts = self.chat(SAME_COUNT, **steady), self.text(SAME_COUNT, **steady)
        for name, url, lines in (("chat", self.url, chats), ("text", self.url, texts),
                                 ("native", self.native_url(), texts)):
            whole = self.answers(name, url, lines, "--concurrency", "1")
            streamed = self.answers(name + "-streamed", url, lines, "--concurrency", "1", "--stream")
            for a, b in zip(whole, streamed):
                x, y = a["response"]["body"], b["response"]["body"]
                self.assertEqual(x["choices"], y["choices"])
                self.assertEqual(x["usage"], y["usage"])
                for line in (a, b):
                    self.assertEqual(line["nightshift"]["completion_tokens"], x["usage"]["completion_tokens"])
                    self.assertIn("server_completion_ms", line["nightshift"])
                # A model of random weights may end before its first token: there is no time to it then.
                choice = y["choices"][0]
                text = choice["text"] if "text" in choice else choice["message"]["content"]
                self.assertEqual(b["nightshift"]["ttft_ms"] is not None, text != "")


if __name__ == "__main__":
    unittest.main()
