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
from nightshift_testing import Process, TestCase, read_jsonl, run, tool

COUNT = int(os.environ.get("NIGHTSHIFT_LLAMA_COUNT", "200"))
# Of each route, streamed and not, one call at a time.
SAME_COUNT = int(os.environ.get("NIGHTSHIFT_LLAMA_SAME_COUNT", "15"))
ROOT = os.environ.get("ROOT", os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "real-llama"))


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
                for name in ("prompt_tokens_total", "tokens_predicted_total")}

    def check(self, lines):
        source = self.write("in.jsonl", "".join(json.dumps(l) + "\n" for l in lines))
        code, out, err = run("run", source, "--backend", self.url, "--data-dir", self.path("data"), "-o", self.path("out.jsonl"),
                             "--errors", self.path("err.jsonl"), "--wait-for-backend", "60s", "--json", cwd=self.folder)
        self.assertEqual(code, 0, err)
        results = read_jsonl(self.path("out.jsonl"))
        self.assertEqual([r["custom_id"] for r in results], [l["custom_id"] for l in lines])
        for r in results:
            usage = r["response"]["body"]["usage"]
            self.assertEqual(r["nightshift"]["prompt_tokens"], usage["prompt_tokens"])
            self.assertEqual(r["nightshift"]["completion_tokens"], usage["completion_tokens"])
        return results, self.counters()

    def test_chat_requests_all_succeed_and_tokens_equal_the_servers_own(self):
        results, counters = self.check([
            {"custom_id": f"c-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
                "model": "tiny", "messages": [{"role": "user", "content": f"report {i} of the night"}], "max_tokens": 16}}
            for i in range(COUNT)])
        self.assertEqual(sum(r["nightshift"]["completion_tokens"] for r in results), counters["tokens_predicted_total"])

    def test_completions_all_succeed_and_tokens_equal_the_servers_own(self):
        results, counters = self.check([
            {"custom_id": f"p-{i}", "method": "POST", "url": "/v1/completions", "body": {
                "model": "tiny", "prompt": f"data {i} of the system", "max_tokens": 16, "cache_prompt": False}}
            for i in range(COUNT)])
        self.assertEqual(sum(r["nightshift"]["completion_tokens"] for r in results), counters["tokens_predicted_total"])
        self.assertEqual(sum(r["nightshift"]["prompt_tokens"] for r in results), counters["prompt_tokens_total"])

    def answers(self, name, url, lines, *options):
        source = self.write(f"{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        out = self.path(f"{name}.out")
        code, _, err = run("run", source, "--backend", url, "--data-dir", self.path(f"{name}-data"), "-o", out,
                           "--wait-for-backend", "60s", "--concurrency", "1", "--json", *options, cwd=self.folder)
        self.assertEqual(code, 0, err)
        return read_jsonl(out)

    def test_streamed_answers_equal_whole_ones_on_every_route(self):
        """One call at a time, temperature 0, no prompt cache: then the server itself is repeatable."""
        steady = {"model": "tiny", "max_tokens": 12, "temperature": 0, "cache_prompt": False}
        chats = [{"custom_id": f"c-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
            **steady, "messages": [{"role": "user", "content": f"report {i} of the night"}]}} for i in range(SAME_COUNT)]
        texts = [{"custom_id": f"p-{i}", "method": "POST", "url": "/v1/completions", "body": {
            **steady, "prompt": f"data {i} of the system"}} for i in range(SAME_COUNT)]
        native = "llamacpp=" + self.url[:-len("/v1")] + "/completion"
        for name, url, lines in (("chat", self.url, chats), ("text", self.url, texts), ("native", native, texts)):
            whole = self.answers(name, url, lines)
            streamed = self.answers(name + "-streamed", url, lines, "--stream")
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
