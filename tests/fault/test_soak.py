"""Everything at once and for long: workers killed and stopped, the coordinator stopped, connections reset,
while jobs come, finish, are read and deleted. Afterwards the memory, descriptors and threads of the two
processes that lived through it (the coordinator, and one worker) must not have grown.

What is judged is what is allocated in small pieces, as the allocator tells it (heap_watch.cc): the resident
size goes up and down by 20 MiB as the store fills and empties its buffers, and whoever leaks an object of
100 bytes per request would need days to be seen in it. Large pieces are those buffers, the cache, and
messages under way; they must stay below their bound.

The gate runs a few seconds, which prove only that the script works:
NIGHTSHIFT_SOAK_MINUTES (0.12), NIGHTSHIFT_SOAK_CSV (a file for the figures of each second),
NIGHTSHIFT_SEED, NIGHTSHIFT_HEAP_WATCH (the library; ctest names it). The first half, of long runs the first
twelve minutes, warms up: a coordinator remembers dead workers for ten.
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

# Their backends keep their names through all deaths: a coordinator has figures of each that it has heard of.
VICTIMS = ("victim-0", "victim-1")
# Where memory is judged the store has to write its buffers out many times: the readers of a table stay in memory
# until it is merged, and one such step would look like growth.
LATENCY, CONCURRENCY, JOB = (0.1, 8, 600) if MINUTES >= 1 else (0.25, 4, 150)
# Shorter than a large piece of memory: bodies that leak are seen.
PROMPT_BYTES = 10_000
FAULT_EVERY = 3.0 if MINUTES >= 1 else 1.0  # seconds, in the mean
# A process may grow by so much of its size in an hour.
GROWTH_PER_HOUR_MAX = 0.01
# Minutes after which that is judged.
JUDGED_FROM_MINUTES = 15
WARM_UP_MINUTES = min(MINUTES / 2, 12)
# The store's write buffers (64 MiB) and cache (32), messages and answers under way.
LARGE_PIECES_MAX = 160 << 20
HEAP_WATCH = os.environ.get("NIGHTSHIFT_HEAP_WATCH")
Sample = collections.namedtuple("Sample", "at rss fds threads small large")


def descriptors(pid):
    """Open ones, without the store's tables, whose number goes up and down as they are merged."""
    count = 0
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            count += not os.readlink(f"/proc/{pid}/fd/{number}").endswith(".sst")
        except FileNotFoundError:
            pass  # closed since
    return count


def heap(path):
    """(bytes in small pieces, in large ones), as of the last second."""
    with open(path, "rb") as handle:
        handle.seek(max(0, os.fstat(handle.fileno()).st_size - 100))
        lines = handle.read().split(b"\n")
    return map(int, lines[-2].split()) if len(lines) > 1 else (0, 0)


def sample(pid, heap_file):
    with open(f"/proc/{pid}/status") as handle:
        status = dict(line.split(":", 1) for line in handle)
    return Sample(time.monotonic(), int(status["VmRSS"].split()[0]) << 10, descriptors(pid), int(status["Threads"]),
                  *(heap(heap_file) if HEAP_WATCH else (0, 0)))


class Watch:
    """Figures of each second of some processes, until `end`. `processes`: name -> (pid, heap file)."""

    def __init__(self, processes):
        self.samples = {name: [] for name in processes}
        self._csv = open(CSV or os.devnull, "w", buffering=1)
        self._processes, self._stop = processes, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(1.0):
            for name, (pid, heap_file) in self._processes.items():
                figures = sample(pid, heap_file)
                self.samples[name].append(figures)
                self._csv.write(name + "".join(f",{figure:.0f}" for figure in figures) + "\n")

    def end(self):
        self._stop.set()
        self._thread.join()
        self._csv.close()


def least(samples, what):
    """Of each minute. What is under way comes and goes, and what leaks stays."""
    return [min(getattr(figures, what) for figures in samples[start:start + 60])
            for start in range(0, len(samples) - 59, 60)]


