#!/usr/bin/env python3
"""Tokens per second of a real llama.cpp server with 32 slots: `nightshift run` without options, against
fixed numbers of calls in flight, in one run.

    real_llama.py [--program build/release/nightshift] [--requests 300] [--rounds 3]
                  [--levels 1,2,4,8,16,32,64]

Needs the tool real_llama/llama.sh in $NIGHTSHIFT_TOOLS, set up once. The machine's speed wanders, so
every round measures everything once, in another order, and the medians are compared. Each level gets
as many requests as keep it busy about as long as the others.
"""
import argparse
import json
import os
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
parser.add_argument("--requests", type=int, default=300)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--levels", default="1,2,4,8,16,32,64")
arguments = parser.parse_args()
os.environ["NIGHTSHIFT_PROGRAM"] = os.path.abspath(arguments.program)

from nightshift_testing import Process, read_jsonl, run, tool  # noqa: E402  (the program must be known first)

ANSWER, WANTED = 48, 0.9


def tokens_per_second(url, options, tag):
    folder = tempfile.mkdtemp(prefix="nightshift-llama-")
    source, results = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
    with open(source, "w") as out:
        for i in range(arguments.requests):
            out.write(json.dumps({"custom_id": f"r{i}", "model": "mid", "max_tokens": 8 + (i * 37) % (2 * ANSWER - 16),
                                  "messages": [{"role": "user", "content": f"{tag}: report {i}"}]}) + "\n")
    begun = time.monotonic()
    code, _, text = run("run", source, "--backend", url, "--data-dir", os.path.join(folder, "data"), "-o", results,
                        "--wait-for-backend", "120s", *options, timeout=3600)
    seconds = time.monotonic() - begun
    if code != 0:
        raise SystemExit(f"exit code {code}\n{text}")
    tokens = sum(r["nightshift"]["completion_tokens"] for r in read_jsonl(results))
    shutil.rmtree(folder)
    return tokens / seconds


with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = Process(["bash", tool("real_llama/llama.sh"), "serve", str(port), "-np", "32"], env={"MODEL": "mid"})
url = f"http://127.0.0.1:{port}/v1"
choices = {f"fixed {level}": ("--concurrency", level) for level in arguments.levels.split(",")}
choices["no option"] = ()
speeds = {name: [] for name in choices}
try:
    tokens_per_second(url, ("--limit", 32), "warm")  # while the model loads
    for number in range(arguments.rounds):
        names = list(choices)
        random.Random(number).shuffle(names)
        for name in names:
            speeds[name].append(tokens_per_second(url, choices[name], f"{number} {name}"))
            print(f"round {number + 1}  {name:10s} {speeds[name][-1]:7.1f} tokens/s", flush=True)
finally:
    server.end()
medians = {name: statistics.median(values) for name, values in speeds.items()}
best = max((value, name) for name, value in medians.items() if name != "no option")
ratio = medians["no option"] / best[0]
print(f"no option: {medians['no option']:.1f} tokens/s, {ratio:.3f} of the best, {best[1]} with {best[0]:.1f} "
      f"(wanted: {WANTED}){'  MISSED' if ratio < WANTED else ''}")
sys.exit(1 if ratio < WANTED else 0)
