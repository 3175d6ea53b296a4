"""`run`: the main job, from refused input to files, again and again."""
import gzip
import json
import os
import re
import subprocess
import time
import unittest

from support import CliCase, PROGRAM, Process, prompts, read_jsonl


class Success(CliCase):
    def test_answers_are_in_input_order_and_the_summary_says_what_next(self):
        self.write("in.jsonl", "".join('{"custom_id":"c%d","prompt":"p %d"}\n' % (i, i) for i in range(20)))
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", "sim")
        self.assertEqual((code, out), (0, ""), err)
        self.assertEqual([r["custom_id"] for r in read_jsonl(self.path("in.results.jsonl"))],
                         ["c%d" % i for i in range(20)])
        self.assertFalse(os.path.exists(self.path("in.errors.jsonl")))
        self.assertIn("Input    in.jsonl: 20 requests, all valid", err)
        self.assertIn("20 succeeded, 0 failed.", err)
        self.assertIn("Next\n", err)

    def test_what_next_can_be_pasted(self):
        self.write("in.jsonl", prompts(3))
        _, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "--data-dir", "a b")
        command = re.search(r"read one answer +(.*)", err).group(1)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(json.loads(done.stdout)["custom_id"], "request-1")

    # Off a terminal: whole lines, no carriage return, no escape.
    def test_standard_error_that_is_no_terminal_gets_plain_lines(self):
        self.write("in.jsonl", prompts(10))
        sim = self.sim("--latency", "300ms")
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "--progress-interval", "100ms",
                                         "--concurrency", "2")
        self.assertEqual(code, 0, err)
        self.assertNotRegex(err, "[\r\033]")
        lines = [line for line in err.splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
        self.assertGreaterEqual(len(lines), 2)
        self.assertRegex(lines[-1], r"^\S+[+-]\d\d:\d\d \d+% \d+/10 failed=0 ")
        for line in lines[:-1]:
            self.assertNotIn("100%", line)

    def test_quiet_says_nothing_on_success_and_errors_all_the_same(self):
        self.write("in.jsonl", prompts(3))
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim", "--quiet"), (0, "", ""))
        code, out, err = self.nightshift("run", "missing.jsonl", "--backend", "sim", "--quiet")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("missing.jsonl", err)

    def test_json_is_lines_with_the_result_last(self):
        self.write("in.jsonl", prompts(3))
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "--json")
        self.assertEqual((code, err), (0, ""))
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(all(list(line)[0] == "type" for line in lines))
        self.assertEqual(lines[-1]["type"], "result")
        self.assertEqual(lines[-1]["counts"]["succeeded"], 3)
        self.assertEqual(lines[-1]["results_file"], self.path("in.results.jsonl"))

    def test_something_is_said_at_once(self):
        self.write("in.jsonl", prompts(3))
        process = subprocess.Popen([PROGRAM, "run", "in.jsonl", "--backend", "http://127.0.0.1:1/v1"],
                                   cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        # It is the first thing: before the backend is asked, and so before that is refused.
        self.assertIn(b"Input    in.jsonl", process.stderr.readline())

    def test_the_model_is_the_only_one_there_is(self):
        self.write("in.jsonl", prompts(2))
        sim = self.sim("--models", "only")
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", sim.url)[0], 0)
        self.assertEqual({r["response"]["body"]["model"] for r in read_jsonl(self.path("in.results.jsonl"))}, {"only"})

    def test_text_csv_standard_input_and_gzip(self):
        self.write("a.txt", "one\ntwo\n")
        self.write("b.csv", "topic,custom_id\nbees,x\nsea,y\n")
        with gzip.open(self.path("c.jsonl.gz"), "wt") as handle:
            handle.write(prompts(2))
        for words, stem in ((["a.txt"], "a"), (["b.csv", "--template", "About {{topic}}"], "b"), (["c.jsonl.gz"], "c")):
            code, _, err = self.nightshift("run", *words, "--backend", "sim", "--system", "Be brief.")
            self.assertEqual(code, 0, err)
            self.assertEqual(len(read_jsonl(self.path(stem + ".results.jsonl"))), 2)
        code, _, err = self.nightshift("run", "-", "--backend", "sim", input=prompts(4).encode())
        self.assertEqual(code, 0, err)
        self.assertEqual(len(read_jsonl(self.path("stdin.results.jsonl"))), 4)
        code, _, err = self.nightshift("run", "-", "--backend", "sim", input=prompts(4).encode())
        self.assertIn("Already complete", err)

    # A pipe can be read only once; the input is read several times.
    def test_a_process_substitution_is_an_input(self):
        done = subprocess.run(["bash", "-c", "\"$0\" run <(printf '{\"prompt\":\"a\"}\\n{\"prompt\":\"b\"}\\n') "
                               "--backend sim -o out.jsonl", PROGRAM], cwd=self.folder, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(read_jsonl(self.path("out.jsonl"))), 2)

    def test_a_file_whose_name_begins_with_a_dash(self):
        self.write("-x.jsonl", prompts(2))
        code, _, err = self.nightshift("run", "--backend", "sim", "-o", "x.out", "--", "-x.jsonl")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(read_jsonl(self.path("x.out"))), 2)

    def test_output_to_standard_output_and_to_a_device(self):
        self.write("in.jsonl", prompts(2))
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "-o", "-")
        self.assertEqual(code, 0, err)
        self.assertEqual(len([json.loads(line) for line in out.splitlines()]), 2)
        before = os.stat("/dev/null")
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim", "-o", "/dev/null")[0], 0)
        self.assertEqual(os.stat("/dev/null").st_rdev, before.st_rdev)


