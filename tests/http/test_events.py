"""Following a batch as a stream of events."""
import http.client
import json
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import ApiCase, requests  # noqa: E402

# What coordinator/http/batch_events.cc tells at most.
PLACE_BYTES_MAX = 7 << 10


class Stream:
    """The events of one connection, as (event, data, id)."""

    def __init__(self, address, path, headers=None):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.connection.request("GET", path, headers=headers or {})
        self.reply = self.connection.getresponse()
        self.status = self.reply.status

    def __iter__(self):
        fields = {}
        for raw in self.reply:
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if not line:
                if fields:
                    yield fields.get("event"), fields.get("data"), fields.get("id")
                fields = {}
                continue
            name, _, value = line.partition(": ")
            fields[name] = value

    def close(self):
        # The reply holds the socket as well: it has no length, so the connection has let go of it.
        self.reply.close()
        self.connection.close()


class Events(ApiCase):
    def stream(self, batch, headers=None):
        stream = Stream(self.http, f"/v1/batches/{batch}/events", headers)
        self.addCleanup(stream.close)
        return stream

    def running(self, count, failing=0):
        """A batch that takes a while, a few requests at a time."""
        self.start_worker("--latency", "100ms", concurrency="4")
        bad = requests(failing, '<<{"status":400}>> %d').replace('"custom_id": "r', '"custom_id": "f')
        return self.created(self.uploaded(requests(count) + bad))

    def test_every_line_comes_once_and_the_end_is_told(self):
        batch = self.running(20, failing=3)
        stream = self.stream(batch)
        self.assertEqual((stream.status, stream.reply.getheader("content-type")), (200, "text/event-stream"))
        events = list(stream)
        results = [json.loads(data)["custom_id"] for event, data, _ in events if event == "result"]
        failures = [json.loads(data)["custom_id"] for event, data, _ in events if event == "failure"]
        self.assertEqual(sorted(results), sorted(f"r{i}" for i in range(20)))
        self.assertEqual(sorted(failures), ["f0", "f1", "f2"])
        told = [json.loads(data) for event, data, _ in events if event == "batch"]
        self.assertEqual(events[-1][0], "batch")
        self.assertEqual((told[-1]["status"], told[-1]["request_counts"]["completed"]), ("completed", 20))
        self.assertGreater(len(told), 1, "the state is told on the way, too")
        # Of a batch that has ended: the same, at once.
        again = [json.loads(d)["custom_id"] for e, d, _ in self.stream(batch) if e in ("result", "failure")]
        self.assertEqual(sorted(again), sorted(results + failures))

    def test_a_client_goes_on_where_it_was(self):
        batch = self.running(30)
        seen, place = [], None
        for _ in range(40):
            stream = self.stream(batch, {"Last-Event-ID": place} if place else None)
            self.assertEqual(stream.status, 200)
            ended = True
            for event, data, where in stream:
                if event == "result":
                    seen.append(json.loads(data)["custom_id"])
                place = where or place
                if len(seen) % 7 == 3:
                    ended = False
                    break
            stream.close()
            if ended:
                break
            seen.append("-")
        seen = [one for one in seen if one != "-"]
        self.assertEqual(sorted(set(seen)), sorted(f"r{i}" for i in range(30)))
        other = self.created(self.uploaded(requests(1)))
        self.until(other, "completed")
        for bad in ("nonsense", place, "."):
            reply = self.call("GET", f"/v1/batches/{other}/events", headers={"Last-Event-ID": bad})
            self.assertEqual((reply.status, reply.error["param"]) if bad != "." else reply.status,
                             (400, "after") if bad != "." else 200, bad)

    # The library refuses longer heads' lines by itself; the longest place that is told must come through.
    def test_the_longest_place_can_be_sent_back(self):
        batch = self.created(self.uploaded(requests(1)))
        place = "x" * (PLACE_BYTES_MAX // 2) + "."
        place += "x" * (PLACE_BYTES_MAX - len(place))
        path = f"/v1/batches/{batch}/events"
        for path, headers in ((path, {"Last-Event-ID": place}), (f"{path}?after={place}", {})):
            reply = self.call("GET", path, headers=headers)
            self.assertEqual((reply.status, reply.error["param"]), (400, "after"), reply.body)

    def test_a_refused_batch_ends_its_stream(self):
        batch = self.created(self.uploaded('{"custom_id": 1}\n'))
        events = list(self.stream(batch))
        self.assertEqual([event for event, _, _ in events][-1], "batch")
        self.assertEqual(json.loads(events[-1][1])["status"], "failed")
        self.assertEqual(self.call("GET", "/v1/batches/batch_000000000000/events").status, 404)

    # Without a worker nothing happens: they wait, have their own number, and end with the coordinator.
    def test_many_streams_stop_nobody(self):
        batch = self.created(self.uploaded(requests(3)))
        streams = [self.stream(batch) for _ in range(64)]
        self.assertEqual({stream.status for stream in streams}, {200})
        reply = self.call("GET", f"/v1/batches/{batch}/events")
        self.assertEqual((reply.status, reply.error["code"]), (503, "too_many_streams"))
        begun = time.monotonic()
        self.assertEqual(self.call("GET", "/healthz").status, 200)
        self.assertLess(time.monotonic() - begun, 1)
        for stream in streams[:10]:
            stream.close()
        self.eventually(lambda: self.call_stream_status(batch) == 200, "one that was closed makes room", timeout=10)
        begun = time.monotonic()
        self.assertEqual(self.coordinator.end(), 0)
        self.assertLess(time.monotonic() - begun, 10)

    # What a client has sent ahead, as the farewell of TLS, hides no end.
    def test_an_end_behind_other_bytes_is_noticed(self):
        batch = self.created(self.uploaded(requests(3)))
        host, port = self.http.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(f"GET /v1/batches/{batch}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 200"))
            client.sendall(b"more")
            client.shutdown(socket.SHUT_WR)
            client.settimeout(5)
            while client.recv(65536):
                pass

    def call_stream_status(self, batch):
        stream = self.stream(batch)
        stream.close()
        return stream.status


if __name__ == "__main__":
    unittest.main()
