"""Jobs of a coordinator: submit, follow, read, change."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from support import CliCase, Coordinator, PROGRAM, Process, Worker, prompts, read_jsonl


class ClusterCase(CliCase):
    sim_options = ()

    def setUp(self):
        super().setUp()
        os.environ["NIGHTSHIFT_COORDINATOR"] = self.cluster(*self.sim_options)
        self.addCleanup(os.environ.pop, "NIGHTSHIFT_COORDINATOR", None)

    def submit(self, text, *words):
        self.write("in.jsonl", text)
        code, out, err = self.nightshift("submit", "in.jsonl", *words)
        self.assertEqual(code, 0, err)
        return out.strip()

    def status(self, job):
        return json.loads(self.nightshift("status", job, "--json")[1])


class Instant(ClusterCase):
    def test_submit_prints_the_id_alone(self):
        self.write("in.jsonl", prompts(3))
        code, out, err = self.nightshift("submit", "in.jsonl", "--name", "Quarterly")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^job_[0-9a-z]+\n$")
        self.assertIn("Submitted 3 requests (all valid). Follow: ", err)
        self.assertEqual(self.nightshift("submit", "in.jsonl", "--quiet")[2], "")

    # The same outcome has the same code however it is followed.
    def test_watch_submit_wait_and_run_agree(self):
        bad = '{"custom_id":"bad","prompt":"<<{\\"status\\":400}>>"}\n'
        # So many that some are left when the rate is looked at: a job that has ended is not stopped.
        failing = prompts(3000, '<<{\\"status\\":400}>> %d')
        for text, words, expected in ((prompts(3), [], 0), (prompts(2) + bad, [], 3),
                                      (failing, ["--stop-on-error-rate", "0.1"], 4)):
            self.write("in.jsonl", text)
            job = self.submit(text, *words)
            watched = self.nightshift("watch", job)
            waited = self.nightshift("submit", "in.jsonl", "--wait", *words)
            ran = self.nightshift("run", "in.jsonl", "--backend", "sim", "--force", *words)
            self.assertEqual([watched[0], waited[0], ran[0]], [expected] * 3, (watched, waited, ran))

    def test_watch_of_an_ended_job_returns_at_once(self):
        job = self.submit(prompts(3))
        self.assertEqual(self.nightshift("watch", job)[0], 0)
        started = time.monotonic()
        code, out, err = self.nightshift("watch", job)
        self.assertEqual((code, out), (0, ""))
        self.assertLess(time.monotonic() - started, 5)
        self.assertIn("3 succeeded", err)

    def test_unknown_and_deleted_jobs_are_two(self):
        job = self.submit(prompts(3))
        self.nightshift("watch", job)
        self.assertEqual(self.nightshift("delete", job, "--yes")[0], 0)
        for unknown in (job, "job_zzzzzzzzzzzz"):
            for command in ("watch", "status", "results", "errors", "pause", "retry", "audit"):
                code, out, err = self.nightshift(command, unknown)
                self.assertEqual((code, out), (2, ""), (command, err))
        code, out, err = self.nightshift("results", "job_zzzzzzzzzzzz", "-o", "none.jsonl")
        self.assertFalse(os.path.exists(self.path("none.jsonl")))

    def test_every_query_prints_one_document(self):
        job = self.submit(prompts(3))
        self.nightshift("watch", job)
        for words in (["jobs"], ["status", job], ["workers"], ["audit"], ["audit", job], ["version"], ["config", "show"]):
            code, out, err = self.nightshift(*words, "--json")
            self.assertEqual((code, err), (0, ""), words)
            json.loads(out)
            self.assertEqual(self.nightshift("--json", *words)[1].startswith(out[:1]), True)
        self.assertEqual(self.nightshift("jobs", "--json")[1], self.nightshift("--json", "jobs")[1])

    # Keys only ever grow: none of these may go.
    def test_the_keys_of_a_status(self):
        job = self.submit(prompts(3))
        self.nightshift("watch", job)
        status = self.status(job)
        self.assertLessEqual({"id", "name", "state", "reason", "created_at", "started_at", "finished_at", "counts",
                              "tokens", "cost_usd", "requests_per_second", "eta_seconds", "waiting_for"}, set(status))
        self.assertEqual(set(status["counts"]), {"total", "succeeded", "failed", "cancelled", "expired", "pending",
                                                 "in_flight", "retrying"})
        self.assertEqual(set(status["tokens"]), {"prompt", "completion"})
        self.assertEqual(status["state"], "completed")
        self.assertIsNone(status["cost_usd"])  # unknown, not 0
        for when in ("created_at", "started_at", "finished_at"):
            self.assertLess(abs(status[when] - time.time()), 600)
        worker = json.loads(self.nightshift("workers", "--json")[1])[0]
        self.assertLessEqual({"name", "state", "backends"}, set(worker))
        self.assertLessEqual({"name", "url", "state", "limit", "in_flight", "requests_per_second", "waiting_for"},
                             set(worker["backends"][0]))
        result = json.loads(self.nightshift("results", job, "--first")[1])
        self.assertEqual(set(result), {"id", "custom_id", "response", "error", "nightshift"})

    def test_watch_json_is_lines_of_type_and_ends_with_the_result(self):
        job = self.submit(prompts(3))
        code, out, err = self.nightshift("watch", job, "--json")
        self.assertEqual((code, err), (0, ""))
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(all(list(line)[0] == "type" and line["type"] in ("status", "result") for line in lines))
        self.assertEqual([line["type"] for line in lines].count("result"), 1)
        self.assertEqual(lines[-1]["type"], "result")
        self.assertEqual(lines[-1]["exit_code"], 0)

    def test_an_id_may_be_cut_short_while_it_is_clear(self):
        job = self.submit(prompts(1))
        self.nightshift("watch", job)
        self.assertEqual(self.status(job[:11])["id"], job)
        self.assertEqual(self.nightshift("status", job[:7])[0], 2)

    def test_results_to_a_file_and_to_a_pipe_that_closes(self):
        job = self.submit(prompts(3000))
        self.assertEqual(self.nightshift("watch", job)[0], 0)
        code, out, err = self.nightshift("results", job, "-o", "out.jsonl")
        self.assertEqual((code, out), (0, ""))
        self.assertEqual([r["custom_id"] for r in read_jsonl(self.path("out.jsonl"))],
                         ["request-%d" % i for i in range(1, 3001)])
        done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" results %s | head -1' % job, PROGRAM],
                              capture_output=True, timeout=120)
        self.assertEqual(done.stderr, b"")
        self.assertIn(done.returncode, (0, 141))
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_errors_by_class(self):
        job = self.submit(prompts(2) + '{"custom_id":"bad","prompt":"<<{\\"status\\":400}>>"}\n')
        self.assertEqual(self.nightshift("watch", job)[0], 3)
        _, out, _ = self.nightshift("errors", job, "--class", "invalid_request")
        self.assertEqual(json.loads(out)["custom_id"], "bad")
        self.assertEqual(self.nightshift("errors", job, "--class", "timeout"), (0, "", ""))
        code, _, err = self.nightshift("errors", job, "--class", "nonsense")
        self.assertEqual(code, 2)
        self.assertIn("context_too_long", err)

    def test_submit_wait_writes_the_files_that_are_named(self):
        self.write("in.jsonl", prompts(3))
        code, out, err = self.nightshift("submit", "in.jsonl", "--wait", "-o", "out.jsonl")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(read_jsonl(self.path("out.jsonl"))), 3)
        code, out, err = self.nightshift("submit", "in.jsonl", "--wait", "-o", "out.jsonl")
        self.assertEqual((code, out), (2, ""))

    def test_submit_refuses_bad_lines_and_takes_standard_input(self):
        code, out, err = self.nightshift("submit", "-", input=b'{"prompt":"a"}\nnonsense\n')
        self.assertEqual((code, out), (2, ""))
        self.assertIn("1 of 2 lines cannot be used; nothing was run", err)
        self.assertEqual(json.loads(self.nightshift("jobs", "--json")[1]), [])
        self.assertEqual(self.nightshift("submit", "-", input=prompts(2).encode())[0], 0)

    def test_retry_runs_again_what_failed(self):
        job = self.submit('{"prompt":"<<{\\"status\\":400,\\"times\\":1}>>"}\n' + prompts(1))
        self.assertEqual(self.nightshift("watch", job)[0], 3)
        self.assertEqual(self.nightshift("retry", job, "--class", "timeout")[0], 0)
        self.assertEqual(self.status(job)["counts"]["failed"], 1)
        code, _, err = self.nightshift("retry", job, "--class", "invalid_request")
        self.assertEqual(code, 0)
        self.assertIn("1 request waits again", err)
        self.assertEqual(self.nightshift("watch", job)[0], 0)
        self.assertEqual(self.nightshift("audit", job)[0], 0)


class Repair(CliCase):
    def test_repair_says_what_it_did_and_needs_the_folder_for_itself(self):
        self.write("in.txt", "one\ntwo\n")
        self.assertEqual(self.nightshift("run", "in.txt", "--backend", "sim", "--data-dir", "d")[0], 0)
        code, out, err = self.nightshift("audit", "--repair", "--json", "--data-dir", "d")
        self.assertEqual(code, 0, err)
        document = json.loads(out)
        self.assertEqual((document["agrees"], document["repairs"]), (True, []))
        job = document["jobs"][0]["id"]
        code, out, err = self.nightshift("audit", job, "--repair", "--data-dir", "d")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("Everything agrees", out)
        for words, told in ((("job_zzzzzz",), "job_zzzzzz"), (("--coordinator", "127.0.0.1:1"), "nobody has open"),
                            (("--data-dir", "nowhere"), "holds no jobs")):
            code, out, err = self.nightshift("audit", "--repair", *((("--data-dir", "d") if len(words) == 1 else ())), *words)
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(told, err)
        coordinator = self.start(Coordinator(self.path("d")))
        code, out, err = self.nightshift("audit", "--repair", "--data-dir", "d")
        self.assertEqual((code, out), (1, ""), err)
        self.assertIn(f"(pid {coordinator.pid})", err)
        self.assertIn("stop whoever has it open", err)


class Slow(ClusterCase):
    sim_options = ("--latency", "400ms")

    def long_job(self):
        return self.submit(prompts(2000))

    def test_pause_resume_cancel(self):
        job = self.long_job()
        self.assertEqual(self.nightshift("pause", job)[0], 0)
        status = self.status(job)
        self.assertEqual((status["state"], status["reason"]), ("paused", "user"))
        self.assertEqual(self.nightshift("resume", job)[0], 0)
        self.assertIn(self.status(job)["state"], ("queued", "running"))
        code, out, err = self.nightshift("cancel", job)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, r"[\d,]+ requests will never be answered")
        self.assertIn("--yes", err)
        self.assertEqual(self.nightshift("delete", job, "--yes")[0], 2)  # not while it runs
        self.assertEqual(self.nightshift("cancel", job, "--yes", "--json")[0], 0)
        self.assertEqual(self.nightshift("watch", job)[0], 4)
        counts = self.status(job)["counts"]
        self.assertEqual(counts["total"], sum(n for k, n in counts.items() if k != "total"))
        self.assertGreater(counts["cancelled"], 0)

    def test_watch_times_out_and_the_job_goes_on(self):
        job = self.long_job()
        code, out, err = self.nightshift("watch", job, "--timeout", "1s")
        self.assertEqual((code, out), (4, ""))
        self.assertIn("not over after 1.0 s; the job goes on", err)
        self.assertIn(self.status(job)["state"], ("queued", "running"))

    def test_an_interrupted_watch_leaves_the_job_alone(self):
        job = self.long_job()
        watch = self.start(Process([PROGRAM, "watch", job, "--progress-interval", "200ms"]))
        watch.wait_for(r"\d+/2000")
        watch.send(signal.SIGINT)
        self.assertEqual(watch.wait(), 130)
        self.assertIn("the job goes on", "\n".join(watch.err))
        self.assertIn(self.status(job)["state"], ("queued", "running"))

    def test_plain_lines_come_only_when_something_changed(self):
        job = self.long_job()
        self.assertEqual(self.worker.end(), 0)  # nothing moves from here on
        watch = self.start(Process([PROGRAM, "watch", job, "--progress-interval", "100ms", "--timeout", "3s"]))
        watch.wait()
        lines = [line for line in watch.err if re.match(r"\d{4}-", line)]
        self.assertLess(len(lines), 15)

    def test_results_while_the_job_runs_and_following(self):
        job = self.submit(prompts(60))
        follow = self.start(Process([PROGRAM, "results", job, "--follow"]))
        self.eventually(lambda: self.status(job)["counts"]["succeeded"] > 0, "answers come")
        code, out, _ = self.nightshift("results", job)
        self.assertEqual(code, 0)
        ids = [json.loads(line)["custom_id"] for line in out.splitlines()]
        self.assertEqual(ids, sorted(ids, key=lambda i: int(i.split("-")[1])))
        self.assertEqual(follow.wait(), 0)
        self.assertEqual(sorted(json.loads(line)["custom_id"] for line in follow.out),
                         sorted("request-%d" % i for i in range(1, 61)))

    def test_losing_the_coordinator_is_seen_and_survived(self):
        job = self.submit(prompts(300))
        watch = self.start(Process([PROGRAM, "watch", job, "--progress-interval", "200ms"]))
        watch.wait_for(r"\d+/300")
        self.coordinator.kill()
        watch.wait_for(r"Lost the coordinator at \S+ .*trying again for 5m")
        self.start(Coordinator(self.path("cluster"), address=self.address))
        watch.wait_for(r"Reached the coordinator")
        self.assertEqual(watch.wait(120), 0)

    def test_a_coordinator_that_stays_away_is_five(self):
        job = self.long_job()
        watch = self.start(Process([PROGRAM, "watch", job, "--reconnect", "2s"]))
        watch.wait_for(r"2000|Watching|\d+%")
        self.coordinator.kill()
        self.assertEqual(watch.wait(), 5)

    def test_nobody_there_is_five_and_soon(self):
        self.coordinator.kill()
        self.write("in.jsonl", prompts(1))
        for words in (["submit", "in.jsonl"], ["jobs"], ["watch", "job_abcdef"]):
            started = time.monotonic()
            code, out, err = self.nightshift(*words)
            self.assertEqual((code, out), (5, ""), err)
            self.assertLess(time.monotonic() - started, 8)
            self.assertIn(self.address, err)


if __name__ == "__main__":
    unittest.main()
