"""Everything at once and for long: workers killed and stopped, the coordinator stopped, connections reset,
while jobs come, finish, are read and deleted. Afterwards the memory, descriptors and threads of the two
processes that lived through it (the coordinator, and one worker) must not have grown.

The gate runs a few seconds, which prove only that the script works:
NIGHTSHIFT_SOAK_MINUTES (0.12), NIGHTSHIFT_SOAK_CSV (a file for the figures of each second),
NIGHTSHIFT_SEED. The first third warms up: buffers and caches have their bounds to reach.
"""
import collections
import os
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fleet import Fleet, by_key, now, split_repeats, table
from nightshift_testing import TestCase
from tcp_proxy import TcpProxy

MINUTES = float(os.environ.get("NIGHTSHIFT_SOAK_MINUTES", "0.12"))
CSV = os.environ.get("NIGHTSHIFT_SOAK_CSV")
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))

LATENCY = 0.25
CONCURRENCY = 4
JOB = 150
# A prompt is so long, so that the store's buffers fill during the warm-up.
PROMPT_BYTES = 20_000
FAULT_EVERY = 3.0 if MINUTES >= 1 else 1.0  # seconds, in the mean
# A process may grow by so much of its size in an hour.
GROWTH_PER_HOUR_MAX = 0.01
# Minutes after which that is judged. The coordinator's store has 64 MiB of write buffers and 32 MiB of
# cache to fill first, which takes this load about an hour.
JUDGED_FROM_MINUTES = {"worker": 15, "coordinator": 180}
# What is freed goes back to the kernel at once, or the resident size would be that of the worst second.
os.environ.update({"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"})
Sample = collections.namedtuple("Sample", "at rss fds threads")


def descriptors(pid):
    """Open ones, without the store's tables, whose number goes up and down as they are merged."""
    count = 0
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            count += not os.readlink(f"/proc/{pid}/fd/{number}").endswith(".sst")
        except FileNotFoundError:
            pass  # closed since
    return count


def sample(pid):
    with open(f"/proc/{pid}/status") as handle:
        status = dict(line.split(":", 1) for line in handle)
    return Sample(time.monotonic(), int(status["VmRSS"].split()[0]) << 10, descriptors(pid), int(status["Threads"]))


class Watch:
    """Figures of each second of some processes, until `end`."""

    def __init__(self, pids):
        self.samples = {name: [] for name in pids}
        self._csv = open(CSV or os.devnull, "w", buffering=1)
        self._pids, self._stop = pids, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(1.0):
            for name, pid in self._pids.items():
                figures = sample(pid)
                self.samples[name].append(figures)
                self._csv.write(f"{name},{figures.at:.0f},{figures.rss},{figures.fds},{figures.threads}\n")

    def end(self):
        self._stop.set()
        self._thread.join()
        self._csv.close()


