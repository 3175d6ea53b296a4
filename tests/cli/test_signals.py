"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from support import CliCase, PROGRAM, Process, prompts, read_jsonl


class Stopping(CliCase):
    def begin(self, *words, latency="300ms", requests=40, cwd=None, name="in.jsonl", count=1):
        """A run with calls in flight, none of which has to end soon."""
        if not os.path.exists(self.path(name)):
            self.write(name, prompts(requests))
        if not hasattr(self, "backend"):
            self.backend = self.sim("--latency", latency)
        process = self.start(Process([PROGRAM, "run", name, "--backend", self.backend.url, "--concurrency", "2", *words],
                                     cwd=self.folder))
        if count:
            self.eventually(lambda: len(self.sim_calls()) >= count, "calls are answered")
        return process

    # It goes on where it was; nothing that was queued is lost or asked twice.
    def test_the_first_interrupt_waits_for_calls_in_flight_and_the_same_command_resumes(self):
        process = self.begin(count=4)
        started = time.monotonic()
        process.send(signal.SIGINT)
        process.wait_for(r"Stopping: \d+ calls? in flight, waiting up to 60 s\. Ctrl-C again drops them\.")
        self.assertLess(time.monotonic() - started, 2)  # said at once, before the calls are back
        self.assertEqual(process.wait(), 130)
        text = "\n".join(process.err)
        done = int(re.search(r"Stopped: (\d+) of 40 done, 0 failed\. All answers so far are saved\.", text).group(1))
        self.assertGreaterEqual(done, 4)
        # What the backend answered is not asked again: not one call was dropped.
        self.assertEqual(len(self.sim_calls()), done)
        command = text[text.index("Resume with:\n  ") + len("Resume with:\n  "):].splitlines()[0]
        again = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, timeout=120)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(b"Resuming job_", again.stderr)
        self.assertIn(f"{done} of 40 done, {40 - done} to go.".encode(), again.stderr)
        self.assertEqual(len(self.sim_calls()), 40)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 40)

    # Names that a shell would take apart.
    def test_the_command_that_resumes_is_quoted(self):
        name = "it's $HOME & \"two\" words.jsonl"
        process = self.begin("--name", "a $b 'c'", name=name, requests=12)
        process.send(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        text = "\n".join(process.err)
        command = text[text.index("Resume with:\n  ") + len("Resume with:\n  "):].splitlines()[0]
        again = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, timeout=120)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(b"Resuming", again.stderr)

    def test_the_second_interrupt_ends_within_a_second(self):
        process = self.begin(latency="30s", count=0)
        process.wait_for(r"^State ")
        self.eventually(lambda: self.in_flight() == 2, "two calls are in flight")
        process.send(signal.SIGINT)
        process.wait_for(r"Stopping: 2 calls in flight")
        started = time.monotonic()
        process.send(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.assertLess(time.monotonic() - started, 1.5)  # a second, and what a busy machine adds
        self.assertIn("Resume with:", "\n".join(process.err))

    def in_flight(self):
        code, out, _ = self.nightshift("workers", "--json", "--data-dir", "nightshift-data")
        return sum(b["in_flight"] for w in json.loads(out) for b in w["backends"]) if code == 0 else -1

    def test_terminate_drains_and_ends_with_143(self):
        process = self.begin(count=2)
        process.send(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)
        self.assertIn("Resume with:", "\n".join(process.err))
        code, out, _ = self.nightshift("status", self.job(), "--json", "--data-dir", "nightshift-data")
        self.assertIn("no process has this data folder open", json.loads(out)["waiting_for"])
        counts = json.loads(out)["counts"]
        self.assertEqual(counts["succeeded"], len(self.sim_calls()))
        self.assertEqual(counts["in_flight"], 0)

    # A closed laptop, a lost connection: what was paid for is saved, and the second SIGHUP, which a shell
    # sends beside the kernel's, drops no call.
    def test_a_terminal_that_goes_away_is_no_kill(self):
        process = self.begin(count=2, latency="1s")
        process.send(signal.SIGHUP)
        process.wait_for("Stopping: ")
        process.send(signal.SIGHUP)
        self.assertEqual(process.wait(), 129)
        self.assertIn("Resume with:", "\n".join(process.err))
        code, out, _ = self.nightshift("status", self.job(), "--json", "--data-dir", "nightshift-data")
        self.assertEqual(json.loads(out)["counts"]["succeeded"], len(self.sim_calls()))

    def test_under_nohup_a_terminal_may_go_away(self):
        self.write("in.jsonl", prompts(20))
        self.backend = self.sim("--latency", "200ms")
        process = self.start(Process(["nohup", PROGRAM, "run", "in.jsonl", "--backend", self.backend.url,
                                      "--concurrency", "2"], cwd=self.folder))
        self.eventually(lambda: len(self.sim_calls()) >= 2, "calls are answered")
        process.send(signal.SIGHUP)
        self.assertEqual(process.wait(), 0)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 20)

    def job(self):
        return json.loads(self.nightshift("jobs", "--json", "--data-dir", "nightshift-data")[1])[0]["id"]

    def test_before_anything_is_handed_in_it_ends_at_once(self):
        self.write("in.jsonl", prompts(3))
        process = self.start(Process([PROGRAM, "run", "in.jsonl", "--backend", "http://127.0.0.1:1/v1",
                                      "--wait-for-backend", "1h"], cwd=self.folder))
        process.wait_for("^Waiting up to")
        process.send(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        said = "\n".join(process.err)
        self.assertIn("Stopped before the first call", said)
        self.assertIn("Resume with:\n  ", said)

    def test_usr1_prints_one_line_also_under_quiet(self):
        process = self.begin("--quiet", count=3)
        self.assertEqual(process.err, [])
        process.send(signal.SIGUSR1)
        process.wait_for(r"^\d{4}-\d\d-\d\dT\S+ \d+% \d+/40 failed=0 ")
        self.assertEqual(len(process.err), 1)
        process.send(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)

    # Nothing of a killed run is lost, and no answer that was kept is asked for again.
    def test_a_kill_is_no_worse_than_a_stop(self):
        process = self.begin(count=6)
        process.kill()
        calls = len(self.sim_calls())
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", self.backend.url, "--concurrency", "2")
        self.assertEqual(code, 0, err)
        self.assertIn("Resuming", err)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 40)
        # At most what was in flight or not yet committed at the kill.
        self.assertLessEqual(len(self.sim_calls()) - 40, calls)
        self.assertLess(len(self.sim_calls()), 40 + 8)


