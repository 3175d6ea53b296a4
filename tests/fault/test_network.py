"""What a network can do between a worker or a client and the coordinator: hold everything for a while,
lose one side without a word, be slow, reset connections. A proxy does it; the backend's log tells what
it has cost. (Ten minutes of partition, and messages that arrive twice or out of order, which TCP
rules out, are the simulation's.)

Quick cases run always; NIGHTSHIFT_NETWORK_LONG=1 adds those that wait for time-outs of half a minute.
NIGHTSHIFT_RESETS (4), NIGHTSHIFT_SEED.
"""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from fleet import Fleet, by_key, now, split_repeats, table, waits_after_death
from nightshift_testing import PROGRAM, Process, TestCase
from tcp_proxy import TcpProxy

LONG = os.environ.get("NIGHTSHIFT_NETWORK_LONG") == "1"
RESETS = int(os.environ.get("NIGHTSHIFT_RESETS", "4"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))

LATENCY = 0.3
CONCURRENCY = 6
# A peer that says nothing is noticed, seconds.
DETECTED_WITHIN = 20.0
# The requests of a worker whose machine is gone without a word are in calls again, seconds.
LEASED_AGAIN_WITHIN = 35.0
slow = unittest.skipUnless(LONG, "NIGHTSHIFT_NETWORK_LONG=1 runs it")


class Network(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.fleet = Fleet(self, LATENCY, CONCURRENCY)
        self.proxy = TcpProxy(self.fleet.address)
        self.addCleanup(self.proxy.close)

    def far_and_near(self):
        """One worker behind the proxy, one beside the coordinator."""
        self.far = self.fleet.start_worker("far", address=self.proxy.address)
        self.near = self.fleet.start_worker("near")

    def submit_for(self, seconds):
        return self.fleet.submit(int(len(self.fleet.workers) * CONCURRENCY / LATENCY * seconds))[0]

    def everybody_calls(self):
        def called():
            self.fleet.backend.calls()
            return set(self.fleet.backend.first_call) >= set(self.fleet.workers)
        self.eventually(called, "a call from every worker")

    def finish(self, title, job, rows):
        """The job ends well; the requests that were called more than once."""
        self.fleet.check_job(job)
        self.fleet.audit()
        groups = by_key(self.fleet.backend.calls())
        repeated = sorted(key for key, group in groups.items() if len(group) > 1)
        print(table(title, [("requests", len(groups)), ("called more than once", len(repeated)), *rows]),
              file=sys.stderr)
        return groups, repeated

    def seconds_until(self, condition, what, limit):
        began = time.monotonic()
        self.eventually(condition, what, timeout=limit)
        return time.monotonic() - began

    def test_a_partition_of_a_second_costs_nothing(self):
        self.far_and_near()
        job = self.submit_for(4)
        self.everybody_calls()
        for _ in range(2):
            self.proxy.hold()
            time.sleep(1)
            self.proxy.release()
            time.sleep(self.rng.uniform(0, 0.5))
        _, repeated = self.finish("partitions of 1 s", job, [("connections", self.proxy.connections)])
        self.assertEqual(repeated, [])
        self.assertEqual(self.proxy.connections, 1, "a second is no reason to give a connection up")

    def test_resets_cost_nothing(self):
        self.far_and_near()
        job = self.submit_for(2 + RESETS)
        self.everybody_calls()
        for _ in range(RESETS):
            time.sleep(self.rng.uniform(0.2, 1.5))
            self.proxy.reset()
        _, repeated = self.finish("resets", job, [("resets", RESETS), ("connections", self.proxy.connections)])
        self.assertEqual(repeated, [])
        self.assertGreater(self.proxy.connections, 1)

    def test_a_slow_network_costs_nothing(self):
        self.proxy.delay = 2.0 if LONG else 0.5
        self.far_and_near()
        job = self.submit_for(30 if LONG else 4)
        self.everybody_calls()
        groups, repeated = self.finish("delay", job, [("delay", f"{self.proxy.delay} s each way")])
        self.assertEqual(repeated, [])
        far = sum(call["worker"] == "far" for group in groups.values() for call in group)
        print("  calls of the far worker", far, file=sys.stderr)

    @slow
    def test_a_partition_of_half_a_minute_is_noticed_and_survived(self):
        self.far_and_near()
        job = self.submit_for(75)
        self.everybody_calls()
        time.sleep(2)
        began = now()
        self.proxy.hold()
        silent = self.seconds_until(lambda: self.fleet.worker_states()["far"] != "connected",
                                    "the coordinator missing the worker", DETECTED_WITHIN)
        self.eventually(lambda: any("no connection to the coordinator" in line for line in self.far.err),
                        "the worker missing the coordinator", timeout=28)
        noticed = now() - began
        time.sleep(max(0, 30 - noticed))
        self.proxy.release()
        back = self.seconds_until(lambda: self.fleet.worker_states()["far"] == "connected", "the worker's return", 10)
        groups, repeated = self.finish("partition of 30 s", job, [
            ("the coordinator knew after", f"{silent:.1f} s"), ("the worker knew after", f"{noticed:.1f} s"),
            ("together again after", f"{back:.1f} s")])
        self.assertLessEqual(noticed, DETECTED_WITHIN)
        # What it held when it was cut off was given to the other; it may have begun some of it before
        # it knew, never after.
        late = [call for key in repeated for call in groups[key] if call["worker"] == "far" and
                call["started"] > began + noticed + 9]
        self.assertEqual(late, [])

    @slow
    def test_half_open_connections_are_noticed(self):
        self.far_and_near()
        watch = self.start(Process([PROGRAM, "watch", self.submit_for(60), "--coordinator", self.proxy.address]))
        job = list(self.fleet.ledger.jobs)[-1]
        self.everybody_calls()
        time.sleep(2)
        began = now()
        self.proxy.forget()
        silent = self.seconds_until(lambda: self.fleet.worker_states()["far"] != "connected",
                                    "the coordinator missing the worker", DETECTED_WITHIN)
        self.eventually(lambda: any("no connection to the coordinator" in line for line in self.far.err),
                        "the worker missing the coordinator", timeout=28)
        noticed = now() - began
        back = self.seconds_until(lambda: self.fleet.worker_states()["far"] == "connected", "the worker's return", 10)
        _, repeated = self.finish("half-open", job, [
            ("the coordinator knew after", f"{silent:.1f} s"), ("the worker knew after", f"{noticed:.1f} s"),
            ("together again after", f"{back:.1f} s")])
        self.assertLessEqual(noticed, DETECTED_WITHIN)
        self.assertEqual(repeated, [])
        # The client's connection died in the same way. It followed the job all the same.
        self.assertEqual(watch.wait(), 0, watch.err[-5:])

    @slow
    def test_requests_of_a_machine_that_is_gone_without_a_word_are_leased_again(self):
        self.far_and_near()
        job = self.submit_for(70)
        self.everybody_calls()
        time.sleep(2)
        self.proxy.hold()
        died_at = now()
        self.fleet.kill_worker("far")
        groups, repeated = self.finish("a machine is gone", job, [])
        waits = waits_after_death(groups, "far", died_at)
        self.assertGreater(len(waits), 0)
        _, again = split_repeats(groups, {"far": died_at})
        print(f"  leased again after its death: {len(waits)} requests, slowest {max(waits):.1f} s; "
              f"called again though answered: {len(again)}", file=sys.stderr)
        self.assertLessEqual(max(waits), LEASED_AGAIN_WITHIN)


if __name__ == "__main__":
    unittest.main()