def growth_per_hour(samples):
    """(growth, what it may be wrong by), as shares of the resident size: the line of least squares through
    the least size of each minute, and twice its standard error. The least, since the store's write buffers
    fill and are given back, 20 MiB up and down within minutes, and what leaks stays."""
    points = []
    for start in range(0, len(samples) - 59, 60):
        points.append((samples[start].at, min(figures.rss for figures in samples[start:start + 60])))
    mean_at = sum(at for at, _ in points) / len(points)
    mean_rss = sum(rss for _, rss in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    slope = sum((at - mean_at) * (rss - mean_rss) for at, rss in points) / spread
    residue = sum((rss - mean_rss - slope * (at - mean_at)) ** 2 for at, rss in points)
    error = (residue / (len(points) - 2) / spread) ** 0.5
    return slope * 3600 / mean_rss, 2 * error * 3600 / mean_rss


class Soak(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.fleet = Fleet(self, LATENCY, CONCURRENCY, prompt_bytes=PROMPT_BYTES)
        self.fleet.tries = 4  # a command gives up after 3 s, and the coordinator stands still for 7
        self.proxy = TcpProxy(self.fleet.address)
        self.addCleanup(self.proxy.close)
        self.died_at = {}
        self.faults = collections.Counter()
        self.generation = 0
        self.victims = []

    def new_victim(self, slot):
        self.generation += 1
        name = f"victim-{slot}-{self.generation}"
        self.fleet.start_worker(name, f"victim-{slot}", f"victim-{slot}")
        self.victims.append((name, slot))

    def pause(self, process, seconds):
        process.send(signal.SIGSTOP)
        time.sleep(seconds)
        process.send(signal.SIGCONT)

    def something_happens(self):
        what = self.rng.choice(["kill a worker", "kill a worker", "reset", "reset", "stop the worker", "stop a victim",
                                "stop the coordinator", "partition"])
        self.faults[what] += 1
        if what == "kill a worker":
            name, slot = self.victims.pop(self.rng.randrange(len(self.victims)))
            self.died_at[name] = now()
            self.fleet.kill_worker(name)
            time.sleep(self.rng.uniform(0, 1))
            self.new_victim(slot)
        elif what == "reset":
            self.proxy.reset()
        elif what == "stop the worker":
            self.pause(self.steady, self.rng.choice([1, 4, 11]) if MINUTES >= 1 else 1)
        elif what == "stop a victim":
            self.pause(self.fleet.workers[self.rng.choice(self.victims)[0]], 2)
        elif what == "stop the coordinator":
            self.pause(self.fleet.coordinator, self.rng.choice([0.5, 2, 7]) if MINUTES >= 1 else 0.5)
        else:
            self.proxy.hold()
            time.sleep(self.rng.uniform(0.5, 2))
            self.proxy.release()

    def jobs_come_and_go(self, until):
        while time.monotonic() < until:
            job, _ = self.fleet.submit(JOB)
            self.fleet.check_job(job)
            self.fleet.run("delete", job, "--yes")
            self.finished += 1

    def run_clients(self, until):
        try:
            self.jobs_come_and_go(until)
        except BaseException as problem:  # told by the main thread
            self.problem = problem

    def test_mixed_faults(self):
        self.steady = self.fleet.start_worker("steady", address=self.proxy.address)
        for slot in range(2):
            self.new_victim(slot)
        self.finished, self.problem = 0, None
        watch = Watch({"coordinator": self.fleet.coordinator.pid, "worker": self.steady.pid})
        began = time.monotonic()
        until = began + MINUTES * 60
        clients = threading.Thread(target=self.run_clients, args=(until,), daemon=True)
        clients.start()
        while time.monotonic() < until and self.problem is None:
            time.sleep(self.rng.expovariate(1 / FAULT_EVERY))
            self.something_happens()
        clients.join(120)
        watch.end()
        if self.problem is not None:
            raise self.problem
        self.assertFalse(clients.is_alive(), "the last job does not end")
        self.fleet.audit()
        _, again = split_repeats(by_key(self.fleet.backend.calls()), self.died_at)
        rows = [("minutes", MINUTES), ("faults", dict(self.faults)), ("jobs finished, read, deleted", self.finished),
                ("calls", len(self.fleet.backend.calls())), ("called again though answered", len(again))]
        verdicts = []
        for name, samples in watch.samples.items():
            late = [s for s in samples if s.at > began + MINUTES * 20]
            half = len(late) // 2
            if len(late) >= 300:
                verdicts.append((name, *growth_per_hour(late), late[:half], late[half:]))
            rows.append((name, f"RSS {late[0].rss >> 20} to {late[-1].rss >> 20} MiB, descriptors up to "
                         f"{max(s.fds for s in late)}, threads up to {max(s.threads for s in late)}"))
        for name, growth, error, _, _ in verdicts:
            rows.append((f"growth of the {name}", f"{growth:+.1%} ± {error:.1%} per hour"))
        print(table("soak", rows), file=sys.stderr)
        for name, growth, error, early, late in verdicts:
            if MINUTES < JUDGED_FROM_MINUTES[name]:
                continue
            self.assertLess(growth - error, GROWTH_PER_HOUR_MAX, f"the {name} grows for certain")
            for what in ("fds", "threads"):
                self.assertLessEqual(max(getattr(s, what) for s in late), max(getattr(s, what) for s in early) + 1,
                                     f"{what} of the {name}")


if __name__ == "__main__":
    unittest.main()
