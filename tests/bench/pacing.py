#!/usr/bin/env python3
"""How close a job comes to what limits per minute allow, and how often it is refused.

    pacing.py [--program build/release/nightshift] [--requests 5000] [--seconds 60] [NAME…]

The backend is `sim-server --profile cerebras`. Its limits are chosen so that the lower bound (the
work beyond the first full bucket, at the rate of the limit) is about --seconds; the makespan is taken
from the server's own log, from the first call to the end of the last.
"""
import argparse
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
parser.add_argument("--requests", type=int, default=5000)
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("names", nargs="*", help="scenarios, by a part of their name; all when none is given")
arguments = parser.parse_args()
os.environ["NIGHTSHIFT_PROGRAM"] = os.path.abspath(arguments.program)

from pacing import SCENARIOS, scenario  # noqa: E402  (the program must be known first)

missed = False
for name, (_, headers, _) in SCENARIOS.items():
    if arguments.names and not any(part in name for part in arguments.names):
        continue
    folder = tempfile.mkdtemp(prefix="nightshift-pacing-")
    outcome = scenario(name, folder, arguments.requests, arguments.seconds)
    shutil.rmtree(folder)
    ratio, refusals = (1.03, 3) if headers else (1.10, None)
    wanted = f"wanted: {ratio}" + (f", {refusals} refusals" if refusals is not None else "")
    bad = (outcome.ratio > ratio or outcome.failed or outcome.attempts_max > 1 or
           (refusals is not None and outcome.refusals > refusals))
    missed = missed or bad
    print(f"{name:34s} {outcome}   ({wanted}){'  MISSED' if bad else ''}", flush=True)
sys.exit(1 if missed else 0)