class Again(CliCase):
    # The same command is the same job.
    def test_when_all_is_done_the_files_are_written_again_without_a_call(self):
        self.write("in.jsonl", prompts(20))
        sim = self.sim()
        words = ["run", "in.jsonl", "--backend", sim.url]
        self.assertEqual(self.nightshift(*words)[0], 0)
        with open(self.path("in.results.jsonl"), "rb") as handle:
            first = handle.read()
        self.assertEqual(len(self.sim_calls()), 20)
        os.remove(self.path("in.results.jsonl"))
        self.assertEqual(sim.end(), 0)  # nobody to ask, and nobody is asked
        code, _, err = self.nightshift(*words)
        self.assertEqual(code, 0, err)
        self.assertIn("Already complete: 20 of 20. Files written again, no request sent.", err)
        with open(self.path("in.results.jsonl"), "rb") as handle:
            self.assertEqual(handle.read(), first)

    # No answer is attached to another prompt.
    def test_an_edited_input_is_refused_while_the_old_job_has_the_file(self):
        self.write("in.jsonl", prompts(5))
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim")[0], 0)
        with open(self.path("in.results.jsonl"), "rb") as handle:
            first = handle.read()
        self.write("in.jsonl", '{"prompt":"new first line"}\n' + prompts(5))
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim")
        self.assertEqual(code, 2)
        self.assertRegex(err, r"belongs to job_\w+ \(in.jsonl, 5 of 5 done\)")
        self.assertIn("--force", err)
        with open(self.path("in.results.jsonl"), "rb") as handle:
            self.assertEqual(handle.read(), first)
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim", "--force")[0], 0)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 6)
        # The file is the new job's from now on, without --force.
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim")
        self.assertEqual(code, 0, err)

    def test_a_file_of_somebody_else_is_not_overwritten(self):
        self.write("in.jsonl", prompts(2))
        for name in ("in.results.jsonl", "in.errors.jsonl"):
            self.write(name, "precious\n")
            code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim")
            self.assertEqual(code, 2)
            self.assertIn(f"{name} exists", err)
            with open(self.path(name)) as handle:
                self.assertEqual(handle.read(), "precious\n")
            os.remove(self.path(name))

    def test_options_that_change_the_requests_make_another_job(self):
        self.write("in.jsonl", prompts(2))
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim")[0], 0)
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "--max-tokens", "7", "-o", "b.jsonl")
        self.assertEqual(code, 0, err)
        self.assertNotIn("Already", err)
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "--name", "only a name")
        self.assertIn("Already complete", err)


