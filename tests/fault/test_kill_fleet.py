"""kill -9, counted: the coordinator, workers, both at once, while a large job runs, a clerk hands in
small ones and another client reads results. What was acknowledged to a client is kept, every request
has one outcome, and the backend's log shows how soon work goes on and what was called twice.

Sizes come from the environment; these are the gate's:
NIGHTSHIFT_FLEET_REQUESTS (2000 per job), NIGHTSHIFT_COORDINATOR_KILLS (2), NIGHTSHIFT_WORKER_KILLS (3),
NIGHTSHIFT_BOTH_KILLS (1), NIGHTSHIFT_KILLS_PER_JOB (25), NIGHTSHIFT_QUIET_KILLS (1), NIGHTSHIFT_SEED.
"""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fleet import Fleet, by_key, clerk, now, split_repeats, table, waits_after_death
from nightshift_testing import TestCase

REQUESTS = int(os.environ.get("NIGHTSHIFT_FLEET_REQUESTS", "2000"))
COORDINATOR_KILLS = int(os.environ.get("NIGHTSHIFT_COORDINATOR_KILLS", "2"))
WORKER_KILLS = int(os.environ.get("NIGHTSHIFT_WORKER_KILLS", "3"))
BOTH_KILLS = int(os.environ.get("NIGHTSHIFT_BOTH_KILLS", "1"))
QUIET_KILLS = int(os.environ.get("NIGHTSHIFT_QUIET_KILLS", "1"))
KILLS_PER_JOB = int(os.environ.get("NIGHTSHIFT_KILLS_PER_JOB", "25"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))

LATENCY = 0.12
SLOTS = 36  # of all workers: 300 calls a second
# From the start of a coordinator to the first call of new work, seconds.
DISPATCH_WITHIN = 5.0
# From the death of a worker, which its connection tells, to its requests being called by others.
LEASED_AGAIN_WITHIN = 10.0
# Of a job: calls made although an earlier one was answered, and its worker lived on or left a spool.
REPEATED_MAX = 0.01
# A job with less work left than for so long, seconds, is left to finish: the next kill waits for up to 1.5 and
# what it killed is away for half a second, and then there must still be work.
WORK_LEFT = 4.0
# Of a job in the middle of which one worker dies: it outlasts the wait.
QUIET_SECONDS = 12
# How long a worker stays away that nobody starts again soon: until its requests are with others.
AWAY = 12.0


