#!/usr/bin/env python3
"""How long a job takes on a simulated GPU server: `nightshift run` without options, against every fixed
number of calls in flight, and against the loop that many people write.

    makespan.py [--program build/release/nightshift] [--requests 20000] [--reply-tokens 40] [--reply-spread 0.8]
                [--levels 8,16,24,32,40,48,64,96,128,256]

The server is `sim-server --profile gpu`: up to 48 calls in flight bring more, further ones wait in its
queue. The loop sends batches of 32, four at a time, and each batch waits for its slowest answer.
Makespans are from the server's own log, from the first call to the end of the last. Each run has a
server and a data folder of its own. 20,000 requests take minutes per level; a few thousand tell too.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import shutil
import sys
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
parser.add_argument("--requests", type=int, default=20000)
parser.add_argument("--reply-tokens", type=int, default=40)
parser.add_argument("--reply-spread", type=float, default=0.8)
parser.add_argument("--levels", default="8,16,24,32,40,48,64,96,128,256")
arguments = parser.parse_args()
os.environ["NIGHTSHIFT_PROGRAM"] = os.path.abspath(arguments.program)

from nightshift_testing import Sim, read_jsonl, run  # noqa: E402  (the program must be known first)

BATCH, AT_A_TIME, WANTED = 32, 4, 1.07


def lines(count):
    for i in range(count):
        yield {"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions",
               "body": {"model": "sim", "messages": [{"role": "user", "content": f"Say something about {i}"}]}}


def measured(work):
    """Seconds that `work(url, folder)` took, by the log of a server of its own."""
    folder = tempfile.mkdtemp(prefix="nightshift-makespan-")
    log = os.path.join(folder, "sim.log")
    sim = Sim("--profile", "gpu", "--log", log, "--reply-tokens", arguments.reply_tokens, "--reply-spread",
              arguments.reply_spread)
    try:
        work(sim.url, folder)
    finally:
        sim.end()
    calls = [call for call in read_jsonl(log) if call["path"].endswith("/chat/completions")]
    if sum(call["status"] == 200 for call in calls) != arguments.requests:
        raise SystemExit("not every request was answered once")
    shutil.rmtree(folder)
    return max(call["time"] + call["ms"] / 1000 for call in calls) - min(call["time"] for call in calls)


def nightshift(*options):
    def work(url, folder):
        source = os.path.join(folder, "in.jsonl")
        with open(source, "w") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines(arguments.requests))
        code, _, text = run("run", source, "--backend", url, "--data-dir", os.path.join(folder, "data"), "-o",
                            os.path.join(folder, "out.jsonl"), *options, timeout=7200)
        if code != 0:
            raise SystemExit(f"exit code {code}\n{text}")
    return work


def loop(url, _):
    address = urllib.parse.urlsplit(url).netloc
    bodies = [json.dumps(line["body"]) for line in lines(arguments.requests)]

    def call(body):
        connection = http.client.HTTPConnection(address)
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()

    with concurrent.futures.ThreadPoolExecutor(BATCH * AT_A_TIME) as calls, \
            concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as batches:
        list(batches.map(lambda start: list(calls.map(call, bodies[start:start + BATCH])),
                         range(0, len(bodies), BATCH)))


best = None
for level in map(int, arguments.levels.split(",")):
    seconds = measured(nightshift("--concurrency", level))
    best = min(best, (seconds, level)) if best else (seconds, level)
    print(f"fixed {level:4d}     {seconds:7.1f} s", flush=True)
seconds = measured(nightshift())
ratio = seconds / best[0]
print(f"no option      {seconds:7.1f} s, {ratio:.3f} of the best fixed level, {best[1]} (wanted: {WANTED})"
      f"{'  MISSED' if ratio > WANTED else ''}", flush=True)
slow = measured(loop)
print(f"batches of {BATCH}  {slow:7.1f} s: nightshift is {slow / seconds:.2f} times as fast", flush=True)
sys.exit(1 if ratio > WANTED else 0)
