"""Plain HTTP for the tests of the Batch API: no client library between the test and the bytes."""
import http.client
import json
import os
import socket
import time
import uuid

from nightshift_testing import PATIENCE, Coordinator, Sim, TestCase, Worker, chat_line

CHAT = "/v1/chat/completions"


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The envelope's inside, after checking that it is one."""
        error = self.json["error"]
        assert sorted(error) == ["code", "message", "param", "type"], error
        assert error["code"] is None or isinstance(error["code"], str), error
        return error


def form(parts, boundary=None, close=True):
    """A multipart body. Each part is (name, filename or None, bytes or text)."""
    boundary = boundary or "b" + uuid.uuid4().hex
    body = b""
    for name, filename, data in parts:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        if filename is not None:
            body += f'; filename="{filename}"\r\nContent-Type: application/octet-stream'.encode()
        body += b"\r\n\r\n" + (data if isinstance(data, bytes) else data.encode()) + b"\r\n"
    if close:
        body += f"--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


class ApiCase(TestCase):
    """A coordinator of its own, with its HTTP side, for each test."""
    options = ()

    def setUp(self):
        super().setUp()
        self.data_dir = self.path("data")
        self.start_coordinator()

    def start_coordinator(self, *more):
        self.coordinator = self.start(Coordinator(self.data_dir, *self.options, *more))
        self.http = self.coordinator.wait_for(r"http://(127\.0\.0\.1:\d+)/v1").group(1)

    def start_worker(self, *sim_options, models="m", concurrency="auto"):
        """With a simulated backend that serves these models; returns once that is known."""
        sim = self.start(Sim("--models", models, *sim_options))
        worker = self.start(Worker(self.coordinator.address, sim.url, "--concurrency", concurrency))
        self.eventually(lambda: self.call("GET", "/v1/models").json["data"], "the worker's models are known")
        return worker

    # --- calls ---------------------------------------------------------------------------------
    def call(self, method, path, body=None, headers=None, timeout=PATIENCE):
        connection = http.client.HTTPConnection(self.http, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def raw(self, data, timeout=20, shut=False):
        """Sends bytes as they are and returns what came back until the server closed."""
        host, port = self.http.split(":")
        with socket.create_connection((host, int(port)), timeout=timeout) as connection:
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
            got = b""
            try:
                while chunk := connection.recv(65536):
                    got += chunk
            except ConnectionResetError:
                pass
            return got

    def upload(self, content, filename="in.jsonl", purpose="batch", more=(), headers=None):
        body, kind = form([("file", filename, content), ("purpose", None, purpose), *more])
        return self.call("POST", "/v1/files", body, {"Content-Type": kind, **(headers or {})})

    def uploaded(self, content, **options):
        reply = self.upload(content, **options)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["id"]

    def create(self, file_id, headers=None, **fields):
        body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **fields}
        body = {key: value for key, value in body.items() if value is not ...}
        return self.call("POST", "/v1/batches", json.dumps(body),
                         {"Content-Type": "application/json", **(headers or {})})

    def created(self, file_id, **fields):
        reply = self.create(file_id, **fields)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["id"]

    def batch(self, batch_id):
        reply = self.call("GET", f"/v1/batches/{batch_id}")
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def until(self, batch_id, *statuses, timeout=PATIENCE):
        """The batch once it has one of these statuses."""
        end = time.monotonic() + timeout
        while True:
            batch = self.batch(batch_id)
            if batch["status"] in statuses:
                return batch
            self.assertLess(time.monotonic(), end, batch)
            time.sleep(0.02)

    def content(self, file_id, headers=None):
        return self.call("GET", f"/v1/files/{file_id}/content", headers=headers)

    def lines(self, file_id):
        reply = self.content(file_id)
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(int(reply.headers["content-length"]), len(reply.body))
        self.assertTrue(reply.body.endswith(b"\n"))
        return [json.loads(line) for line in reply.body.split(b"\n")[:-1]]

    def files_on_disk(self):
        return sorted(os.listdir(os.path.join(self.data_dir, "files")))


def requests(count, prompt="say %d", **body):
    return "".join(chat_line(f"r{i}", prompt.replace("%d", str(i)), **body) + "\n" for i in range(count))