class KilledFleet(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.fleet = Fleet(self, LATENCY, SLOTS // 3)
        self.died_at = {}
        self.generation = 0
        self.large = []  # ids of the large jobs
        self.kills_of_job = 0

    # --- work -------------------------------------------------------------------------------------
    def keep_work_there(self):
        """A large job that is not done soon; the one before is checked."""
        if self.large and self.kills_of_job < KILLS_PER_JOB:
            counts = self.fleet.status(self.large[-1])["counts"]
            if counts["pending"] > WORK_LEFT * SLOTS / LATENCY:
                return
        if self.large:
            self.fleet.check_job(self.large[-1])
        self.large.append(self.fleet.submit(REQUESTS)[0])
        self.kills_of_job = 0

    def read_now_and_then(self, kill):
        if kill % 5 == 0:
            self.fleet.read_results(self.large[-1])

    def new_worker(self, slot, told_name, folder):
        """A process whose calls the log tells from its predecessors'."""
        self.generation += 1
        name = f"{slot}-{self.generation}"
        self.fleet.start_worker(name, told_name, folder)
        return name

    def kill_worker(self, name):
        self.died_at[name] = now()
        self.fleet.kill_worker(name)

    def first_call(self, names, began):
        """How long from `began` to the first call of any of these workers."""
        backend = self.fleet.backend

        def called():
            backend.calls()
            return any(name in backend.first_call for name in names)
        self.eventually(called, "a call of new work after the restart", timeout=30)
        return min(backend.first_call[name] for name in names if name in backend.first_call) - began

    # --- the end ----------------------------------------------------------------------------------
    def check_everything(self, title, kills, submissions, rows):
        for job in list(self.fleet.ledger.jobs):
            self.fleet.check_job(job)
        self.fleet.audit()
        groups = by_key(self.fleet.backend.calls())
        promised = {custom_id for ids in self.fleet.ledger.jobs.values() for custom_id in ids}
        self.assertEqual(promised - set(groups), set(), "never called")
        lost, again = split_repeats(groups, self.died_at)
        share = len(again) / len(groups)
        print(table(title, [
            ("kills", kills), ("large jobs", f"{len(self.large)} of {REQUESTS} requests"),
            ("submissions of the clerk", f"{len(submissions)}, {submissions.count(0)} acknowledged"),
            ("outcomes read and compared", len(self.fleet.ledger.outcomes)),
            ("requests, calls", f"{len(groups)}, {sum(map(len, groups.values()))}"),
            ("called again, lost with a worker", len(lost)),
            ("called again though answered", f"{len(again)} ({share:.3%})"), *rows]), file=sys.stderr)
        self.assertLessEqual(share, REPEATED_MAX)
        self.assertGreater(submissions.count(0), 0, "no submission of the clerk was acknowledged")
        return groups, again

    # A worker that comes with empty hands can call only what the new coordinator has leased to it.
    def test_coordinator_killed_again_and_again(self):
        for slot in range(3):
            self.fleet.start_worker(f"w{slot}")
        dispatch, empty_handed = [], None
        with clerk(self.fleet) as submissions:
            for kill in range(COORDINATOR_KILLS):
                self.keep_work_there()
                time.sleep(self.rng.uniform(0.1, 1.2))
                if empty_handed is not None:
                    self.assertEqual(self.fleet.workers.pop(empty_handed).end(), 0)
                self.fleet.coordinator.kill()
                self.kills_of_job += 1
                time.sleep(self.rng.uniform(0, 0.5))
                began = now()
                self.fleet.start_coordinator()
                empty_handed = f"empty-{kill}"
                self.fleet.start_worker(empty_handed, options=("--spool-dir", "none"))
                dispatch.append(self.first_call([empty_handed], began))
                self.read_now_and_then(kill)
        _, again = self.check_everything("coordinator killed", COORDINATOR_KILLS, submissions,
                                         [("slowest dispatch after a restart", f"{max(dispatch):.2f} s")])
        self.assertEqual(again, [], "the workers lived, and held every answer")
        self.assertLessEqual(max(dispatch), DISPATCH_WITHIN)

    def test_workers_killed_again_and_again(self):
        self.fleet.concurrency = SLOTS // 6
        living = {slot: self.new_worker(f"w{slot}", f"w{slot}", f"w{slot}") for slot in range(6)}
        away = []  # (when to start, slot, name to be told)
        with clerk(self.fleet) as submissions:
            for kill in range(WORKER_KILLS):
                self.keep_work_there()
                time.sleep(self.rng.uniform(0.3, 1.5))
                while away and (min(away)[0] <= time.monotonic() or len(living) < 3):
                    due = min(away)
                    away.remove(due)
                    time.sleep(max(0, due[0] - time.monotonic()))
                    living[due[1]] = self.new_worker(f"w{due[1]}", due[2], f"w{due[1]}")
                slot = self.rng.choice(sorted(living))
                self.kill_worker(living.pop(slot))
                self.kills_of_job += 1
                if self.rng.random() < 0.7:  # a supervisor starts it at once
                    away.append((time.monotonic() + self.rng.uniform(0, 1), slot, f"w{slot}"))
                else:  # its machine is away, and is another one when it comes back
                    away.append((time.monotonic() + AWAY, slot, f"w{slot}-after-{kill}"))
                self.read_now_and_then(kill)
            for _, slot, told_name in away:
                self.new_worker(f"w{slot}", told_name, f"w{slot}")
        self.check_everything("workers killed", WORKER_KILLS, submissions, [])

    # Nobody else dies, and nothing that is lost has been lost before: a request whose workers die one after
    # the other is tried with care, and waits for a worker that has lived for a while.
    def test_requests_of_a_dead_worker_are_soon_with_others(self):
        living = [self.new_worker(f"w{slot}", f"w{slot}", f"w{slot}") for slot in range(3)]
        waits = []
        for kill in range(QUIET_KILLS):
            job, ids = self.fleet.submit(int(SLOTS / LATENCY * QUIET_SECONDS))
            ids = set(ids)
            self.eventually(lambda: {c["worker"] for c in self.fleet.backend.calls() if c["key"] in ids} >= set(living),
                            "a call from every worker")
            time.sleep(self.rng.uniform(0.2, 1.0))
            victim = living.pop(self.rng.randrange(len(living)))
            self.kill_worker(victim)
            # Its machine is away, and another one comes instead.
            living.append(self.new_worker(f"x{kill}", f"x{kill}", f"x{kill}"))
            self.fleet.check_job(job)
            lost = waits_after_death(by_key(self.fleet.backend.calls()), victim, self.died_at[victim])
            self.assertGreater(len(lost), 0, "the kill has met no call")
            waits += lost
        self.fleet.audit()
        print(table("workers killed one by one", [
            ("kills", QUIET_KILLS), ("requests in a call at a death", len(waits)),
            ("leased again, slowest", f"{max(waits):.2f} s")]), file=sys.stderr)
        self.assertLessEqual(max(waits), LEASED_AGAIN_WITHIN)

    def test_coordinator_and_workers_killed_at_once(self):
        living = {slot: self.new_worker(f"w{slot}", f"w{slot}", f"w{slot}") for slot in range(3)}
        dispatch = []
        with clerk(self.fleet) as submissions:
            for kill in range(BOTH_KILLS):
                self.keep_work_there()
                time.sleep(self.rng.uniform(0.3, 1.5))
                slots = sorted(living) if kill % 2 == 0 else [self.rng.choice(sorted(living))]
                victims = [self.fleet.coordinator.kill] + [lambda slot=slot: self.kill_worker(living.pop(slot))
                                                           for slot in slots]
                self.rng.shuffle(victims)
                for die in victims:
                    die()
                self.kills_of_job += 1
                time.sleep(self.rng.uniform(0, 0.5))
                began = now()
                self.fleet.start_coordinator()
                for slot in slots:
                    living[slot] = self.new_worker(f"w{slot}", f"w{slot}", f"w{slot}")
                dispatch.append(self.first_call([living[slot] for slot in slots], began))
                self.read_now_and_then(kill)
        self.check_everything("both killed at once", BOTH_KILLS, submissions,
                              [("slowest dispatch after a restart", f"{max(dispatch):.2f} s")])
        self.assertLessEqual(max(dispatch), DISPATCH_WITHIN)


if __name__ == "__main__":
    unittest.main()
