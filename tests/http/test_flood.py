"""Everything at once that a hostile or broken client can do to the port, and who is served all the same."""
import os
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import ApiCase, requests  # noqa: E402

SLOW, UPLOADS, STREAMS, FLOODS = 200, 16, 40, 4
UPLOAD_MIB = 24
MEMORY_MIB = 256


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


class Flood(ApiCase):
    def setUp(self):
        super().setUp()
        self.stop = threading.Event()
        self.threads = []
        self.addCleanup(self.end)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)

    def spawn(self, work, *arguments):
        def guarded():
            while not self.stop.is_set():
                try:
                    work(*arguments)
                except OSError:
                    time.sleep(0.05)
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self.threads.append(thread)

    def connect(self):
        host, port = self.http.split(":")
        return socket.create_connection((host, int(port)), timeout=20)

    # A byte every second, of a head or of a body.
    def slow(self, connections):
        for connection in connections:
            connection.sendall(b"s")
        self.stop.wait(1)

    def flood(self):
        with self.connect() as connection:
            connection.sendall(b"GET /v1/files HTTP/1.1\r\nHost: localhost\r\n")
            for number in range(2000):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"y" * 200))
                if self.stop.is_set():
                    return

    def send_file(self):
        block = b"x" * (1 << 20)
        head = (b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
                b'--B\r\nContent-Disposition: form-data; name="file"; filename="x.bin"\r\n\r\n')
        tail = b"\r\n--B--\r\n"
        with self.connect() as connection:
            connection.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               b"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: %d\r\n\r\n"
                               % (len(head) + len(tail) + UPLOAD_MIB * len(block)) + head)
            for _ in range(UPLOAD_MIB):
                connection.sendall(block)
                if self.stop.wait(0.02):
                    return
            connection.sendall(tail)
            if connection.recv(65536).startswith(b"HTTP/1.1 200"):
                self.uploaded_count += 1

    def test_supervisors_and_others_are_served(self):
        batch = self.created(self.uploaded(requests(3)))
        self.uploaded_count = 0
        before = resident_mib(self.coordinator.pid)
        slow = [self.connect() for _ in range(SLOW)]
        for number, connection in enumerate(slow):
            connection.sendall(b"POST /v1/files HTTP/1.1\r\nHo" if number % 2 else
                               b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
                               b"boundary=B\r\nContent-Length: 1000000\r\n\r\n--B\r\n")
        streams = [self.connect() for _ in range(STREAMS)]
        for stream in streams:
            stream.sendall(f"GET /v1/batches/{batch}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.spawn(self.slow, slow)
        for _ in range(FLOODS):
            self.spawn(self.flood)
        for _ in range(UPLOADS):
            self.spawn(self.send_file)
        health, others, memory = [], [], before
        end = time.monotonic() + 15
        while time.monotonic() < end:
            for path, times in (("/healthz", health), (f"/v1/batches/{batch}", others)):
                begun = time.monotonic()
                self.assertEqual(self.call("GET", path).status, 200)
                times.append(time.monotonic() - begun)
            memory = max(memory, resident_mib(self.coordinator.pid))
            time.sleep(0.05)
        self.stop.set()

        def share(times, part):
            return sorted(times)[int(len(times) * part)] * 1000
        print(f"healthz   median {share(health, 0.5):.0f} ms, 99 % {share(health, 0.99):.0f} ms, of {len(health)}\n"
              f"retrieve  median {share(others, 0.5):.0f} ms, 99 % {share(others, 0.99):.0f} ms\n"
              f"memory    {before:.0f} MiB before, {memory:.0f} MiB at most; {self.uploaded_count} uploads of "
              f"{UPLOAD_MIB} MiB came through", file=sys.stderr)
        # A busy machine is no failure, and a server that does not answer is.
        self.assertLess(share(health, 0.5), 100)
        self.assertLess(max(health), 1)
        self.assertLess(memory - before, MEMORY_MIB)
        self.assertGreater(self.uploaded_count, 0)
        for connection in slow + streams:
            connection.close()


if __name__ == "__main__":
    unittest.main()