class Servers(CliCase):
    def test_servers_end_with_zero_on_terminate(self):
        self.cluster()
        self.assertEqual(self.worker.end(), 0)
        self.assertEqual(self.coordinator.end(), 0)
        sim = self.sim()
        self.assertEqual(sim.end(), 0)

    def test_a_worker_that_is_idle_ends_when_told_to(self):
        self.cluster()
        sim = self.sim()
        worker = self.start(Process([PROGRAM, "worker", "--coordinator", self.address, "--backend", sim.url,
                                     "--http", "127.0.0.1:0", "--exit-when-idle", "500ms"], cwd=self.folder))
        self.assertEqual(worker.wait(), 0, worker.err)

    def test_a_worker_drains_what_it_has_begun(self):
        self.cluster("--latency", "6s")
        self.write("in.jsonl", prompts(4))
        _, out, _ = self.nightshift("submit", "in.jsonl", "--coordinator", self.address)
        self.eventually(lambda: self.status(out.strip())["counts"]["in_flight"] > 0, "calls are in flight")
        self.assertEqual(self.worker.end(), 0)
        self.assertEqual(self.status(out.strip())["counts"]["in_flight"], 0)
        self.assertGreaterEqual(self.status(out.strip())["counts"]["succeeded"], 1)

    def status(self, job):
        return json.loads(self.nightshift("status", job, "--json", "--coordinator", self.address)[1])

    def test_an_address_that_others_can_reach_is_refused(self):
        for words in (["coordinator", "--grpc", "0.0.0.0:0"], ["coordinator", "--http", "0.0.0.0:0", "--grpc", "127.0.0.1:0"],
                      ["worker", "--backend", "sim", "--http", "0.0.0.0:0"]):
            code, _, err = self.nightshift(*words, "--data-dir", "d")
            self.assertEqual(code, 2, words)
            self.assertIn("--insecure", err)

    def test_health_is_served(self):
        import urllib.request
        self.cluster()
        for process in (self.coordinator, self.worker):
            url = process.wait_for(r"(http://127\.0\.0\.1:\d+)/healthz").group(1)
            for page in ("/healthz", "/readyz"):
                self.eventually(lambda: urllib.request.urlopen(url + page, timeout=10).status == 200, page)

    def test_a_token_is_asked_for_when_there_is_one(self):
        token = self.write("token", "open sesame\n")
        from support import Coordinator
        coordinator = self.start(Coordinator(self.path("d"), "--token-file", token))
        code, _, err = self.nightshift("jobs", "--coordinator", coordinator.address)
        self.assertEqual(code, 2)
        self.assertIn("--token-file", err)
        self.assertEqual(self.nightshift("jobs", "--coordinator", coordinator.address, "--token-file", token)[0], 0)


if __name__ == "__main__":
    unittest.main()
