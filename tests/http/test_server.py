"""The server beneath the routes: what no client of good will sends, and who is let in."""
import http.client
import json
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import ApiCase, form, requests  # noqa: E402
from nightshift_testing import run  # noqa: E402


class Routes(ApiCase):
    def test_routes_that_are_not_there(self):
        for method, path in (("GET", "/"), ("GET", "/v1"), ("GET", "/v1/"), ("GET", "/v1/nothing"),
                             ("POST", "/v1/uploads/x/y"), ("GET", "/v1/files/x/y"), ("POST", "/v1/chat/completions"),
                             ("GET", "/v1/batches/x/lines"), ("PUT", "/x"), ("PATCH", "/x"), ("DELETE", "/x"),
                             ("OPTIONS", "/v1/x"), ("GET", "/" + "x" * 600), ("GET", "/v1/%00")):
            reply = self.call(method, path, body=b"{}" if method in ("POST", "PUT", "PATCH") else None)
            self.assertEqual((reply.status, reply.error["code"]), (404, "unknown_url"), path)
            self.assertIn("x-request-id", reply.headers)

    def test_methods_that_a_route_has_not(self):
        for method, path in (("DELETE", "/v1/files"), ("PUT", "/v1/files/x"), ("POST", "/v1/files/x/content"),
                             ("PATCH", "/v1/batches"), ("DELETE", "/v1/batches/x"), ("GET", "/v1/batches/x/cancel"),
                             ("POST", "/v1/models")):
            reply = self.call(method, path)
            self.assertEqual((reply.status, reply.error["code"]), (405, "method_not_allowed"), (method, path))
            self.assertTrue(reply.headers["allow"])

    def test_every_reply_has_an_id_of_its_own(self):
        ids = {self.call("GET", "/v1/files").headers["x-request-id"] for _ in range(20)}
        self.assertEqual(len(ids), 20)

    def test_a_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection(self.http, timeout=20)
        for path, status in (("/v1/files", 200), ("/v1/nothing", 404), ("/v1/batches/x", 404), ("/healthz", 200)):
            connection.request("GET", path)
            reply = connection.getresponse()
            reply.read()
            self.assertEqual(reply.status, status)
        connection.request("POST", "/v1/batches/x/cancel", headers={"Content-Length": "0"})
        reply = connection.getresponse()
        self.assertEqual((reply.status, json.loads(reply.read())["error"]["code"]), (404, None))

    # As some clients cancel: no body, and not a word about its length.
    def test_a_post_without_any_length(self):
        begun = time.monotonic()
        reply = self.raw(b"POST /v1/batches/x/cancel HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertTrue(reply.startswith(b"HTTP/1.1 404"), reply)
        self.assertLess(time.monotonic() - begun, 5)


class Heads(ApiCase):
    def refused(self, data, status, **options):
        reply = self.raw(data, **options)
        self.assertTrue(reply.startswith(b"HTTP/1.1 %d " % status), reply[:200])
        self.assertEqual(sorted(json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]),
                         ["code", "message", "param", "type"])

    def test_heads_that_are_none(self):
        self.refused(b"GET /v1/files HTTP/1.1\r\nHost localhost\r\n: x\r\n" + b"X" * 9000 + b"\r\n\r\n", 400)
        self.refused(b"BREW /coffee HTTP/1.1\r\nHost: localhost\r\n\r\n", 400)
        self.refused(b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414)

    def test_a_flood_of_headers(self):
        flood = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(2000))
        self.refused(b"GET /v1/files HTTP/1.1\r\nHost: localhost\r\n" + flood + b"\r\n", 431)

    # The library would match it against a regular expression, on the stack, and answer by itself what it cannot read.
    def test_ranges_are_not_the_librarys(self):
        for name in (b"Range", b"RANGE", b"range"):
            for value in (b"bytes=" + b"1" * 4000 + b"-", b"bytes=" + b"1-2," * 1900 + b"1-2", b"lines=1-2", b"bytes=x"):
                reply = self.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s: %s\r\n\r\n"
                                 % (name, value))
                self.assertTrue(reply.startswith(b"HTTP/1.1 200 "), (name, value[:20], reply[:200]))
        content = requests(1).encode()
        file_id = self.uploaded(content)
        for value, status, body in (("bytes=2-4", 206, content[2:5]), ("bytes=x", 200, content),
                                    ("bytes=" + "1" * 4000 + "-", 200, content)):
            for name in ("Range", "rANGE"):
                reply = self.content(file_id, {name: value})
                self.assertEqual((reply.status, reply.body), (status, body), value[:20])

    # Nobody asked for these bodies, and they have no end: the answer does not wait for one.
    def test_bodies_that_no_route_takes(self):
        for line, status in ((b"POST *", 404), (b"POST /%0a", 404), (b"PUT /v1/%0d%0ax", 404), (b"DELETE x", 404),
                             (b"PRI /", 405), (b"PRI *", 405), (b"CONNECT /v1/files", 405), (b"TRACE /", 405)):
            for how in (b"", b"Content-Length: 1000000000\r\n", b"Transfer-Encoding: chunked\r\n"):
                begun = time.monotonic()
                body = (b"ffffff\r\n" if b"chunked" in how else b"") + b"x" * 100_000
                reply = self.raw(line + b" HTTP/1.1\r\nHost: localhost\r\n" + how + b"\r\n" + body, shut=False)
                self.assertTrue(reply.startswith(b"HTTP/1.1 %d " % status), (line, how, reply[:200]))
                self.assertEqual(b"\r\nAllow: GET, " in reply, status == 405)
                self.assertIn(b"\r\nConnection: close\r\n", reply)
                self.assertLess(time.monotonic() - begun, 5)

    # The length of a chunk without an end, and what may follow the last chunk without one.
    def test_chunks_that_do_not_come_to_an_end(self):
        for chunks in (b"0" * 100_000, b"5;" + b"x" * 100_000, b"5\r\n{    " + b"x" * 100_000,
                       b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 20_000):
            begun = time.monotonic()
            self.refused(b"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
                         400)
            self.assertLess(time.monotonic() - begun, 5)
        # Small chunks are as good as large ones.
        body = b"".join(b"1\r\n%c\r\n" % byte for byte in b"{" + b" " * 30_000 + b"}") + b"0\r\n\r\n"
        reply = self.raw(b"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n" + body)
        self.assertIn(b"missing_required_parameter", reply)

    # What a body may hide is never taken for the next request.
    def test_nothing_follows_a_body_that_was_not_read(self):
        inner = b"GET /v1/files HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for head in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner),
                     b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner),
                     b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n" % len(inner)):
            self.assertEqual(self.raw(head + inner).count(b"HTTP/1.1 "), 1)

    # The library would take what has come for all of it, and the rest for another request.
    def test_chunks_that_are_none(self):
        inner = b"GET /v1/files HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for chunks in (b"2\r\n{}XX\r\n", b"2\r\n{}\n", b"2\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n",
                       b" 2\r\n{}\r\n0\r\n\r\n", b"+2\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n0\r\n\r\n",
                       b"2 x\r\n{}\r\n0\r\n\r\n", b"2;x\n{}\r\n0\r\n\r\n", b"2\r{}\r\n0\r\n\r\n",
                       b"0000000000000002\r\n{}\r\n0\r\n\r\n", b"\r\n2\r\n{}\r\n0\r\n\r\n",
                       b"2\r\n{}\r\n0\r\nX: y\r\n\r\n", b"2\r\n{}\r\n0\n\r\n"):
            reply = self.raw(b"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                             + chunks + inner)
            self.assertEqual(reply.count(b"HTTP/1.1 "), 1, (chunks, reply))
            self.assertIn(b"The body is not properly chunked.", reply, chunks)
        for chunks in (b"2\r\n{}\r\n0\r\n\r\n", b"02;a=\"b\"\r\n{}\r\n000;c\r\n\r\n", b"1  \r\n{\r\n1\t;\r\n}\r\n0\r\n\r\n",
                       b"A\r\n{        }\r\n0\r\n\r\n", b"00b\r\n{         }\r\n0\r\n\r\n"):
            reply = self.raw(b"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                             + chunks + inner.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            self.assertEqual(reply.count(b"HTTP/1.1 "), 2, (chunks, reply))
            self.assertIn(b"missing_required_parameter", reply, chunks)

    # Two hundred of them, and a supervisor is served at once.
    def test_slow_clients_stop_nobody(self):
        host, port = self.http.split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(200)]
        for connection in slow:
            connection.sendall(b"POST /v1/files HTTP/1.1\r\nHo")
        times = []
        for _ in range(20):
            begun = time.monotonic()
            self.assertEqual(self.call("GET", "/healthz").status, 200)
            times.append(time.monotonic() - begun)
        self.assertLess(sorted(times)[len(times) // 2], 0.1, times)
        # A byte now and then does not keep a connection.
        begun = time.monotonic()
        slow[0].settimeout(30)
        until = begun + 20
        while time.monotonic() < until:
            try:
                slow[0].sendall(b"s")
            except OSError:
                break
            time.sleep(0.5)
        self.assertLess(time.monotonic() - begun, 15)
        for connection in slow:
            connection.close()

    # As many as there may be, and none of them says anything: a supervisor and other clients are served.
    def test_half_open_connections_stop_nobody(self):
        host, port = self.http.split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(560)]
        for connection in silent[::2]:
            connection.sendall(b"GET /v1/files HTTP/1.1\r\nHo")
        self.addCleanup(lambda: [connection.close() for connection in silent])
        time.sleep(0.5)
        for path in ("/healthz", "/metrics", "/v1/files", "/healthz"):
            begun = time.monotonic()
            self.assertEqual(self.call("GET", path).status, 200, path)
            self.assertLess(time.monotonic() - begun, 2, path)


class Doors(ApiCase):
    def test_without_a_token_only_this_machine(self):
        for name, value, code in (("Host", "evil.example", "foreign_host"), ("Origin", "http://evil.example", "foreign_origin"),
                                  ("Origin", "null", "foreign_origin")):
            reply = self.call("GET", "/v1/files", headers={name: value})
            self.assertEqual((reply.status, reply.error["code"]), (403, code))
        for name, value in (("Host", "localhost:7480"), ("Host", "[::1]:7480"), ("Origin", "http://127.0.0.1:9")):
            self.assertEqual(self.call("GET", "/v1/files", headers={name: value}).status, 200)
        self.assertEqual(self.call("GET", "/healthz", headers={"Host": "any.example"}).status, 200)

    def test_others_are_not_listened_to(self):
        code, _, err = run("coordinator", "--http", "0.0.0.0:0", "--grpc", "127.0.0.1:0", "--data-dir", self.path("d"))
        self.assertEqual(code, 2)
        self.assertIn("--insecure", err)

    def test_a_taken_address_is_named(self):
        code, _, err = run("coordinator", "--http", self.http, "--grpc", "127.0.0.1:0", "--data-dir", self.path("d"))
        self.assertEqual(code, 2)
        self.assertIn(self.http, err)

    def test_health(self):
        self.assertEqual(self.call("GET", "/healthz").body, b"ok\n")
        self.assertEqual(self.call("GET", "/readyz").body, b"ready\n")


class WorkersHealth(ApiCase):
    def setUp(self):
        super().setUp()
        worker = self.start_worker()
        self.http = worker.wait_for(r"http://(127\.0\.0\.1:\d+)/healthz").group(1)

    def test_pages(self):
        self.assertEqual(self.call("GET", "/healthz").body, b"ok\n")
        self.assertEqual((self.call("HEAD", "/healthz").status, self.call("GET", "/x").status), (200, 404))
        reply = self.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nRange: bytes=" + b"1" * 8000 + b"-\r\n\r\n")
        self.assertTrue(reply.startswith(b"HTTP/1.1 200 "), reply[:200])

    def test_nothing_but_reading(self):
        for how in (b"", b"Content-Length: 1000000000\r\n", b"Transfer-Encoding: chunked\r\n"):
            for method in (b"POST", b"PUT", b"PRI", b"DELETE", b"OPTIONS"):
                begun = time.monotonic()
                body = (b"ffffff\r\n" if b"chunked" in how else b"") + b"x" * 100_000
                reply = self.raw(method + b" /healthz HTTP/1.1\r\nHost: x\r\n" + how + b"\r\n" + body)
                self.assertTrue(reply.startswith(b"HTTP/1.1 405 "), reply[:200])
                self.assertIn(b"\r\nAllow: GET, HEAD\r\n", reply)
                self.assertLess(time.monotonic() - begun, 3)
        self.assertTrue(self.raw(b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 20_000).startswith(b"HTTP/1.1 400 "))

    # More of them than there are threads, with a byte now and then: others are served after a few seconds.
    def test_slow_clients_are_given_up(self):
        host, port = self.http.split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(6)]
        self.addCleanup(lambda: [connection.close() for connection in slow])
        begun = time.monotonic()
        while time.monotonic() < begun + 3:
            for connection in slow:
                connection.sendall(b"G")
            time.sleep(0.5)
        self.assertEqual(self.call("GET", "/healthz").status, 200)
        self.assertLess(time.monotonic() - begun, 14)


class Metrics(ApiCase):
    def metrics(self):
        reply = self.call("GET", "/metrics")
        self.assertEqual(reply.status, 200)
        self.assertIn("text/plain", reply.headers["content-type"])
        values = {}
        for line in reply.body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def test_counters_agree_with_what_has_happened(self):
        before = self.metrics()
        self.assertEqual(before['nightshift_requests_total{outcome="succeeded"}'], 0)
        self.assertEqual(before["nightshift_backlog_seconds"], 0)
        self.start_worker()
        failing = requests(3, '<<{"status":400}>> %d').replace('"custom_id": "r', '"custom_id": "f')
        self.until(self.created(self.uploaded(requests(50) + failing)), "completed")
        values = self.metrics()
        backend = next(name.split('"')[1] for name in values if name.startswith("nightshift_cost_usd_total{"))
        self.assertEqual(values['nightshift_requests_total{outcome="failed"}'], 3)
        self.assertEqual(values['nightshift_requests_total{outcome="succeeded"}'], 50)
        self.assertGreaterEqual(values[f'nightshift_attempts_total{{backend="{backend}",result="answered"}}'], 50)
        self.assertEqual(values[f'nightshift_attempts_total{{backend="{backend}",result="invalid_request"}}'], 3)
        self.assertGreaterEqual(values[f'nightshift_request_latency_seconds_count{{backend="{backend}"}}'], 50)
        self.assertGreater(values[f'nightshift_tokens_total{{backend="{backend}",direction="completion"}}'], 0)
        self.assertGreater(values[f'nightshift_backend_concurrency_limit{{backend="{backend}"}}'], 0)
        self.assertIn(f'nightshift_backend_in_flight{{backend="{backend}"}}', values)
        self.assertEqual(values['nightshift_workers{state="connected"}'], 1)
        self.assertGreaterEqual(values["nightshift_lease_requests_count"], 1)
        self.assertGreaterEqual(values["nightshift_lease_requests_sum"], 53)
        self.assertGreater(values["nightshift_store_commit_seconds_count"], 0)
        for name in ("nightshift_duplicate_results_total", "nightshift_lapsed_leases_total",
                     "nightshift_pending_requests", "nightshift_backlog_seconds"):
            self.assertIn(name, values)

    # What never ran is counted when the job has ended, and so is what waits now.
    def test_cancelled_and_pending_requests(self):
        batch = self.created(self.uploaded(requests(20)))
        self.until(batch, "in_progress")
        values = self.metrics()
        self.assertEqual((values["nightshift_pending_requests"], values["nightshift_backlog_seconds"]),
                         (20, float("inf")))
        self.call("POST", f"/v1/batches/{batch}/cancel")
        self.until(batch, "cancelled")
        values = self.metrics()
        self.assertEqual(values['nightshift_requests_total{outcome="cancelled"}'], 20)
        self.assertEqual(values["nightshift_pending_requests"], 0)


class WithToken(ApiCase):
    def start_coordinator(self):
        super().start_coordinator("--token-file", self.write("token", "open sesame\n"))

    def test_a_token_is_asked_for(self):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "open sesame"},
                        {"Authorization": "Bearer open sesame and more"}):
            for method, path in (("GET", "/v1/files"), ("POST", "/v1/files"), ("POST", "/v1/batches"), ("GET", "/x")):
                reply = self.call(method, path, headers=headers)
                self.assertEqual((reply.status, reply.error["type"], reply.error["code"]),
                                 (401, "authentication_error", "invalid_api_key"))
        for bad in ("bytes=x", "bytes=" + "1" * 4000 + "-"):
            self.assertEqual(self.call("GET", "/v1/files/x/content", headers={"Range": bad}).status, 401)
        headers = {"Authorization": "Bearer open sesame", "Host": "a.name.example"}
        self.assertEqual(self.call("GET", "/v1/files", headers=headers).status, 200)
        self.assertEqual(self.call("GET", "/healthz").status, 200)
        self.coordinator.end()
        self.assertNotIn("sesame", "\n".join(self.coordinator.out + self.coordinator.err))


class Restarting(ApiCase):
    # What an upload had brought is not taken for a file, and nothing hangs.
    def test_it_ends_while_clients_are_served(self):
        host, port = self.http.split(":")
        body, kind = form([("file", "in.jsonl", requests(1000)), ("purpose", None, "batch")])
        idle = socket.create_connection((host, int(port)))
        half = socket.create_connection((host, int(port)))
        half.sendall((f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n").encode() + body[:5000])
        begun = time.monotonic()
        self.assertEqual(self.coordinator.end(), 0)
        self.assertLess(time.monotonic() - begun, 10)
        idle.close()
        half.close()
        self.assertEqual(self.files_on_disk(), [])


if __name__ == "__main__":
    unittest.main()
