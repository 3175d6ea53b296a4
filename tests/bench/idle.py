#!/usr/bin/env python3
"""What a coordinator costs that has nothing to do: CPU and memory with a thousand idle workers.

    idle.py [--program build/release/nightshift] [--workers 1000] [--seconds 30]

The workers are `idle_workers` (cmake --build --preset release --target idle_workers): the real worker
core and link, a connection each, without backends. Twice: without rate limits, and with all workers
on one account with a limit, when each report is answered with a share.
"""
import argparse
import os
import resource
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
CORE_SHARE_MAX = 0.05

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "nightshift"))
parser.add_argument("--fleet", help="default: tests/bench/idle_workers beside the program")
parser.add_argument("--workers", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=30)
arguments = parser.parse_args()
os.environ["NIGHTSHIFT_PROGRAM"] = os.path.abspath(arguments.program)

from nightshift_testing import Coordinator, Process, run  # noqa: E402  (the program must be known first)


def cpu_seconds(pid):
    """User and system time."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


fleet = arguments.fleet or os.path.join(os.path.dirname(os.environ["NIGHTSHIFT_PROGRAM"]), "tests", "bench",
                                        "idle_workers")
# Two descriptors for each connection are far below the hard limit.
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
missed = False
for name, account in (("no limits", []), ("one account", ["an-account"])):
    folder = tempfile.mkdtemp(prefix="nightshift-idle-")
    coordinator = Coordinator(os.path.join(folder, "data"))
    workers = Process([fleet, coordinator.address, str(arguments.workers), *account])
    try:
        workers.wait_for("workers are connected")
        time.sleep(3)  # the first reports
        cpu, begun = cpu_seconds(coordinator.pid), time.monotonic()
        time.sleep(arguments.seconds)
        share = (cpu_seconds(coordinator.pid) - cpu) / (time.monotonic() - begun)
        memory = memory_mib(coordinator.pid)
        code, out, err = run("workers", "--coordinator", coordinator.address, "--json")
        seen = out.count('"idle-') if code == 0 else err
        missed = missed or share >= CORE_SHARE_MAX
        print(f"{name:12s} {arguments.workers} idle workers: {100 * share:.1f} % of a core, {memory:.0f} MiB; "
              f"names in `workers`: {seen}   (wanted: {100 * CORE_SHARE_MAX:g} %)"
              f"{'  MISSED' if share >= CORE_SHARE_MAX else ''}", flush=True)
    finally:
        workers.kill()
        coordinator.kill()
        shutil.rmtree(folder)
sys.exit(1 if missed else 0)
