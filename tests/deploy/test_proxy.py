"""The reverse proxy's configuration, with the real nginx in front of a coordinator."""
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import CHAT, ApiCase, Reply, form, requests  # noqa: E402
from nightshift_testing import ROOT, Process, run  # noqa: E402

CONFIGURATION = os.path.join(ROOT, "deploy", "proxy", "nginx.conf")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy(ApiCase):
    def setUp(self):
        if not NGINX:
            print("SKIPPED LOUDLY: nginx is absent; this test proves nothing here", file=sys.stderr)
            raise unittest.SkipTest("nginx is absent")
        super(ApiCase, self).setUp()
        self.data_dir = self.path("data")
        tokens = self.path("tokens")
        self.token = run("token", "create", "--token-file", tokens, "--role", "submit")[1].strip()
        self.admin = self.write("admin", run("token", "create", "--token-file", tokens, "--role", "admin")[1])
        self.start_coordinator("--token-file", tokens)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                        self.path("key.pem"), "-out", self.path("cert.pem")], check=True, capture_output=True)
        self.port = free_port()
        with open(CONFIGURATION, encoding="utf-8") as handle:
            text = handle.read()
        # The places that are marked, and nothing else.
        for pattern, value in ((r"server 127\.0\.0\.1:7480;", f"server {self.http};"),
                               (r"listen 443 ssl http2;", f"listen 127.0.0.1:{self.port} ssl http2;"),
                               (r"server_name nightshift\.example;", "server_name localhost;"),
                               (r"/etc/nightshift/tls/fullchain\.pem", self.path("cert.pem")),
                               (r"/etc/nightshift/tls/privkey\.pem", self.path("key.pem"))):
            text, count = re.subn(pattern, value, text)
            self.assertEqual(count, 1, pattern)
        self.assertEqual(open(CONFIGURATION).read().count("CHANGE"), 6)
        os.mkdir(self.path("temp"))
        temp = "".join(f"{kind}_temp_path {self.path('temp')}/{kind};\n" for kind in
                       ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main = self.write("nginx.conf", f"daemon off; worker_processes 1; pid {self.path('pid')};\n"
                          f"error_log {self.path('error.log')}; events {{ worker_connections 1024; }}\n"
                          f"http {{ access_log off;\n{temp}\n{text}\n}}\n")
        self.nginx = self.start(Process([NGINX, "-c", main, "-e", self.path("error.log")]))
        self.addCleanup(self.nginx.end)  # killed, it would leave its worker behind
        self.eventually(self.answers, "nginx listens")

    def answers(self):
        self.assertIsNone(self.nginx.process.poll(), self.nginx.err)
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def connection(self, timeout=60):
        context = ssl.create_default_context(cafile=self.path("cert.pem"))
        return http.client.HTTPSConnection("localhost", self.port, context=context, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, token=True):
        connection = self.connection()
        more = {"Authorization": f"Bearer {self.token}"} if token else {}
        connection.request(method, path, body, {**more, **(headers or {})})
        reply = connection.getresponse()
        try:
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def test_a_batch_from_upload_to_download(self):
        from nightshift_testing import Sim, Worker
        self.start(Worker(self.coordinator.address, self.start(Sim("--models", "m")).url, "--token-file", self.admin))
        body, kind = form([("file", "in.jsonl", requests(50)), ("purpose", None, "batch")])
        file = self.ask("POST", "/v1/files", body, {"Content-Type": kind})
        self.assertEqual(file.status, 200, file.body)
        batch = self.ask("POST", "/v1/batches", json.dumps({"input_file_id": file.json["id"], "endpoint": CHAT,
                                                            "completion_window": "24h"})).json["id"]
        events = self.ask("GET", f"/v1/batches/{batch}/events")
        self.assertEqual(events.body.count(b"event: result\n"), 50)
        output = self.ask("GET", f"/v1/batches/{batch}").json["output_file_id"]
        self.assertEqual(self.ask("GET", f"/v1/files/{output}/content").body.count(b"\n"), 50)
        part = self.ask("GET", f"/v1/files/{output}/content", headers={"Range": "bytes=0-9"})
        self.assertEqual((part.status, len(part.body)), (206, 10))

    # Larger than any buffer, chunked and with a length, and on its way before it has all come.
    def test_a_large_upload_is_not_held(self):
        content = os.urandom(1 << 20)
        body, kind = form([("file", "x.bin", content * 24), ("purpose", None, "user_data")])
        connection = self.connection()
        half = len(body) // 2
        connection.putrequest("POST", "/v1/files")
        for name, value in (("Authorization", f"Bearer {self.token}"), ("Content-Type", kind), ("Content-Length", str(len(body)))):
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body[:half])
        self.eventually(lambda: any(os.path.getsize(os.path.join(self.data_dir, "files", name)) > half // 2
                                    for name in self.files_on_disk()), "half of it is there before the rest is sent")
        connection.send(body[half:])
        file = json.load(connection.getresponse())
        connection.close()
        self.assertEqual(file["bytes"], 24 << 20)
        self.assertEqual(self.ask("GET", f"/v1/files/{file['id']}/content").body, content * 24)

    def test_what_stays_inside_and_what_is_asked_for(self):
        self.assertEqual(self.ask("GET", "/metrics").status, 404)
        self.assertEqual(self.ask("GET", "/").status, 404)
        self.assertEqual(self.ask("GET", "/healthz", token=False).body, b"ok\n")
        self.assertEqual(self.ask("GET", "/readyz", token=False).status, 200)
        refused = self.ask("GET", "/v1/files", token=False)
        self.assertEqual((refused.status, refused.error["code"]), (401, "invalid_api_key"))
        self.assertEqual(self.ask("GET", "/v1/files").status, 200)

    # As many from one address as it lets through are not enough to keep others from the coordinator.
    def test_slow_clients_stay_with_the_proxy(self):
        slow = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(200)]
        self.addCleanup(lambda: [one.close() for one in slow])
        begun = time.monotonic()
        self.assertEqual(self.call("GET", "/healthz").status, 200)
        self.assertLess(time.monotonic() - begun, 1)
        self.assertEqual(self.ask("GET", "/healthz", token=False).status, 200)


if __name__ == "__main__":
    unittest.main()