class Refused(CliCase):
    def test_bad_lines_are_all_listed_and_nothing_runs(self):
        self.write("in.jsonl", '{"custom_id":"x","prompt":"a"}\n{"custom_id":"a17","messages":"text"}\n'
                               '{"prompt":"b\n{"custom_id":"x","prompt":"c"}\n{"prompt":"d"}\n')
        sim = self.sim()
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", sim.url)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("in.jsonl: 3 of 5 lines cannot be used; nothing was run", err)
        self.assertRegex(err, r'line 2 +"a17" ')
        self.assertRegex(err, r"line 3 +- ")
        self.assertRegex(err, r'line 4 +"x" +custom_id: same custom_id as line 1')
        self.assertIn("the other 2 with --skip-bad-lines", err)
        self.assertEqual(self.sim_calls(), [])
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "--json")
        self.assertEqual((code, out), (2, ""))
        document = json.loads(err)
        self.assertEqual(document["code"], "refused_input")
        self.assertEqual([bad["line"] for bad in document["bad_lines"]], [2, 3, 4])

    def test_skip_bad_lines_runs_the_others_and_records_the_bad_ones(self):
        self.write("in.jsonl", '{"prompt":"a"}\nnonsense\n{"prompt":"b"}\n')
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "--skip-bad-lines")
        self.assertEqual(code, 3, err)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 2)
        errors = read_jsonl(self.path("in.errors.jsonl"))
        self.assertEqual([e["error"]["code"] for e in errors], ["invalid_request_line"])

    def test_an_unwritable_output_is_found_before_the_first_call(self):
        self.write("in.jsonl", prompts(2))
        sim = self.sim()
        for output in ("/proc/x", "missing/folder/x.jsonl", self.folder):
            code, _, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "-o", output)
            self.assertEqual(code, 2, err)
            self.assertIn(output, err)
        self.assertEqual(self.sim_calls(), [])

    def test_the_input_is_never_the_output(self):
        self.write("in.jsonl", prompts(2))
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim", "-o", "in.jsonl", "--force")[0], 2)

    def test_without_a_backend_it_says_which_there_are(self):
        self.write("in.jsonl", prompts(2))
        code, _, err = self.nightshift("run", "in.jsonl")
        self.assertEqual(code, 2)
        self.assertIn("--backend sim", err)

    # Found before anything runs.
    def test_an_unknown_model_names_those_that_are_there(self):
        sim = self.sim("--models", "alpha,beta")
        self.write("in.jsonl", prompts(2))
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "--model", "alpa")
        self.assertEqual(code, 2)
        self.assertIn("alpha, beta", err)
        self.assertIn("did you mean alpha?", err)
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", sim.url)
        self.assertEqual(code, 2)
        self.assertIn("alpha, beta", err)
        self.assertEqual(self.sim_calls(), [])
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", sim.url, "--model", "beta")[0], 0)

    def test_a_backend_that_is_not_there_is_five_and_soon(self):
        self.write("in.jsonl", prompts(2))
        started = time.monotonic()
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "http://127.0.0.1:1/v1")
        self.assertEqual(code, 5)
        self.assertLess(time.monotonic() - started, 10)
        self.assertIn("http://127.0.0.1:1", err)
        self.assertIn("--wait-for-backend", err)

    def test_wait_for_backend_waits_while_it_loads(self):
        self.write("in.jsonl", prompts(2))
        never = self.sim("--loading", "1h")
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", never.url)[0], 5)
        sim = self.sim("--loading", "2s")
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "--wait-for-backend", "60s")
        self.assertEqual(code, 0, err)

    def test_a_data_folder_in_use_is_one_clear_line(self):
        self.write("in.jsonl", prompts(40))
        sim = self.sim("--latency", "500ms")
        first = subprocess.Popen([PROGRAM, "run", "in.jsonl", "--backend", sim.url, "--concurrency", "1"],
                                 cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        self.addCleanup(first.stderr.close)
        self.addCleanup(first.kill)
        self.eventually(lambda: len(self.sim_calls()) >= 1, "the first run works")
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "-o", "other.jsonl")
        self.assertEqual(code, 1)
        self.assertIn("nightshift-data", err)
        # … and meanwhile the other commands reach the running one through the folder.
        code, out, err = self.nightshift("jobs", "--json", "--data-dir", "nightshift-data")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)[0]["counts"]["total"], 40)


