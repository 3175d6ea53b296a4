"""A backend that fails everything for a while, one that refuses the key, and one that refuses every
call: no request is lost or charged for it, the backend is left alone meanwhile, and the job says what
it waits for.

NIGHTSHIFT_OUTAGE_SECONDS (default 6) is how long the backend fails everything; 60 is the long proof.
"""
import http.server
import json
import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PROGRAM, Process, TestCase, chat_line, read_jsonl, run

OUTAGE = float(os.environ.get("NIGHTSHIFT_OUTAGE_SECONDS", "6"))
SLOTS = 16
LATENCY = 0.05
# What the breaker promises: ten failures in a row, which each late answer to a call from before begins
# anew; those then in flight; and a call per opening. The openings last 5 s, 10 s and then 15 s, each at
# least 0.8 of that.
PROBES = 2 if OUTAGE < 12 else 3 + int((OUTAGE - 12) / 12)
CALLS_IN_OUTAGE_MAX = 10 * (SLOTS + 1) + SLOTS + PROBES
FULL_SPEED_WITHIN = 30.0


class Server(http.server.ThreadingHTTPServer):
    """Answers after LATENCY; from the call number `fails_from` on it answers `status`, until told otherwise."""
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, fails_from, status, seconds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.fails_from, self.status, self.seconds = fails_from, status, seconds
        self.lock = threading.Lock()
        self.failing_since = None
        self.calls = []  # (time, custom key, status)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def verdict(self):
        """The status of a call that arrives now."""
        with self.lock:
            now = time.monotonic()
            if self.failing_since is None and len(self.calls) >= self.fails_from:
                self.failing_since = now
            failing = self.failing_since is not None and now < self.failing_since + self.seconds
            status = self.status if failing else 200
            self.calls.append((now, status))
            return status


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})
        else:
            self.reply(404, {"error": {"message": "unknown path"}})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.verdict()
        if status != 200:
            self.reply(status, {"error": {"message": "out of order", "type": "server_error", "code": None}})
            return
        time.sleep(LATENCY)
        self.reply(200, {"id": "x", "object": "chat.completion", "model": "m", "usage": {
            "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}, "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}]})


class Breaker(TestCase):
    def server(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def job(self, requests):
        return self.write("in.jsonl", "".join(chat_line(f"r{i}", f"say {i}") + "\n" for i in range(requests)))

    def command(self, server, *options):
        return ["run", self.path("in.jsonl"), "--backend", server.url, "--concurrency", SLOTS, "--data-dir",
                self.path("data"), "-o", self.path("out.jsonl"), "--errors", self.path("errors.jsonl"), *options]

    def waiting(self):
        """What the job waits for, in words; empty when it does not."""
        code, out, _ = run("jobs", "--json", "--data-dir", self.path("data"))
        return (json.loads(out)[0]["waiting_for"] or "") if code == 0 and json.loads(out) else ""

    def test_an_outage_costs_no_request(self):
        # So many are left afterwards that full speed can be seen for some seconds.
        per_second = SLOTS / LATENCY
        requests = int(per_second * 5)
        server = self.server(int(per_second), 500, OUTAGE)
        self.job(requests)
        # A single charged attempt would end a request.
        nightshift = self.start(Process([PROGRAM, *map(str, self.command(server, "--max-attempts", 1))]))
        self.eventually(lambda: "out of order" in self.waiting(), "the job says that its backend fails")
        self.assertEqual(nightshift.wait(OUTAGE + 120), 0, nightshift.err[-5:])
        results = read_jsonl(self.path("out.jsonl"))
        self.assertEqual(len(results), requests)
        self.assertEqual({r["nightshift"]["attempts"] for r in results}, {1})
        self.assertFalse(os.path.exists(self.path("errors.jsonl")))

        failed = [at for at, status in server.calls if status != 200]
        print(f"{len(failed)} calls in an outage of {OUTAGE:g} s, at most {CALLS_IN_OUTAGE_MAX}", file=sys.stderr)
        self.assertLessEqual(len(failed), CALLS_IN_OUTAGE_MAX)
        over = server.failing_since + OUTAGE
        before = sum(1 for at, _ in server.calls if server.failing_since - 0.5 <= at < server.failing_since) / 0.5
        after = sorted(at for at, status in server.calls if at > over)
        # The first half second that has as many calls as the last one before the outage, but for a third:
        # the machine's own speed wanders.
        need = int(before * 0.5 * 0.67)
        full = next((after[i] for i in range(len(after) - need) if after[i + need] - after[i] <= 0.5), None)
        self.assertIsNotNone(full, "never at full speed again")
        print(f"full speed ({before:.0f}/s) again {full - over:.1f} s after the outage", file=sys.stderr)
        self.assertLess(full - over, FULL_SPEED_WITHIN)

    def test_a_refused_key_stops_at_once_and_loses_nothing(self):
        server = self.server(100, 401, 1e9)
        self.job(1000)
        nightshift = self.start(Process([PROGRAM, *map(str, self.command(server))]))
        self.eventually(lambda: "401" in self.waiting(), "the job says that the key is refused")
        refused = sum(status == 401 for _, status in server.calls)
        self.assertLessEqual(refused, SLOTS, "one for each call in flight")
        nightshift.send(signal.SIGINT)
        self.assertEqual(nightshift.wait(), 130)
        # The key is mended.
        server.seconds = 0
        code, _, err = run(*self.command(server))
        self.assertEqual(code, 0, err)
        results = read_jsonl(self.path("out.jsonl"))
        self.assertEqual(len(results), 1000)
        self.assertEqual({r["nightshift"]["attempts"] for r in results}, {1})
        self.assertEqual(sum(status == 200 for _, status in server.calls), 1000, "none is called twice")

    def test_a_backend_that_refuses_every_call_is_called_so_and_costs_nothing(self):
        server = self.server(50, 503, 1e9)
        self.job(100)
        nightshift = self.start(Process([PROGRAM, *map(str, self.command(server, "--max-attempts", 1))]))
        self.eventually(lambda: "has answered no call for" in self.waiting(), "the job says that it is refused")
        self.assertIn("HTTP 503: out of order", self.waiting())
        refused = sum(status == 503 for _, status in server.calls)
        self.assertLessEqual(refused, 50 * 12, "each request about once, and then at growing intervals")
        server.seconds = 0
        self.assertEqual(nightshift.wait(120), 0, nightshift.err[-5:])
        results = read_jsonl(self.path("out.jsonl"))
        self.assertEqual(len(results), 100)
        self.assertEqual({r["nightshift"]["attempts"] for r in results}, {1})


if __name__ == "__main__":
    unittest.main()