def growth_per_hour(samples):
    """(growth, what it may be wrong by), as shares of the resident size: the line of least squares through
    the least that was in small pieces in each minute, and twice its standard error."""
    points = [(samples[60 * minute].at, small) for minute, small in enumerate(least(samples, "small"))]
    mean_at = sum(at for at, _ in points) / len(points)
    mean = sum(small for _, small in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    slope = sum((at - mean_at) * (small - mean) for at, small in points) / spread
    residue = sum((small - mean - slope * (at - mean_at)) ** 2 for at, small in points)
    error = (residue / (len(points) - 2) / spread) ** 0.5
    resident = sum(figures.rss for figures in samples) / len(samples)
    return slope * 3600 / resident, 2 * error * 3600 / resident


class Soak(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        if not HEAP_WATCH:
            print("SKIPPED LOUDLY: without NIGHTSHIFT_HEAP_WATCH nothing is said of memory", file=sys.stderr)
        self.fleet = Fleet(self, LATENCY, CONCURRENCY, prompt_bytes=PROMPT_BYTES, env=self.heap_env("coordinator"))
        self.fleet.tries = 4  # a command gives up after 3 s, and the coordinator stands still for 7
        self.proxy = TcpProxy(self.fleet.address)
        self.addCleanup(self.proxy.close)
        self.died_at = collections.defaultdict(list)
        self.faults = collections.Counter()

    # Without caches of threads, in which what has been freed counts as allocated and which grow for hours.
    def heap_env(self, name):
        return {"LD_PRELOAD": HEAP_WATCH, "NIGHTSHIFT_HEAP_FILE": self.path(f"heap-{name}"),
                "MALLOC_CONF": "tcache:false,dirty_decay_ms:0,muzzy_decay_ms:0"} if HEAP_WATCH else None

    def pause(self, process, seconds):
        process.send(signal.SIGSTOP)
        time.sleep(seconds)
        process.send(signal.SIGCONT)

    def something_happens(self):
        what = self.rng.choice(["kill a worker", "kill a worker", "reset", "reset", "stop the worker", "stop a victim",
                                "stop the coordinator", "partition"])
        self.faults[what] += 1
        if what == "kill a worker":
            name = self.rng.choice(VICTIMS)
            self.died_at[name].append(now())
            self.fleet.kill_worker(name)
            time.sleep(self.rng.uniform(0, 1))
            self.fleet.start_worker(name)
        elif what == "reset":
            self.proxy.reset()
        elif what == "stop the worker":
            self.pause(self.steady, self.rng.choice([1, 4, 11]) if MINUTES >= 1 else 1)
        elif what == "stop a victim":
            self.pause(self.fleet.workers[self.rng.choice(VICTIMS)], 2)
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
        self.steady = self.fleet.start_worker("steady", address=self.proxy.address, env=self.heap_env("worker"))
        for name in VICTIMS:
            self.fleet.start_worker(name)
        self.finished, self.problem = 0, None
        watch = Watch({"coordinator": (self.fleet.coordinator.pid, self.path("heap-coordinator")),
                       "worker": (self.steady.pid, self.path("heap-worker"))})
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
            late = [s for s in samples if s.at > began + WARM_UP_MINUTES * 60]
            half = len(late) // 2
            if HEAP_WATCH and len(late) >= 300:
                verdicts.append((name, *growth_per_hour(late), late[:half], late[half:]))
            rows.append((name, f"resident {late[0].rss >> 20} to {late[-1].rss >> 20} MiB, in small pieces "
                         f"{late[0].small >> 10} to {late[-1].small >> 10} KiB, in large ones up to "
                         f"{max(s.large for s in late) >> 20} MiB, descriptors up to "
                         f"{max(s.fds for s in late)}, threads up to {max(s.threads for s in late)}"))
        for name, growth, error, _, _ in verdicts:
            rows.append((f"growth of the {name}", f"{growth:+.1%} ± {error:.1%} per hour"))
        print(table("soak", rows), file=sys.stderr)
        for name, growth, error, early, late in verdicts:
            self.assertLess(max(s.large for s in early + late), LARGE_PIECES_MAX, name)
            if MINUTES < JUDGED_FROM_MINUTES:
                continue
            self.assertLess(growth + error, GROWTH_PER_HOUR_MAX, f"the {name} may grow")
            for what in ("fds", "threads"):
                self.assertLessEqual(max(least(late, what)), max(least(early, what)) + 1, f"{what} of the {name}")


if __name__ == "__main__":
    unittest.main()
