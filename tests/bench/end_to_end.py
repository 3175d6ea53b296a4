#!/usr/bin/env python3
"""How much of the machine a request costs, from file to file, against two yardsticks in one run.

    end_to_end.py [--program build/release/nightshift] [--requests 100000] [--rounds 3]

The backend is nginx on loopback, which answers every POST at once with one fixed chat completion.
Printed, for the same server in the same run:
  wrk        what a load generator in C reaches that keeps nothing (the ceiling)
  aiohttp    an asyncio + aiohttp script that reads the same file and writes the answers
  nightshift `run`: validated, durable, results written
and the CPU of each by process. Needs nginx, wrk and python3-aiohttp.
"""
import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import instant_server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AIOHTTP = textwrap.dedent("""
    import asyncio, json, sys, aiohttp
    url, source, target, concurrency = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    async def main():
        queue = asyncio.Queue(concurrency * 2)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
            with open(target, "w") as out:
                async def work():
                    while (line := await queue.get()) is not None:
                        request = json.loads(line)
                        async with session.post(url + request["url"], json=request["body"]) as response:
                            out.write(json.dumps({"custom_id": request["custom_id"], "response": await response.json()}) + "\\n")
                workers = [asyncio.ensure_future(work()) for _ in range(concurrency)]
                with open(source) as lines:
                    for line in lines: await queue.put(line)
                for _ in workers: await queue.put(None)
                await asyncio.gather(*workers)
    asyncio.run(main())
""")


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(argv, **options):
    """Runs to the end: (seconds, cpu seconds of it and its children, cpu by layer)."""
    cpu, start = children_cpu(), time.monotonic()
    process = subprocess.Popen(argv, **options)
    layers = Layers(process.pid)
    if process.wait() != 0:
        raise SystemExit(f"{argv[0]} ended with {process.returncode}")
    return time.monotonic() - start, children_cpu() - cpu, layers


LAYERS = (("ns-loop", "calls"), ("ns-committer", "commits"), ("nexting_thread", "gRPC"), ("default-executo", "gRPC"), ("grpc", "gRPC"),
          ("rocksdb", "RocksDB's background"), ("ns-input", "reading the input"), ("ns-pool", "storing the input, reading results"),
          ("ns-results", "results file"), ("ns-grants", "leases"), ("nightshift", "main thread"))


class Layers(threading.Thread):
    """CPU seconds of a process by layer, from its threads' names; what a thread used in its last 250 ms is missed."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seconds = pid, {}
        self.start()

    def run(self):
        ticks = os.sysconf("SC_CLK_TCK")
        while True:
            try:
                threads = os.listdir(f"/proc/{self.pid}/task")
            except OSError:
                return
            for tid in threads:
                try:
                    with open(f"/proc/{self.pid}/task/{tid}/stat") as handle:
                        name, fields = handle.read().split("(", 1)[1].rsplit(")", 1)
                except OSError:
                    continue
                fields = fields.split()
                self.seconds[tid] = (name, (int(fields[11]) + int(fields[12])) / ticks)
            if not threads:
                return
            time.sleep(0.25)

    def text(self, requests):
        sums = {}
        for name, seconds in self.seconds.values():
            layer = next((label for start, label in LAYERS if name.startswith(start)), "other")
            sums[layer] = sums.get(layer, 0) + seconds
        return ", ".join(f"{label} {seconds / requests * 1e6:.1f}" for label, seconds in
                         sorted(sums.items(), key=lambda item: -item[1]))


def cpu_of(pid):
    """User and system seconds of a process and its live children."""
    total, ticks = 0.0, os.sysconf("SC_CLK_TCK")
    family = [pid]
    family += [int(p) for p in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]
    for one in family:
        with open(f"/proc/{one}/stat") as handle:
            fields = handle.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64, help="of wrk and aiohttp")
    options = parser.parse_args()

    folder = tempfile.mkdtemp(prefix="nightshift-bench-")
    nginx, url = instant_server.start(folder)
    try:
        source = os.path.join(folder, "in.jsonl")
        padding = "Write about the sea. " * 8
        with open(source, "w") as handle:
            for i in range(options.requests):
                handle.write(json.dumps({"custom_id": f"r-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
                    "model": "m", "messages": [{"role": "user", "content": f"{i}: {padding}"}], "max_tokens": 64}}) + "\n")
        body = json.loads(open(source).readline())["body"]
        lua = os.path.join(folder, "post.lua")
        with open(lua, "w") as handle:
            handle.write(f'wrk.method = "POST"; wrk.headers["content-type"] = "application/json"; wrk.body = {json.dumps(json.dumps(body))}')
        script = os.path.join(folder, "loop.py")
        with open(script, "w") as handle:
            handle.write(AIOHTTP)

        of_wrk, of_aiohttp = [], []
        for number in range(1, options.rounds + 1):
            out = subprocess.run(["wrk", "-t1", f"-c{options.concurrency}", "-d4s", "-s", lua, url + "/v1/chat/completions"],
                                 check=True, capture_output=True, text=True).stdout
            wrk = float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))

            data, target = os.path.join(folder, f"data{number}"), os.path.join(folder, "out.jsonl")
            served = cpu_of(nginx.pid)
            seconds, cpu, layers = timed([options.program, "run", source, "--backend", url + "/v1", "--data-dir", data, "--quiet",
                                  "-o", target, "--errors", os.path.join(folder, "err.jsonl"), "--force"], cwd=folder)
            served = cpu_of(nginx.pid) - served
            lines = sum(1 for _ in open(target))
            assert lines == options.requests, f"{lines} result lines"
            nightshift = options.requests / seconds
            shutil.rmtree(data)

            few = min(options.requests, 20_000)
            short = os.path.join(folder, "short.jsonl")
            with open(source) as lines_in, open(short, "w") as lines_out:
                for _, line in zip(range(few), lines_in):
                    lines_out.write(line)
            loop_seconds, loop_cpu, _ = timed(["/usr/bin/python3", script, url, short, os.path.join(folder, "loop.jsonl"), str(options.concurrency)])
            aiohttp = few / loop_seconds

            print(f"round {number}: wrk {wrk:,.0f}/s   aiohttp {aiohttp:,.0f}/s ({loop_cpu / few * 1e6:.0f} us CPU each)   "
                  f"nightshift {nightshift:,.0f}/s ({cpu / options.requests * 1e6:.1f} us CPU each, nginx {served / options.requests * 1e6:.1f})   "
                  f"{nightshift / wrk:.3f} of wrk, {nightshift / aiohttp:.1f} x aiohttp",
                  flush=True)
            print(f"  us CPU per request by layer: {layers.text(options.requests)}", flush=True)
            of_wrk.append(nightshift / wrk)
            of_aiohttp.append(nightshift / aiohttp)
        print(f"median of {options.rounds}: nightshift / wrk = {statistics.median(of_wrk):.3f} (wanted: 0.25)   "
              f"nightshift / aiohttp = {statistics.median(of_aiohttp):.1f} (wanted: 5)")
    finally:
        nginx.terminate()
        nginx.wait()
        shutil.rmtree(folder, ignore_errors=True)


main()
