"""API keys: another one in the middle of a job, and none in anything that a process leaves behind."""
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PROGRAM, Coordinator, Process, TestCase, chat_line, read_jsonl, run

REQUESTS = int(os.environ.get("NIGHTSHIFT_KEY_REQUESTS", "2000"))
FIRST, SECOND = "sk-marker-first-8f3a1c77", "sk-marker-second-2b90de41"


class KeyedServer:
    """Takes one key at a time. After so many answers `on_answers` is called once; 401 for the wrong key."""

    def __init__(self, test, key, switch_after, on_answers, latency=0.02):
        self.key, self.answers, self.refused, self.latency = key, 0, 0, latency
        self.switch_after, self.on_answers = switch_after, on_answers
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()

        async def serve():
            server = await asyncio.start_server(self.connection, "127.0.0.1", 0, backlog=1024)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        def main():
            self.loop.run_until_complete(serve())
            self.loop.run_forever()

        threading.Thread(target=main, daemon=True).start()
        ready.wait()
        test.addCleanup(lambda: self.loop.call_soon_threadsafe(self.loop.stop))
        self.url = f"http://127.0.0.1:{self.port}/v1"

    async def connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head, re.I)
                await reader.readexactly(int(length.group(1)) if length else 0)
                sent = re.search(r"authorization: Bearer (\S+)", head, re.I)
                if sent is None or sent.group(1) != self.key:
                    self.refused += 1
                    status, body = "401 Unauthorized", {"error": {"message": "wrong key", "code": "invalid_api_key"}}
                elif head.startswith("GET"):
                    status, body = "200 OK", {"object": "list", "data": [{"id": "m", "object": "model"}]}
                else:
                    await asyncio.sleep(self.latency)
                    self.answers += 1
                    if self.answers == self.switch_after:
                        self.on_answers()
                    status, body = "200 OK", {"choices": [{"index": 0, "finish_reason": "stop", "message": {
                        "role": "assistant", "content": "yes"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
                text = json.dumps(body).encode()
                writer.write(f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
                             .encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Keys(TestCase):
    def setUp(self):
        super().setUp()
        self.key_file = self.write("gpu.key", FIRST + "\n")

    def configure(self, url):
        return self.write("config.yaml", f"backends:\n  - name: gpu\n    url: {url}\n    api_key_file: {self.key_file}\n")

    def rotate(self, server):
        def both():
            server.key = SECOND
            self.write("gpu.key.new", SECOND + "\n")
            os.replace(self.path("gpu.key.new"), self.key_file)
        return both

    def find_keys(self, *more):
        """Files below the folder of this test, and texts, that hold a key; the key's own file aside."""
        found = []
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                if path == self.key_file:
                    continue
                with open(path, "rb") as handle:
                    content = handle.read()
                found += [path for key in (FIRST, SECOND) if key.encode() in content]
        return found + [text[:200] for text in more for key in (FIRST, SECOND) if key in text]

    def test_rotated_in_the_middle_of_a_job_nothing_fails(self):
        server = KeyedServer(self, FIRST, REQUESTS * 2 // 5, lambda: self.rotate(server)())
        source = self.write("in.jsonl", "".join(chat_line(f"r-{i}", f"say {i}") + "\n" for i in range(REQUESTS)))
        config = self.configure(server.url)
        code, out, err = run("run", source, "--backend", "gpu", "--config", config, "--data-dir", self.path("data"),
                             "-o", self.path("out.jsonl"), "--errors", self.path("err.jsonl"), "--log-level", "debug",
                             "--max-attempts", "1", cwd=self.folder)
        self.assertEqual(code, 0, err[-3000:])
        results = read_jsonl(self.path("out.jsonl"))
        self.assertEqual(len(results), REQUESTS)
        self.assertFalse(os.path.exists(self.path("err.jsonl")))
        print(f"key rotated: {REQUESTS} of {REQUESTS} answered, {server.refused} calls with the old key were refused",
              file=sys.stderr)
        self.assertGreater(server.refused, 0, "the old key was never seen to be refused: this proved nothing")
        self.assertIn("another key", err)
        self.assertEqual(self.find_keys(out, err), [])

    def test_no_key_in_anything_that_is_left_behind(self):
        """A fleet: logs, data folders, command lines, environments, and a core dump of the worker."""
        server = KeyedServer(self, FIRST, 50, lambda: None, latency=0.05)
        coordinator = self.start(Coordinator(self.path("data"), "--log-level", "debug"))
        worker = self.start(Process([PROGRAM, "worker", "--coordinator", coordinator.address, "--backend", "gpu",
                                     "--config", self.configure(server.url), "--http", "127.0.0.1:0", "--data-dir",
                                     self.path("worker"), "--log-level", "debug", "--name", "w"]))
        by_variable = self.start(Process([PROGRAM, "worker", "--coordinator", coordinator.address, "--backend", server.url,
                                          "--http", "127.0.0.1:0", "--data-dir", self.path("worker-2"), "--log-level",
                                          "debug", "--name", "w2"], env={"NIGHTSHIFT_API_KEY": FIRST}))
        source = self.write("in.jsonl", "".join(chat_line(f"r-{i}", f"say {i}") + "\n" for i in range(1000)))
        where = ("--coordinator", coordinator.address)
        code, out, err = run("submit", source, *where)
        self.assertEqual(code, 0, err)
        self.eventually(lambda: server.answers > 100, "both workers call")
        listed = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
        for process in (worker, by_variable):
            with open(f"/proc/{process.pid}/environ", "rb") as handle:
                self.assertNotIn(FIRST.encode(), handle.read())
            if shutil.which("gcore"):
                subprocess.run(["gcore", "-o", self.path("core"), str(process.pid)], capture_output=True, timeout=120)
                dump = self.path(f"core.{process.pid}")
                self.assertTrue(os.path.exists(dump), "no core dump was made")
            else:
                print("SKIPPED LOUDLY: gcore is not here; no core dump was looked into", file=sys.stderr)
        code, shown, _ = run("workers", "--json", *where)
        run("watch", out.strip(), *where)
        for process in (worker, by_variable, coordinator):
            process.end()
        said = ["\n".join(process.out + process.err) for process in (coordinator, worker, by_variable)]
        self.assertEqual(self.find_keys(listed, shown, out, err, *said), [])


if __name__ == "__main__":
    unittest.main()
