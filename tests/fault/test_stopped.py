"""Processes that stand still for longer than their leases live (SIGSTOP) and then go on as if nothing had
been. A woken worker must call for nothing that others have by now; a woken coordinator must give
nothing away that living workers hold. Each worker has its own path at the backend, whose log tells
who called when.

Sizes come from the environment; these are the gate's:
NIGHTSHIFT_WORKER_STOPS (2), NIGHTSHIFT_COORDINATOR_STOPS (1), NIGHTSHIFT_STOPPED_AT_ONCE (2, of three more
workers than that), NIGHTSHIFT_STOP_LEASE_TTL (3, seconds), NIGHTSHIFT_SEED.
"""
import os
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fleet import Fleet, by_key, now, table
from nightshift_testing import TestCase

WORKER_STOPS = int(os.environ.get("NIGHTSHIFT_WORKER_STOPS", "2"))
COORDINATOR_STOPS = int(os.environ.get("NIGHTSHIFT_COORDINATOR_STOPS", "1"))
AT_ONCE = int(os.environ.get("NIGHTSHIFT_STOPPED_AT_ONCE", "2"))
LEASE_TTL = int(os.environ.get("NIGHTSHIFT_STOP_LEASE_TTL", "3"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))

LATENCY = 0.4
CONCURRENCY = 6
# The coordinator takes notice of its own pauses from five seconds on; a lease of less than half of that
# would lapse in one that it does not notice.
STOP = 2.0 * LEASE_TTL
# From the end of a call to the coordinator's having its answer, seconds; a worker stopped in between
# could not deliver it.
DELIVERED_WITHIN = 2.0
# From a stop to the backend's noting the last call that was sent before it: who stands still sends none.
NOTED_WITHIN = STOP / 2


class Stopped(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.fleet = Fleet(self, LATENCY, CONCURRENCY, "--lease-ttl", f"{LEASE_TTL}s")

    def start_workers(self, count):
        for number in range(count):
            self.fleet.start_worker(f"w{number}")

    def submit_for(self, seconds):
        """A job that keeps all workers busy for so long, about."""
        return self.fleet.submit(int(len(self.fleet.workers) * CONCURRENCY / LATENCY * seconds))[0]

    def everybody_calls(self, job):
        ids = set(self.fleet.ledger.jobs[job])

        def called():
            callers = {call["worker"] for call in self.fleet.backend.calls() if call["key"] in ids}
            return callers >= set(self.fleet.workers)
        self.eventually(called, "a call from every worker")

    # A call that was under way when its worker was stopped is nobody's fault: others call again, and its
    # answer is worth money if it is the first. Any other second call is one for a request that its
    # worker, or the one before, had lost and did not know it.
    # `naps`: worker -> [(before the signal to stop was sent, after it)].
    def calls_for_lost_requests(self, groups, naps):
        found = []
        for group in groups.values():
            for call, following in zip(group, group[1:]):
                if any(call["started"] <= sent + NOTED_WITHIN and begun < call["ended"] + DELIVERED_WITHIN
                       for begun, sent in naps.get(call["worker"], ())):
                    continue
                found.append(f"{call['key']}: {call['worker']} at {call['started']:.2f}, {following['worker']} "
                             f"{following['started'] - call['started']:.2f} s later")
        return found

    def test_a_woken_worker_calls_for_nothing_that_it_has_lost(self):
        self.start_workers(AT_ONCE + 3)
        stops, naps, under_way = 0, {}, 0
        while stops < WORKER_STOPS:
            victims = self.rng.sample(sorted(self.fleet.workers), min(AT_ONCE, WORKER_STOPS - stops))
            job = self.submit_for(STOP + 4)
            self.everybody_calls(job)
            time.sleep(self.rng.uniform(0.2, 1.0))
            for name in victims:
                begun = now()
                self.fleet.workers[name].send(signal.SIGSTOP)
                naps.setdefault(name, []).append((begun, now()))
                time.sleep(self.rng.uniform(0, 0.3))
            time.sleep(STOP)
            self.fleet.read_results(job)
            for name in victims:
                self.fleet.workers[name].send(signal.SIGCONT)
            stops += len(victims)
            self.fleet.check_job(job)
        self.fleet.audit()
        groups = by_key(self.fleet.backend.calls())
        for group in groups.values():
            under_way += sum(call["started"] < begun <= call["ended"] for call in group
                             for begun, _ in naps.get(call["worker"], ()))
        lost = self.calls_for_lost_requests(groups, naps)
        told = sum("did not run for" in line for worker in self.fleet.workers.values() for line in worker.err)
        print(table("workers stopped and woken", [
            ("stops", f"{stops}, of {STOP:g} s with a lease of {LEASE_TTL} s"), ("requests", len(groups)),
            ("calls under way at a stop", under_way),
            ("requests called more than once", sum(len(group) > 1 for group in groups.values())),
            ("workers that noticed", told), ("calls for what had been lost", len(lost))]), file=sys.stderr)
        self.assertGreater(under_way, 0, "no stop has met a call")
        self.assertEqual(lost, [])

    # The workers went on with what they had, and say so: nothing is called a second time.
    def test_a_woken_coordinator_gives_nothing_away(self):
        self.start_workers(3)
        for _ in range(COORDINATOR_STOPS):
            job = self.submit_for(8)
            self.everybody_calls(job)
            time.sleep(self.rng.uniform(0.1, 2.0))
            self.fleet.coordinator.send(signal.SIGSTOP)
            time.sleep(STOP)
            self.fleet.coordinator.send(signal.SIGCONT)
            self.fleet.check_job(job)
        self.fleet.audit()
        groups = by_key(self.fleet.backend.calls())
        repeated = [key for key, group in groups.items() if len(group) > 1]
        print(table("coordinator stopped and woken", [
            ("stops", f"{COORDINATOR_STOPS}, of {STOP:g} s with a lease of {LEASE_TTL} s"), ("requests", len(groups)),
            ("requests called more than once", len(repeated))]), file=sys.stderr)
        self.assertEqual(repeated, [])


if __name__ == "__main__":
    unittest.main()
