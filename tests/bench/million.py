#!/usr/bin/env python3
"""A job of a million requests: how fast it is taken in, how much memory it needs, how fast `status`
answers while it runs, and how soon the first new call is made after a kill half way.

    million.py [--program build/release/nightshift] [--requests 1000000]

The backend is nginx on loopback with an access log, whose time stamps say when the first call came.
"""
import argparse
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import instant_server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def peak_rss_mb(pid):
    with open(f"/proc/{pid}/status") as handle:
        return int(re.search(r"VmHWM:\s+(\d+)", handle.read()).group(1)) / 1024


def calls(folder):
    path = os.path.join(folder, "access.log")
    if not os.path.exists(path):
        return 0
    return os.path.getsize(path) // len("1790000000.000\n")


def wait_calls(folder, wanted, process):
    while calls(folder) < wanted and process.poll() is None:
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args()
    count, program = options.requests, options.program

    folder = tempfile.mkdtemp(prefix="nightshift-million-")
    nginx, url = instant_server.start(folder, log_calls=True)
    try:
        source = os.path.join(folder, "in.jsonl")
        padding = "Write about the sea. " * 8
        with open(source, "w") as handle:
            for i in range(count):
                handle.write('{"custom_id":"r-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":'
                             '[{"role":"user","content":"%d: %s"}],"max_tokens":64}}\n' % (i, i, padding))

        # Taking it in: a coordinator without workers, and `submit`.
        data = os.path.join(folder, "submit-data")
        server = subprocess.Popen([program, "coordinator", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", data],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        address = None
        http_address = address = None
        for line in server.stdout:
            if match := re.search(r"http://(127\.0\.0\.1:\d+)/v1", line):
                http_address = match.group(1)
            elif match := re.search(r"(127\.0\.0\.1:\d+)$", line.strip()):
                address = match.group(1)
            if http_address and address:
                break
        start = time.monotonic()
        job = subprocess.run([program, "submit", source, "--coordinator", address, "--quiet"], check=True,
                             capture_output=True, text=True).stdout.strip()
        seconds = time.monotonic() - start
        print(f"submit: {count / seconds:,.0f} lines/s ({seconds:.1f} s); coordinator peak {peak_rss_mb(server.pid):.0f} MB (wanted: 100,000/s)")
        server.send_signal(signal.SIGTERM)
        server.wait()
        shutil.rmtree(data)

        # Running it: one process, killed half way.
        data = os.path.join(folder, "data")
        command = [program, "run", source, "--backend", url + "/v1", "--data-dir", data, "--quiet", "-o",
                   os.path.join(folder, "out.jsonl"), "--errors", os.path.join(folder, "err.jsonl")]
        start = time.monotonic()
        running = subprocess.Popen(command, cwd=folder)
        wait_calls(folder, count // 2, running)
        peak = peak_rss_mb(running.pid)
        running.kill()
        running.wait()
        half = time.monotonic() - start
        seen = calls(folder)
        restart = time.time()
        running = subprocess.Popen(command, cwd=folder)
        wait_calls(folder, seen + 1, running)
        # nginx stamps the end of the call, to the millisecond.
        with open(os.path.join(folder, "access.log")) as handle:
            handle.seek(seen * len("1790000000.000\n"))
            stamps = handle.read(15 * 200).split()
        first = min((float(s) for s in stamps if float(s) >= restart), default=float("nan"))
        print(f"killed after {seen:,} calls in {half:.0f} s; first new call {first - restart:.2f} s after the restart (wanted: 2)")
        while running.poll() is None:
            peak = max(peak, peak_rss_mb(running.pid))
            time.sleep(0.2)
        assert running.returncode == 0, running.returncode
        lines = sum(1 for _ in open(os.path.join(folder, "out.jsonl")))
        assert lines == count, f"{lines} result lines"
        print(f"run: {lines:,} results; peak {peak:.0f} MB (wanted: 300); {calls(folder) - count} repeated calls")

        # `status` while a job of that size runs.
        server = subprocess.Popen([program, "coordinator", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir",
                                   os.path.join(folder, "status-data")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        http_address = address = None
        for line in server.stdout:
            if match := re.search(r"http://(127\.0\.0\.1:\d+)/v1", line):
                http_address = match.group(1)
            elif match := re.search(r"(127\.0\.0\.1:\d+)$", line.strip()):
                address = match.group(1)
            if http_address and address:
                break
        worker = subprocess.Popen([program, "worker", "--coordinator", address, "--backend", url + "/v1", "--http", "127.0.0.1:0"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        job = subprocess.run([program, "submit", source, "--coordinator", address, "--quiet"], check=True,
                             capture_output=True, text=True).stdout.strip()
        time.sleep(2)
        took = []
        for _ in range(30):
            begin = time.monotonic()
            subprocess.run([program, "status", job, "--coordinator", address, "--json"], check=True, stdout=subprocess.DEVNULL)
            took.append(time.monotonic() - begin)
        connection = http.client.HTTPConnection(http_address)
        answers = []
        for _ in range(200):
            begin = time.monotonic()
            connection.request("GET", "/v1/batches/batch_" + job.removeprefix("job_"))
            reply = connection.getresponse()
            reply.read()
            answers.append(time.monotonic() - begin)
            assert reply.status == 200, reply.status
        answers.sort()
        bare = []
        for _ in range(10):
            begin = time.monotonic()
            subprocess.run([program, "version"], check=True, stdout=subprocess.DEVNULL)
            bare.append(time.monotonic() - begin)
        took.sort()
        print(f"status while it runs: answered over HTTP p50 {answers[100] * 1e3:.1f} ms, p99 {answers[198] * 1e3:.1f} ms (wanted: 10); "
              f"whole command p50 {took[15] * 1e3:.1f} ms, max {took[-1] * 1e3:.1f} ms, of which starting any program of its size "
              f"{sorted(bare)[5] * 1e3:.1f} ms")
        for process in (worker, server):
            process.send_signal(signal.SIGTERM)
        worker.wait()
        server.wait()
    finally:
        nginx.terminate()
        nginx.wait()
        shutil.rmtree(folder, ignore_errors=True)


main()
