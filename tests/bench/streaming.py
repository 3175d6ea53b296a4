#!/usr/bin/env python3
"""What streaming costs.

    streaming.py [--program build/release/nightshift] [--requests 20000] [--rounds 3] [--streams 2000]

1. CPU of `run` per request, streamed (32 pieces) and not, on nginx that answers at once, in turns within one
   run. Wanted: at most 1.5 times.
2. Memory of `run` per stream with that many in flight at once, each half sent. Wanted: below 100 kB.
"""
import argparse
import asyncio
import getpass
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PIECES = 32
WORD = " word ab"  # about what a piece of two tokens is
USAGE = {"prompt_tokens": 20, "completion_tokens": 2 * PIECES, "total_tokens": 20 + 2 * PIECES}
HEAD = {"id": "chatcmpl-1f2e3d4c5b6a79880123456789abcdef", "created": 1790000000, "model": "m"}


def whole_answer():
    return json.dumps({**HEAD, "object": "chat.completion", "choices": [{"index": 0, "message": {
        "role": "assistant", "content": WORD * PIECES}, "logprobs": None, "finish_reason": "stop"}], "usage": USAGE})


def frames():
    def frame(delta, reason=None, **more):
        return "data: " + json.dumps({**HEAD, "object": "chat.completion.chunk", "choices": [{
            "index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}], **more}) + "\n\n"
    yield frame({"role": "assistant", "content": ""})
    for _ in range(PIECES):
        yield frame({"content": WORD})
    yield frame({}, "stop")
    yield "data: " + json.dumps({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}) + "\n\n"
    yield "data: [DONE]\n\n"


def start_nginx(folder):
    """Answers a path with its answer: /whole and /stream are two backends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    models = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]})
    # Too long for nginx to hold in its configuration.
    for name, text in (("whole.txt", whole_answer()), ("stream.txt", "".join(frames()))):
        with open(os.path.join(folder, name), "w") as handle:
            handle.write(text)
    conf = os.path.join(folder, "nginx.conf")
    with open(conf, "w") as handle:
        handle.write(textwrap.dedent(f"""
            user {getpass.getuser()}; worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
            events {{ worker_connections 4096; }}
            http {{
              access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/body;
              proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
              server {{ listen 127.0.0.1:{port} backlog=4096; default_type application/json;
                location /whole/v1/chat {{ error_page 405 =200 /whole.txt; return 405; }}
                location /stream/v1/chat {{ error_page 405 =200 /stream.txt; return 405; }}
                location = /whole.txt {{ internal; root {folder}; types {{ }} default_type application/json; }}
                location = /stream.txt {{ internal; root {folder}; types {{ }} default_type text/event-stream; }}
                location ~ /v1/models {{ return 200 '{models}'; }}
                location / {{ return 404 '{{}}'; }} }}
            }}"""))
    process = subprocess.Popen(["nginx", "-c", conf], stderr=subprocess.DEVNULL)
    for _ in range(50):
        with socket.socket() as probe:
            if process.poll() is None and probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}"
        time.sleep(0.1)
    raise SystemExit("nginx did not start")


def write_input(folder, count):
    path = os.path.join(folder, f"in-{count}.jsonl")
    with open(path, "w") as handle:
        for i in range(count):
            handle.write(json.dumps({"custom_id": f"r-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
                "model": "m", "messages": [{"role": "user", "content": f"question {i}"}]}}) + "\n")
    return path


def cpu_of(program, folder, source, url, requests, *options):
    """CPU microseconds per request, of this process alone."""
    data = tempfile.mkdtemp(dir=folder)
    process = subprocess.Popen([program, "run", source, "--backend", url, "--data-dir", os.path.join(data, "d"), "-o",
                                os.path.join(data, "out"), "--quiet", *options])
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"run ended with {status}")
    with open(os.path.join(data, "out")) as handle:
        line = json.loads(next(handle))
    assert line["response"]["body"]["choices"][0]["message"]["content"] == WORD * PIECES, line
    assert line["nightshift"]["completion_tokens"] == 2 * PIECES, line
    shutil.rmtree(data)
    return (usage.ru_utime + usage.ru_stime) * 1e6 / requests


def measure_cpu(options, folder):
    nginx, url = start_nginx(folder)
    try:
        source, small = write_input(folder, options.requests), write_input(folder, 100)
        ratios = []
        for turn in range(options.rounds):
            # What a run costs whatever its size is no cost of a request.
            figures = {}
            for mode, more in (("whole", []), ("stream", ["--stream"])):
                base = cpu_of(options.program, folder, small, f"{url}/{mode}", 1, *more)
                total = cpu_of(options.program, folder, source, f"{url}/{mode}", 1, *more)
                figures[mode] = (total - base) / (options.requests - 100)
            ratios.append(figures["stream"] / figures["whole"])
            print(f"round {turn + 1}: {figures['whole']:.1f} us of CPU per request not streamed, {figures['stream']:.1f} "
                  f"streamed ({PIECES} pieces): {ratios[-1]:.2f} times")
        print(f"streaming costs {statistics.median(ratios):.2f} times the CPU (wanted: at most 1.5)")
        return statistics.median(ratios) <= 1.5
    finally:
        nginx.terminate()
        nginx.wait()


class HalfServer(threading.Thread):
    """Sends half of each stream, and the rest once `go_on` is set."""

    def __init__(self):
        super().__init__(daemon=True)
        self.open, self.ready, self.go_on = 0, threading.Event(), None
        self.start()
        self.ready.wait()

    def run(self):
        asyncio.run(self.main())

    async def main(self):
        self.loop, self.go_on = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self.connection, "127.0.0.1", 0, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await asyncio.Event().wait()

    async def connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if head.startswith(b"get"):
                    body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                    continue
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                all_frames = [f.encode() for f in frames()]
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                             + b"".join(all_frames[:PIECES // 2]))
                self.open += 1
                await self.go_on.wait()
                writer.write(b"".join(all_frames[PIECES // 2:]))
                await writer.drain()
                writer.close()
                return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass


def resident(pid):
    with open(f"/proc/{pid}/status") as handle:
        return next(int(line.split()[1]) for line in handle if line.startswith("VmRSS")) * 1024


def measure_memory(options, folder):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    used = {}
    for streams in (100, options.streams):
        server = HalfServer()
        source = write_input(folder, options.streams)
        data = tempfile.mkdtemp(dir=folder)
        process = subprocess.Popen([options.program, "run", source, "--backend", f"http://127.0.0.1:{server.port}/v1",
                                    "--stream", "--concurrency", str(streams), "--quiet", "--data-dir",
                                    os.path.join(data, "d"), "-o", os.path.join(data, "out")])
        until = time.monotonic() + 120
        while server.open < streams:
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit(f"only {server.open} of {streams} streams were opened")
            time.sleep(0.1)
        time.sleep(1)
        used[streams] = resident(process.pid)
        server.loop.call_soon_threadsafe(server.go_on.set)
        if process.wait() != 0:
            raise SystemExit(f"run ended with {process.returncode}")
    per_stream = (used[options.streams] - used[100]) / (options.streams - 100)
    print(f"{options.streams} streams in flight: {used[options.streams] / 2**20:.0f} MiB resident, "
          f"{per_stream / 1000:.1f} kB per stream (wanted: below 100)")
    return per_stream < 100_000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=2000)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="nightshift-bench-")
    try:
        good = [measure_cpu(options, folder), measure_memory(options, folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if all(good) else 1)


main()
