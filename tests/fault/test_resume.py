"""A job that was interrupted, and what is left of it: which requests run again, and what is in the files.
The backend's log tells who was called.

NIGHTSHIFT_RESUME_REQUESTS (default 1000): of the job that is killed one request before its end.
"""
import collections
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PROGRAM, Process, TestCase, Witness, chat_line, read_jsonl, run

REQUESTS = int(os.environ.get("NIGHTSHIFT_RESUME_REQUESTS", "1000"))


class Resume(TestCase):
    def setUp(self):
        super().setUp()
        self.witness = self.start(Witness(self.folder))

    def write_job(self, faults):
        """`faults`: custom_id -> what the backend does with it."""
        self.ids = list(faults)
        self.write("in.jsonl", "".join(
            chat_line(c, f"<<{json.dumps({'key': c, **fault})}>> say {c}") + "\n" for c, fault in faults.items()))

    def words(self, *options):
        return ["run", "in.jsonl", "--backend", self.witness.url, "--concurrency", "32", *options]

    def again(self, *options):
        return run(*self.words(*options), cwd=self.folder)

    def succeeded(self):
        code, out, _ = run("jobs", "--json", "--data-dir", self.path("nightshift-data"))
        jobs = json.loads(out) if code == 0 else []
        return jobs[0]["counts"]["succeeded"] if jobs else 0

    def calls(self):
        return collections.Counter(call["key"] for call in self.witness.calls())

    def files(self):
        return read_jsonl(self.path("in.results.jsonl")), read_jsonl(self.path("in.errors.jsonl"))

    # All that was answered is there, and only the last one is called again.
    def test_killed_one_request_before_the_end_only_that_one_runs_again(self):
        self.write_job({f"r-{i}": {} for i in range(REQUESTS - 1)} | {"last": {"delay": 3600, "times": 1}})
        process = self.start(Process([PROGRAM, *self.words()], cwd=self.folder))
        self.eventually(lambda: self.succeeded() == REQUESTS - 1, "all but one are answered")
        process.kill()
        code, _, err = self.again()
        self.assertEqual(code, 0, err)
        self.assertIn(f"{REQUESTS - 1:,} of {REQUESTS:,} done, 1 to go", err)
        self.check_files_cover(*self.files(), self.ids)
        calls = self.calls()
        self.assertEqual(calls.pop("last"), 2)
        self.assertEqual(set(calls.values()), {1})

    # A file is written from what is recorded; what stands in it says nothing about what is done.
    def test_a_file_that_was_cut_is_written_anew_without_a_call(self):
        self.write_job({f"r-{i}": {"status": 400} if i % 5 == 0 else {} for i in range(40)})
        self.assertEqual(self.again()[0], 3)
        whole = {}
        for name in ("in.results.jsonl", "in.errors.jsonl"):
            with open(self.path(name), "rb") as handle:
                whole[name] = handle.read()
            with open(self.path(name), "wb") as handle:
                handle.write(whole[name][:len(whole[name]) * 2 // 3])
        code, _, err = self.again()
        self.assertEqual(code, 3, err)
        for name, content in whole.items():
            with open(self.path(name), "rb") as handle:
                self.assertEqual(handle.read(), content)
        self.assertEqual(set(self.calls().values()), {1})

    # Neither does a file that is there while the job is not done.
    def test_an_interrupted_job_goes_on_although_its_file_is_there(self):
        self.write_job({f"r-{i}": {} for i in range(20)} | {f"slow-{i}": {"delay": 3600, "times": 1} for i in range(5)})
        process = self.start(Process([PROGRAM, *self.words()], cwd=self.folder))
        self.eventually(lambda: self.succeeded() == 20, "the quick ones are answered")
        process.send(signal.SIGINT)
        process.wait_for("Stopping")
        process.send(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        job = json.loads(run("jobs", "--json", "--data-dir", self.path("nightshift-data"))[1])[0]["id"]
        code, _, err = run("results", job, "--data-dir", self.path("nightshift-data"), "-o", "in.results.jsonl",
                           cwd=self.folder)
        self.assertEqual(code, 0, err)
        code, _, err = self.again()
        self.assertEqual(code, 0, err)
        self.check_files_cover(*self.files(), self.ids)
        calls = self.calls()
        self.assertEqual({c: n for c, n in calls.items() if n != 1}, {f"slow-{i}": 2 for i in range(5)})

    # Half an input is no job: nothing of it is called, and it is handed in again, whole.
    def test_killed_while_the_input_is_handed_in_it_begins_again_with_all_of_it(self):
        filler = "x" * (256 << 10)
        self.ids = [f"h-{i}" for i in range(160)]
        self.write("in.jsonl", "".join(
            chat_line(c, f"<<{json.dumps({'key': c})}>> {filler}") + "\n" for c in self.ids))
        process = self.start(Process([PROGRAM, *self.words()], cwd=self.folder))
        self.eventually(lambda: self.stored_bytes() > 4 << 20, "a part of the input is in the store")
        process.kill()
        code, out, err = run("jobs", "--json", "--data-dir", self.path("nightshift-data"))
        self.assertEqual((code, out.strip()), (0, "[]"), err)
        self.assertEqual(self.witness.calls(), [])
        code, _, err = self.again()
        self.assertEqual(code, 0, err)
        self.check_files_cover(*self.files(), self.ids)
        self.assertEqual(self.calls(), {c: 1 for c in self.ids})

    def stored_bytes(self):
        total = 0
        for folder, _, names in os.walk(self.path("nightshift-data")):
            for name in names:
                try:
                    total += os.path.getsize(os.path.join(folder, name))
                except OSError:
                    pass  # renamed or removed meanwhile
        return total

    # The pipe that nobody reads holds it up when all is answered and nothing is written.
    def test_killed_between_the_last_answer_and_the_files_it_writes_them_without_a_call(self):
        self.write_job({f"r-{i}": {"status": 400} if i % 5 == 0 else {} for i in range(40)})
        os.mkfifo(self.path("pipe"))
        process = self.start(Process([PROGRAM, *self.words("-o", "pipe")], cwd=self.folder))
        self.eventually(lambda: len(self.witness.calls()) == 40, "all calls have ended")
        self.eventually(lambda: self.states() == ["completed"], "all is answered")
        self.assertIsNone(process.process.poll())
        process.kill()
        code, _, err = self.again()
        self.assertEqual(code, 3, err)
        self.check_files_cover(*self.files(), self.ids)
        self.assertEqual(self.calls(), {c: 1 for c in self.ids})

    def states(self):
        code, out, _ = run("jobs", "--json", "--data-dir", self.path("nightshift-data"))
        return [job["state"] for job in json.loads(out)] if code == 0 else []

    # An answer belongs to a prompt, not to a place in a file.
    def test_an_interrupted_job_is_not_resumed_with_another_input(self):
        self.write_job({f"r-{i}": {} for i in range(10)} | {"slow": {"delay": 3600, "times": 1}})
        process = self.start(Process([PROGRAM, *self.words()], cwd=self.folder))
        self.eventually(lambda: self.succeeded() == 10, "the quick ones are answered")
        process.kill()
        self.eventually(lambda: self.witness.counters()["in_flight"] == 0, "the backend noticing")
        with open(self.path("in.jsonl")) as handle:
            before = handle.read()
        self.write("in.jsonl", chat_line("first", "a new first line") + "\n" + before)
        calls = self.calls()
        code, _, err = self.again()
        self.assertEqual(code, 2, err)
        self.assertIn("10 of 11 done", err)
        self.assertEqual(self.calls(), calls)
        self.write("in.jsonl", before)
        code, _, err = self.again()
        self.assertEqual(code, 0, err)
        self.check_files_cover(*self.files(), self.ids)
        self.assertEqual({c: n for c, n in self.calls().items() if n != 1}, {"slow": 2})

    # Whatever becomes of a request, it is in one of the files. Each kind once: ten failures in a row are
    # taken for a backend that is down, and waited for.
    def test_answers_rejections_and_silences_are_all_in_a_file(self):
        failing = [{"status": 400}, {"status": 404}, {"status": 500}, {"hang": True}, {"drop": "before"},
                   {"drop": "mid"}, {"garbage": True}, {"null": True}, {"stub": True}]
        answered = [{}, {"length": True}, {"status": 500, "times": 1}, {"drop": "mid", "times": 1}]
        self.write_job({f"bad-{i}": fault for i, fault in enumerate(failing)} |
                       {f"good-{i}": answered[i % len(answered)] for i in range(40)})
        code, _, err = self.again("--request-timeout", "1s", "--max-attempts", "3")
        self.assertEqual(code, 3, err)
        results, errors = self.files()
        self.check_files_cover(results, errors, self.ids)
        self.assertEqual({e["custom_id"] for e in errors}, {f"bad-{i}" for i in range(len(failing))})
        code, out, err = run("audit", "--data-dir", self.path("nightshift-data"))
        self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    unittest.main()
