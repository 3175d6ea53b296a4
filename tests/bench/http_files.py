#!/usr/bin/env python3
"""How fast a large file goes up and comes down over HTTP, and what it does to the coordinator's memory.

    http_files.py [--mib 2048] [--clients 8]      prints one line of figures each

Clients poll a batch all the while. Beside the rates stands the disk's own, from writing and syncing a
file of the same size in the same folder: an upload cannot be faster than that. By hand; not a test.
"""
import argparse
import http.client
import json
import os
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import Coordinator, chat_line  # noqa: E402


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def disk_rate(folder, block, count):
    path = os.path.join(folder, "disk-rate")
    begun = time.monotonic()
    with open(path, "wb") as handle:
        for _ in range(count):
            handle.write(block)
        handle.flush()
        os.fsync(handle.fileno())
    took = time.monotonic() - begun
    os.unlink(path)
    return len(block) * count / took / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    line = (chat_line("r00000000", "x" * 900) + "\n").encode()
    block = line * max(1, (1 << 20) // len(line))
    folder = tempfile.mkdtemp(prefix="nightshift-http-files-")
    coordinator = Coordinator(os.path.join(folder, "data"))
    address = coordinator.wait_for(r"http://(127\.0\.0\.1:\d+)/v1").group(1)
    print(f"disk      {disk_rate(folder, block, options.mib):.0f} MB/s")

    stop, polls = threading.Event(), []

    def poll():
        while not stop.is_set():
            begun = time.monotonic()
            connection = http.client.HTTPConnection(address)
            connection.request("GET", "/v1/batches")
            connection.getresponse().read()
            polls.append(time.monotonic() - begun)
            time.sleep(0.05)

    before, peak = resident_mib(coordinator.pid), [0.0]

    def watch():
        while not stop.is_set():
            peak[0] = max(peak[0], resident_mib(coordinator.pid))
            time.sleep(0.05)

    threads = [threading.Thread(target=poll, daemon=True) for _ in range(options.clients)]
    threads.append(threading.Thread(target=watch, daemon=True))
    for thread in threads:
        thread.start()

    head = (b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n')
    tail = b"\r\n--B--\r\n"
    size = len(block) * options.mib
    begun = time.monotonic()
    connection = http.client.HTTPConnection(address)
    connection.putrequest("POST", "/v1/files")
    connection.putheader("Content-Type", "multipart/form-data; boundary=B")
    connection.putheader("Content-Length", str(len(head) + size + len(tail)))
    connection.endheaders()
    connection.send(head)
    for _ in range(options.mib):
        connection.send(block)
    connection.send(tail)
    reply = json.loads(connection.getresponse().read())
    took = time.monotonic() - begun
    assert reply["bytes"] == size, reply
    print(f"upload    {size / took / 1e6:.0f} MB/s ({size / 1e6:.0f} MB in {took:.1f} s)")

    begun = time.monotonic()
    connection = http.client.HTTPConnection(address)
    connection.request("GET", f"/v1/files/{reply['id']}/content")
    content, got = connection.getresponse(), 0
    while chunk := content.read(1 << 20):
        got += len(chunk)
    took = time.monotonic() - begun
    assert got == size, got
    print(f"download  {size / took / 1e6:.0f} MB/s")
    stop.set()
    for thread in threads:
        thread.join()
    polls.sort()
    print(f"polls     {len(polls)} by {options.clients} clients, 99 % within {polls[len(polls) * 99 // 100] * 1e3:.1f} ms")
    print(f"memory    {before:.0f} MiB before, {peak[0]:.0f} MiB at most: {peak[0] - before:+.0f} MiB")
    coordinator.end()
    shutil.rmtree(folder)


main()
