"""Several backends for one job, with real processes: a rollout keeps its share and its requests, a backend
that fails everything costs few calls and no request, weights and fallback chains do what they say.

NIGHTSHIFT_ROUTE_REQUESTS (default 10000) is the size of the rollout.
"""
import collections
import http.server
import json
import os
import socketserver
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Sim, TestCase, chat_line, read_jsonl, run

REQUESTS = int(os.environ.get("NIGHTSHIFT_ROUTE_REQUESTS", "10000"))


class FailingBackend:
    """A server that lists the model and answers every call with one status."""

    def __init__(self, test, status, body=b'{"error":{"message":"it is broken","type":"server_error"}}'):
        outer = self
        self.calls = 0
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self, code, content):
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self):
                self.reply(200, b'{"object":"list","data":[{"id":"m","object":"model"}]}')

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    outer.calls += 1
                self.reply(status, body)

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 1024

        self.server = Server(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.name}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.shutdown)


def name_of(server):
    return server.url[len("http://"):-len("/v1")]


class Routes(TestCase):
    def go(self, name, lines, backends, *options, code=0):
        source = self.write(f"{name}.jsonl", "".join(line + "\n" for line in lines))
        out, err = self.path(f"{name}.out"), self.path(f"{name}.err")
        arguments = [argument for url in backends for argument in ("--backend", url)]
        got, _, text = run("run", source, *arguments, "--data-dir", self.path(f"{name}-data"), "-o", out,
                           "--errors", err, *options, cwd=self.folder)
        self.assertEqual(got, code, text)
        return read_jsonl(out), read_jsonl(err), text

    def requests(self, count):
        return [chat_line(f"request-{i}", f"say {i}", max_tokens=4) for i in range(count)]

    def by_backend(self, results):
        counted = collections.defaultdict(set)
        for line in results:
            counted[line["nightshift"]["backend"]].add(line["custom_id"])
        return counted

    def test_a_rollout_keeps_its_share_and_its_requests(self):
        old, new = self.start(Sim("--models", "m")), self.start(Sim("--models", "m"))
        told = []
        for turn in ("first", "second"):
            results, errors, _ = self.go(turn, self.requests(REQUESTS), [old.url, new.url],
                                         "--rollout", name_of(new) + "=10%")
            self.assertEqual((len(results), len(errors)), (REQUESTS, 0))
            told.append(self.by_backend(results))
        share = len(told[0][name_of(new)]) / REQUESTS
        print(f"rollout: {share:.2%} of {REQUESTS} requests were answered by the new backend", file=sys.stderr)
        self.assertTrue(0.09 <= share <= 0.11, share)
        self.assertEqual(told[0][name_of(new)], told[1][name_of(new)], "other requests on the second run")
        self.assertEqual(set(told[0]), {name_of(old), name_of(new)})

    def test_a_new_backend_that_fails_everything_costs_few_calls_and_no_request(self):
        old, new = self.start(Sim("--models", "m")), FailingBackend(self, 500)
        results, errors, text = self.go("failing", self.requests(REQUESTS), [old.url, new.url],
                                        "--rollout", new.name + "=10%", "--max-attempts", "1")
        self.assertEqual((len(results), len(errors)), (REQUESTS, 0))
        self.assertEqual(set(self.by_backend(results)), {name_of(old)})
        moved = [line for line in results if line["nightshift"].get("moved")]
        share = len(moved) / REQUESTS
        twice = sum(line["nightshift"]["attempts"] > 1 for line in results)
        print(f"new backend fails everything: {new.calls} calls to it, {share:.2%} of the requests moved, "
              f"{twice} of them after a failure", file=sys.stderr)
        self.assertTrue(0.09 <= share <= 0.11, share)
        # Ten in a row open the breaker, those in flight by then aside; after that one for each opening.
        self.assertLessEqual(new.calls, 100)
        self.assertGreaterEqual(new.calls, 5)

    def test_a_request_that_is_refused_does_not_move_on(self):
        old, new = self.start(Sim("--models", "m")), FailingBackend(
            self, 400, b'{"error":{"message":"no","type":"invalid_request_error"}}')
        results, errors, _ = self.go("refused", self.requests(400), [old.url, new.url], "--rollout", new.name + "=10%",
                                     code=3)
        self.assertEqual(new.calls, len(errors))
        self.assertEqual(set(self.by_backend(errors)), {new.name})
        self.assertTrue(20 <= len(errors) <= 60, len(errors))

    def test_weights_share_the_requests_out(self):
        big, small = self.start(Sim("--models", "m")), self.start(Sim("--models", "m"))
        results, _, _ = self.go("weights", self.requests(2000), [big.url, small.url], "--backend-weight", name_of(big) + "=3",
                                "--backend-weight", name_of(small) + "=1")
        counted = {name: len(ids) / 2000 for name, ids in self.by_backend(results).items()}
        self.assertAlmostEqual(counted[name_of(big)], 0.75, delta=0.03)
        self.assertAlmostEqual(counted[name_of(small)], 0.25, delta=0.03)

    def test_a_chain_is_gone_through_in_order(self):
        first, second = FailingBackend(self, 500), FailingBackend(self, 404, b'{"error":{"message":'
                                       b'"The model `m` does not exist","code":"model_not_found"}}')
        third = self.start(Sim("--models", "m"))
        results, errors, _ = self.go("chain", self.requests(300), [first.url, second.url, third.url], "--fallback",
                                     f"{first.name},{second.name},{name_of(third)}")
        self.assertEqual((len(results), len(errors)), (300, 0))
        self.assertEqual(set(self.by_backend(results)), {name_of(third)})
        self.assertGreater(first.calls, 0)
        self.assertGreater(second.calls, 0)

    def test_while_the_first_works_nobody_else_is_asked(self):
        first, second = self.start(Sim("--models", "m", "--log", self.path("1.log"))), self.start(
            Sim("--models", "m", "--log", self.path("2.log")))
        results, _, _ = self.go("idle", self.requests(500), [first.url, second.url], "--fallback",
                                f"{name_of(first)},{name_of(second)}")
        self.assertEqual(set(self.by_backend(results)), {name_of(first)})
        self.assertEqual([call for call in read_jsonl(self.path("2.log")) if call["path"].endswith("completions")], [])

    def test_a_backend_that_is_none_is_refused(self):
        sim = self.start(Sim("--models", "m"))
        for option, value in (("--rollout", "nobody=10%"), ("--rollout", name_of(sim) + "=10"),
                              ("--rollout", name_of(sim) + "=0%"), ("--rollout", name_of(sim) + "=101%"),
                              ("--backend-weight", name_of(sim)), ("--fallback", "nobody")):
            _, _, text = self.go("bad", self.requests(2), [sim.url], option, value, code=2)
            self.assertIn("error:", text)


if __name__ == "__main__":
    unittest.main()