class DryRun(CliCase):
    def test_it_counts_and_estimates_and_leaves_no_trace(self):
        self.write("in.jsonl", prompts(100))
        sim = self.sim()
        config = self.write("c.yaml", "backends:\n  priced: {url: '%s', price_prompt_per_million: 1, "
                            "price_completion_per_million: 2}\n" % sim.url)
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "--dry-run", "--max-tokens", "10")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("100 requests, all valid. Nothing was sent.", out)
        self.assertRegex(out, r"prompt tokens +[\d,.k]+ to ")
        self.assertIn("at most 1,000", out)
        self.assertIn("cost            unknown", out)
        code, out, _ = self.nightshift("run", "in.jsonl", "--backend", "priced", "--config", config, "--dry-run",
                                       "--max-tokens", "10", "--json")
        low, high = json.loads(out)["cost_usd"]
        self.assertLess(0, low)
        self.assertLess(low, high)
        self.assertEqual(self.sim_calls(), [])
        self.assertFalse(os.path.exists(self.path("nightshift-data")))
        self.assertFalse(os.path.exists(self.path("in.results.jsonl")))

    def test_it_refuses_what_run_would_refuse(self):
        self.write("in.jsonl", "nonsense\n")
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim", "--dry-run")[0], 2)


class Outcomes(CliCase):
    def test_failed_requests_end_with_three_and_are_explained(self):
        self.write("in.jsonl", prompts(3) + '{"custom_id":"bad","prompt":"<<{\\"status\\":400}>>"}\n')
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim")
        self.assertEqual(code, 3, err)
        self.assertIn("Finished in", err)
        self.assertRegex(err, r"1  invalid request +e\.g\. bad: ")
        self.assertRegex(err, r"errors job_\w+ --class invalid_request")
        self.assertEqual([e["custom_id"] for e in read_jsonl(self.path("in.errors.jsonl"))], ["bad"])

    # Without one answer it ends as well, and says why; so it does when it is run again.
    def test_a_run_of_failures_ends_with_three_and_an_errors_file(self):
        self.write("in.jsonl", prompts(3, '<<{\\"status\\":400}>> %d'))
        sim = self.sim()
        for _ in range(2):
            code, _, err = self.nightshift("run", "in.jsonl", "--backend", sim.url)
            self.assertEqual(code, 3, err)
            self.assertIn("0 succeeded, 3 failed.", err)
            self.assertRegex(err, r"3  invalid request +e\.g\. request-1: ")
            self.assertIn("in.errors.jsonl (3 lines)", err)
            self.assertEqual([e["custom_id"] for e in read_jsonl(self.path("in.errors.jsonl"))],
                             ["request-1", "request-2", "request-3"])
            self.assertEqual(read_jsonl(self.path("in.results.jsonl")), [])
            self.assertEqual(len(self.sim_calls()), 3)

    def test_the_error_policy_ends_with_four(self):
        self.write("in.jsonl", prompts(60, '<<{\\"status\\":400}>> %d'))
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim", "--stop-on-error-rate", "0.5",
                                       "--concurrency", "1")
        self.assertEqual(code, 4, err)
        self.assertIn("Stopped by the error policy", err)

    def test_a_spent_budget_ends_with_four_and_keeps_what_there_is(self):
        self.write("in.jsonl", prompts(60))
        sim = self.sim("--reply-tokens", "100", "--latency", "50ms")
        words = ["run", "in.jsonl", "--backend", sim.url, "--budget-tokens", "500", "--concurrency", "1"]
        code, _, err = self.nightshift(*words)
        self.assertEqual(code, 4, err)
        self.assertIn("budget", err)
        self.assertGreaterEqual(len(read_jsonl(self.path("in.results.jsonl"))), 1)
        self.assertIn("the same run command again with a larger --budget-tokens", err)
        self.assertEqual(self.nightshift(*words)[0], 4)

    # The job goes on, with what it was given and no call for what is answered.
    def test_a_larger_budget_finishes_what_a_smaller_one_began(self):
        self.write("in.jsonl", prompts(60))
        sim = self.sim("--reply-tokens", "100", "--latency", "20ms")
        words = ["run", "in.jsonl", "--backend", sim.url, "--concurrency", "1", "--budget-tokens"]
        self.assertEqual(self.nightshift(*words, "500")[0], 4)
        code, _, err = self.nightshift(*words, "600")
        self.assertEqual(code, 4, err)
        self.assertIn("is spent", err)
        code, _, err = self.nightshift(*words, "1000000")
        self.assertEqual(code, 0, err)
        self.assertNotIn("changes nothing", err)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 60)
        self.assertEqual(len(self.sim_calls()), 60)
        self.assertEqual(self.nightshift("audit", "--data-dir", "nightshift-data")[0], 0)

    # A smaller one as well: what is there is written, and nothing more is called.
    def test_a_budget_can_be_made_smaller(self):
        self.write("in.jsonl", prompts(200))
        sim = self.sim("--reply-tokens", "100", "--latency", "50ms")
        words = ["run", "in.jsonl", "--backend", sim.url, "--concurrency", "1", "--budget-tokens"]
        process = self.start(Process([PROGRAM, *words, "1000000"], cwd=self.folder))
        self.eventually(lambda: len(self.sim_calls()) >= 5, "calls are answered")
        self.assertEqual(process.end(), 143)
        calls = len(self.sim_calls())
        code, _, err = self.nightshift(*words, "200")
        self.assertEqual(code, 4, err)
        self.assertEqual(len(self.sim_calls()), calls)

    def test_a_passed_deadline_ends_with_four(self):
        self.write("in.jsonl", prompts(200))
        sim = self.sim("--latency", "500ms")
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", sim.url, "--deadline", "2s", "--concurrency", "1")
        self.assertEqual(code, 4, err)
        self.assertIn("Expired", err)
        lines = len(read_jsonl(self.path("in.results.jsonl"))) + len(read_jsonl(self.path("in.errors.jsonl")))
        self.assertEqual(lines, 200)

    # retry in a folder nobody runs on, then the same command again.
    def test_retry_and_run_again_finish_what_failed(self):
        self.write("in.jsonl", prompts(5) + '{"custom_id":"flaky","prompt":"<<{\\"status\\":400,\\"times\\":1}>>"}\n')
        sim = self.sim()
        words = ["run", "in.jsonl", "--backend", sim.url]
        self.assertEqual(self.nightshift(*words)[0], 3)
        job = json.loads(self.nightshift("jobs", "--json", "--data-dir", "nightshift-data")[1])[0]["id"]
        code, _, err = self.nightshift("retry", job, "--data-dir", "nightshift-data")
        self.assertEqual(code, 0, err)
        self.assertIn("1 request waits again", err)
        code, _, err = self.nightshift(*words)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), 6)
        # The errors file of the run before says nothing true any more.
        self.assertFalse(os.path.exists(self.path("in.errors.jsonl")))
        self.assertEqual(len(self.sim_calls()), 7)
        self.assertEqual(self.nightshift("audit", "--data-dir", "nightshift-data")[0], 0)


if __name__ == "__main__":
    unittest.main()
