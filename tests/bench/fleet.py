#!/usr/bin/env python3
"""How long a job takes on fleets of known speed, beside the lower bound: a coordinator, four workers,
four servers (tests/support/timed_backend.py), all processes of their own, no options.

    fleet.py [--program build/release/nightshift] [--seconds 60] [unequal] [slowing] [stragglers]

unequal      one server is fifteen times as fast as each of the three others
slowing      four equal ones, of which one slows to a tenth in the middle
stragglers   four equal ones; 0.5 % of the requests take 20 times as long in the server that gets them
             first (any but the last server, where none straggles)

The lower bound is all work divided by all slots, straggling left aside; --seconds is about how long it
is. Work is log-normal with a coefficient of variation of 1. Makespans are from the servers' logs, from
the first call to the end of the last; every request must be answered once, and copies are counted there.
"""
import argparse
import collections
import json
import math
import os
import random
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("names", nargs="*")
arguments = parser.parse_args()
os.environ["NIGHTSHIFT_PROGRAM"] = os.path.abspath(arguments.program)

from nightshift_testing import Coordinator, Process, Worker, read_jsonl, run  # noqa: E402  (the program first)

SLOTS = 32


class Timed(Process):
    def __init__(self, log, *options):
        self.log = log
        super().__init__([sys.executable, os.path.join(HERE, "..", "support", "timed_backend.py"), "--slots",
                          str(SLOTS), "--log", log, *map(str, options)])
        self.url = self.wait_for(r"listening on (http://\S+)").group(1) + "/v1"


def works(mean, total, rng):
    """Until `total` seconds of work are together."""
    sigma = math.sqrt(math.log(2))
    made, done = [], 0.0
    while done < total:
        made.append(rng.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma))
        done += made[-1]
    return made


def bound(work, servers):
    """The least time for so much work: servers are (speed, slows after, by)."""
    now = 0.0
    for change in sorted({after for _, after, _ in servers}) + [math.inf]:
        capacity = sum(SLOTS * speed / (by if now >= after else 1) for speed, after, by in servers)
        if work <= capacity * (change - now):
            return now + work / capacity
        work -= capacity * (change - now)
        now = change


def measure(name, servers, mean, wanted, straggler_share=0.0):
    folder = tempfile.mkdtemp(prefix="nightshift-fleet-")
    rng = random.Random(11)
    work = works(mean, arguments.seconds * sum(SLOTS * speed for speed, _, _ in servers), rng)
    source = os.path.join(folder, "in.jsonl")
    with open(source, "w") as out:
        for i, one in enumerate(work):
            straggler = " straggler" if rng.random() < straggler_share else ""
            out.write(json.dumps({"custom_id": f"r{i}", "model": "m",
                                  "prompt": f"name=r{i} work={one:.4f}{straggler}"}) + "\n")
    processes = []
    coordinator = Coordinator(os.path.join(folder, "data"))
    backends = []
    for i, (speed, after, by) in enumerate(servers):
        options = ["--speed", speed, "--slow-after", after, "--slower", by]
        if straggler_share and i < len(servers) - 1:
            options += ["--straggle", 20]
        backends.append(Timed(os.path.join(folder, f"{i}.log"), *options))
        processes.append(Worker(coordinator.address, backends[-1].url, "--name", f"w{i}"))
    results = os.path.join(folder, "out.jsonl")
    code, _, text = run("submit", source, "--coordinator", coordinator.address, "--wait", "-o", results, timeout=3600)
    if code != 0:
        raise SystemExit(f"{name}: exit code {code}\n{text}")
    calls = [call for backend in backends for call in read_jsonl(backend.log)]
    for process in processes + backends + [coordinator]:
        process.end()
    outcomes = [line["custom_id"] for line in read_jsonl(results)]
    if sorted(outcomes) != sorted(f"r{i}" for i in range(len(work))):
        raise SystemExit(f"{name}: not every request has one outcome")
    shutil.rmtree(folder)
    per_request = collections.Counter(call["name"] for call in calls)
    copies = sum(count - 1 for count in per_request.values())
    seconds = max(call["end"] for call in calls) - min(call["begin"] for call in calls)
    ratio = seconds / bound(sum(work), servers)
    bad = ratio > wanted or copies > len(work) / 100
    print(f"{name:11s} {len(work)} requests, {seconds:6.1f} s, {ratio:.3f} of the lower bound (wanted: {wanted}), "
          f"{copies} copies{'  MISSED' if bad else ''}", flush=True)
    return bad


EQUAL = [(1, 1e9, 1)] * 4
SCENARIOS = {
    "unequal": lambda: measure("unequal", [(15, 1e9, 1)] + [(1, 1e9, 1)] * 3, 3, 1.15),
    "slowing": lambda: measure("slowing", EQUAL[:3] + [(1, arguments.seconds / 2, 10)], 0.8, 1.20),
    "stragglers": lambda: measure("stragglers", EQUAL, 0.8, 1.25, 0.005),
}
missed = [SCENARIOS[name]() for name in arguments.names or SCENARIOS]
sys.exit(1 if any(missed) else 0)
