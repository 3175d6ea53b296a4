"""What people do to a job in the middle of it, and what is left of it, whoever is away meanwhile and however
long calls last: with the real program, and a backend whose log says what was called and what was given up.

NIGHTSHIFT_LIFECYCLE_ROUNDS (default 2) repeats the cancellations, each at another moment.
"""
import collections
import json
import os
import random
import re
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PATIENCE, Coordinator, TestCase, Witness, Worker, chat_line, read_jsonl, run
from tcp_proxy import TcpProxy

ROUNDS = int(os.environ.get("NIGHTSHIFT_LIFECYCLE_ROUNDS", "2"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))


class Lifecycle(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)

    def fleet(self, *witness_options, concurrency=4, lease_ttl="3s", proxied=False):
        """Returns the worker. `proxied`: `self.proxy` is between it and the coordinator."""
        self.witness = self.start(Witness(self.folder, *witness_options))
        self.lease_ttl = lease_ttl
        self.coordinator = self.start_coordinator()
        self.where = ("--coordinator", self.coordinator.address)
        self.concurrency = concurrency
        self.worker_address = self.coordinator.address
        if proxied:
            self.proxy = TcpProxy(self.coordinator.address)
            self.addCleanup(self.proxy.close)
            self.worker_address = self.proxy.address
        return self.worker()

    def start_coordinator(self, address="127.0.0.1:0"):
        return self.start(Coordinator(self.path("data"), "--lease-ttl", self.lease_ttl, address=address))

    def worker(self, name="w"):
        return self.start(Worker(self.worker_address, self.witness.url, "--name", name, "--data-dir",
                                 self.path(name), "--concurrency", self.concurrency))

    # For a job whose time counts from its submission.
    def worker_is_ready(self):
        code, _, err = run("watch", self.submit("ready", ["ready"]), *self.where)
        self.assertEqual(code, 0, err)

    def submit(self, name, ids, *options, fault=None):
        """`fault`: what the backend does with every request, or a function of the custom_id."""
        of = fault if callable(fault) else lambda _: fault or {}
        lines = [chat_line(c, f'<<{json.dumps({"key": c, **of(c)})}>> say {c}') for c in ids]
        source = self.write(name + ".jsonl", "\n".join(lines) + "\n")
        code, out, err = run("submit", source, *options, *self.where)
        self.assertEqual(code, 0, err)
        return out.strip()

    def status(self, job):
        code, out, err = run("status", job, "--json", *self.where)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def files(self, job):
        for kind in ("results", "errors"):
            code, _, err = run(kind, job, *self.where, "--force", "-o", self.path(kind))
            self.assertEqual(code, 0, err)
        code, out, err = run("audit", *self.where)
        self.assertEqual(code, 0, out + err)
        return read_jsonl(self.path("results")), read_jsonl(self.path("errors"))

    def control(self, what, job, code=0):
        yes = ("--yes",) if what == "cancel" else ()
        got, out, err = run(what, job, *yes, *self.where)
        self.assertEqual(got, code, out + err)

    def calls(self):
        return collections.Counter(call["key"] for call in self.witness.calls())

    def lapsed_leases(self):
        http = self.coordinator.wait_for(r"http://(127\.0\.0\.1:\d+)/v1").group(1)
        with urllib.request.urlopen(f"http://{http}/metrics", timeout=PATIENCE) as reply:
            text = reply.read().decode()
        return float(re.search(r"^nightshift_lapsed_leases_total (\S+)$", text, re.M).group(1))

    def wait_for_state(self, job, *states):
        self.eventually(lambda: self.status(job)["state"] in states, f"{job} becomes {states}")
        return self.status(job)

    # The 25 lines are all there, each once.
    def test_25_requests_cancelled_in_the_middle_are_all_accounted_for(self):
        self.fleet("--latency", "0.1")
        for round_ in range(ROUNDS):
            ids = [f"c{round_}-{i}" for i in range(25)]
            # The last one takes its time: the job is not done before it is cancelled.
            job = self.submit(f"c{round_}", ids, fault=lambda c: {"delay": 3600} if c == ids[-1] else {})
            some = self.rng.randrange(1, 20)
            self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= some, f"{some} answers")
            self.control("cancel", job)
            status = self.wait_for_state(job, "cancelled")
            results, errors = self.files(job)
            self.check_files_cover(results, errors, ids)
            self.assertEqual(len(results), status["counts"]["succeeded"])
            self.assertGreaterEqual(len(results), some)
            self.assertEqual(status["counts"]["cancelled"], len(errors))
            self.assertEqual({e["error"]["code"] for e in errors} - {"batch_cancelled"}, set())
            print(f"cancelled after {some}: {len(results)} results, {len(errors)} cancelled", file=sys.stderr)
            # Again is fine, and changes nothing.
            self.control("cancel", job)
            self.assertEqual(self.status(job)["counts"], status["counts"])

    # The backend sees the connections close, and works on nothing that nobody wants.
    def test_calls_under_way_are_given_up_within_a_second_of_the_cancellation(self):
        self.fleet("--latency", "30", concurrency=16)
        self.check_calls_are_given_up(self.submit("u", [f"u-{i}" for i in range(40)]))

    # Nor does it go on with an answer of which a part has been sent.
    def test_streams_under_way_are_given_up_within_a_second_of_the_cancellation(self):
        self.fleet(concurrency=16)
        job = self.submit("s", [f"s-{i}" for i in range(40)], "--stream", fault={"slow": [300, 0.1]})
        self.check_calls_are_given_up(job)

    def check_calls_are_given_up(self, job):
        self.eventually(lambda: self.witness.counters()["in_flight"] == 16, "16 calls under way")
        begin = time.monotonic()
        self.control("cancel", job)
        self.eventually(lambda: self.witness.counters()["in_flight"] == 0, "all given up")
        took = time.monotonic() - begin
        print(f"16 calls given up {took:.2f} s after the cancellation was asked for", file=sys.stderr)
        self.assertLess(took, 1.0 + 0.5, "one second, and what the command itself takes")
        self.assertEqual({c["how"] for c in self.witness.calls()}, {"client_gone"})
        self.assertEqual(self.wait_for_state(job, "cancelled")["counts"]["cancelled"], 40)

    # The worker is told again when it comes back, and asking again is fine meanwhile.
    def test_a_cancellation_that_the_worker_did_not_hear_reaches_it_with_its_next_connection(self):
        self.fleet("--latency", "30", concurrency=8, proxied=True)
        job = self.submit("n", [f"n-{i}" for i in range(20)])
        self.eventually(lambda: self.witness.counters()["in_flight"] == 8, "8 calls under way")
        self.proxy.hold()
        self.control("cancel", job)
        status = self.wait_for_state(job, "cancelled")
        self.control("cancel", job)
        self.assertEqual(self.status(job), status)
        self.assertEqual(self.witness.counters()["in_flight"], 8, "the worker has been told")
        self.proxy.reset()  # and what was held is lost
        self.proxy.release()
        self.eventually(lambda: self.witness.counters()["in_flight"] == 0, "all given up", timeout=10)
        self.assertEqual({c["how"] for c in self.witness.calls()}, {"client_gone"})
        self.assertEqual(self.status(job), status)

    # The 27 are kept, cancelling works while nobody is there, and the rest runs afterwards.
    def test_the_only_worker_is_killed_and_the_next_one_runs_the_rest(self):
        worker = self.fleet("--latency", "0.1")
        ids = [f"k-{i}" for i in range(64)]
        # Not done before the kill, whenever that comes.
        job = self.submit("k", ids, fault=lambda c: {"delay": 3600, "times": 1} if c == "k-0" else {})
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 27, "27 answers")
        worker.kill()
        other = self.submit("o", ["o-1", "o-2"])
        kept = {r["custom_id"] for r in self.files(job)[0]}
        self.control("cancel", other)
        self.wait_for_state(other, "cancelled")
        self.assertGreaterEqual(self.status(job)["counts"]["succeeded"], len(kept))
        self.worker()
        code, _, err = run("watch", job, *self.where)
        self.assertEqual(code, 0, err)
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertEqual(errors, [])
        self.assertGreaterEqual(len(kept), 27)
        calls = self.calls()
        self.assertEqual({c: calls[c] for c in kept if calls[c] != 1}, {}, "called again, though its answer was kept")

    # Nobody is there to give anything back, and no lease has to lapse first.
    def test_a_job_whose_only_worker_was_killed_is_cancelled_at_once(self):
        worker = self.fleet("--latency", "0.1", lease_ttl="60s")
        ids = [f"x-{i}" for i in range(64)]
        job = self.submit("x", ids, fault=lambda c: {"delay": 3600} if c == "x-63" else {})
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 10, "10 answers")
        worker.kill()
        self.control("cancel", job)
        # Less than what a worker has to come back.
        self.eventually(lambda: self.status(job)["state"] == "cancelled", "it is cancelled", timeout=4)
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertGreaterEqual(len(results), 10)
        self.assertEqual({e["error"]["code"] for e in errors}, {"batch_cancelled"})
        self.worker()
        other = self.submit("y", ["y-1", "y-2"])
        code, _, err = run("watch", other, *self.where)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.wait_for_state(job, "cancelled")["counts"]["succeeded"], len(results))

    # Four are called at once and as many wait their turn: all of them for longer than a lease lives, and another
    # worker has nothing to do meanwhile.
    def test_requests_that_are_held_for_longer_than_a_lease_are_called_once(self):
        self.fleet("--latency", "1.5", lease_ttl="2s")
        ids = [f"h-{i}" for i in range(8)]
        job = self.submit("h", ids, fault=lambda c: {"delay": 1.5} if c == "h-0" else {})
        self.eventually(lambda: self.witness.counters()["in_flight"] == 4, "four calls under way")
        self.worker("idle")
        self.check_nothing_lapses(job, ids, calls=1)

    # Waiting to be tried again is holding as well.
    def test_requests_that_are_refused_for_longer_than_a_lease_stay_with_their_worker(self):
        self.fleet(lease_ttl="2s")
        self.worker("idle")
        ids = [f"r-{i}" for i in range(4)]
        job = self.submit("r", ids, fault={"status": 429, "times": 2, "headers": {"retry-after": "1"}})
        began = time.monotonic()
        self.check_nothing_lapses(job, ids, calls=3)
        self.assertGreater(time.monotonic() - began, 2, "no longer than a lease")

    def check_nothing_lapses(self, job, ids, calls):
        code, _, err = run("watch", job, *self.where)
        self.assertEqual(code, 0, err)
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertEqual(errors, [])
        self.assertEqual(self.calls(), {c: calls for c in ids})
        self.assertEqual({r["nightshift"]["attempts"] for r in results}, {1})
        self.assertEqual(self.lapsed_leases(), 0)

    # What has been answered under the same name in another job says nothing.
    def test_the_same_ids_in_a_later_job_are_called_again(self):
        self.fleet()
        ids = [f"a-{i}" for i in range(5)]
        jobs = []
        for again in range(1, 3):
            jobs.append(self.submit("a", ids))
            code, _, err = run("watch", jobs[-1], *self.where)
            self.assertEqual(code, 0, err)
            self.assertEqual(self.calls(), {c: again for c in ids})
        self.assertNotEqual(*jobs)
        for job in jobs:
            results, errors = self.files(job)
            self.check_files_cover(results, errors, ids)
            self.assertEqual(errors, [])

    # What was earned before the deadline stays, also when nobody is there when it passes.
    def test_a_deadline_that_passes_while_the_worker_is_down_keeps_what_is_done(self):
        worker = self.fleet("--latency", "0.1")
        ids = [f"e-{i}" for i in range(60)]
        self.worker_is_ready()
        job = self.submit("e", ids, "--deadline", "4s", fault=lambda c: {"delay": 3600} if c == "e-59" else {})
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 5, "5 answers")
        worker.kill()
        status = self.wait_for_state(job, "expired")
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertGreaterEqual(len(results), 5)
        self.assertEqual(status["counts"]["expired"], len(errors))
        self.assertEqual({e["error"]["code"] for e in errors}, {"batch_expired"})
        # It is over: no command but a retry moves it.
        for what in ("cancel", "pause", "resume"):
            self.control(what, job, code=2)
        self.assertEqual(self.status(job), status)

    def test_a_deadline_that_passes_while_the_coordinator_is_down_keeps_what_is_done(self):
        self.fleet("--latency", "0.1")
        ids = [f"d-{i}" for i in range(400)]
        self.worker_is_ready()
        job = self.submit("d", ids, "--deadline", "2s")
        submitted = time.monotonic()
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] >= 5, "5 answers")
        self.coordinator.kill()
        time.sleep(max(0.0, submitted + 2.2 - time.monotonic()))
        self.coordinator = self.start_coordinator(self.coordinator.address)
        status = self.wait_for_state(job, "expired")
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertGreaterEqual(len(results), 5)
        self.assertEqual((status["counts"]["succeeded"], status["counts"]["expired"]), (len(results), len(errors)))
        self.assertEqual({e["error"]["code"] for e in errors}, {"batch_expired"})

    # Failures are counted as such, and a job of nothing else completes with its errors.
    def test_failures_are_counted_and_a_job_of_failures_completes(self):
        self.fleet()
        ids = [f"f-{i}" for i in range(5)]
        job = self.submit("f", ids, fault={"status": 400})
        code, _, err = run("watch", job, *self.where)
        self.assertEqual(code, 3, err)
        status = self.status(job)
        self.assertEqual((status["state"], status["counts"]["failed"], status["counts"]["succeeded"]),
                         ("completed", 5, 0))
        results, errors = self.files(job)
        self.check_files_cover(results, errors, ids)
        self.assertEqual({e["response"]["status_code"] for e in errors}, {400})


if __name__ == "__main__":
    unittest.main()
