"""What nobody means to do to `run`, and what happens anyway: backends that answer what no backend
should, values and names that are none."""
import http.server
import json
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import (PATIENCE, PROGRAM, Coordinator, Process, TestCase,  # noqa: E402
                                chat_line, read_jsonl, run)

ANSWER = {"id": "x", "object": "chat.completion",
          "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
          "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}


class Backend:
    """Answers each prompt with the pair (status, body) that `answers` has for it, else with ANSWER; not
    before `gate`, and of its models it tells nothing before `loaded`, where there are such."""

    def __init__(self, answers, gate=None, models=("m",), loaded=None):
        self.calls = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if loaded is not None and not loaded.is_set():
                    return self.reply(503, b'{"error":{"message":"Loading model"}}')
                self.reply(200, json.dumps({"object": "list", "data": [{"id": m} for m in models]}).encode())

            def do_POST(self):
                outer.calls.append(self.path)
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if gate is not None:
                    gate.wait(PATIENCE)
                prompt = body["messages"][-1]["content"]
                status, answer = answers.get(prompt, (200, ANSWER))
                self.reply(status, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            def reply(self, status, body):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class HostileBackend(TestCase):
    def run_against(self, answers, *options):
        backend = Backend(answers)
        self.addCleanup(backend.close)
        prompts = [*answers, "fine"]
        self.write("in.jsonl", "".join(chat_line(p, p) + "\n" for p in prompts))
        return run("run", "in.jsonl", "--backend", backend.url, *options, cwd=self.folder)

    # Rejections are quoted in the summary; what is quoted need not be text.
    def test_an_error_of_any_shape_is_recorded_and_told(self):
        shapes = [{"error": {"message": {"a": 1}}}, {"error": {"message": 5}}, {"error": [1]}, {"message": 7}, None]
        for shape in shapes:
            with self.subTest(shape=shape):
                self.folder = self.path("shape-%d" % shapes.index(shape))
                os.mkdir(self.folder)
                code, _, err = self.run_against({"odd": (400, shape)})
                self.assertEqual(code, 3, err)
                self.assertIn("1  invalid request", err)
                self.assertEqual([e["response"]["body"] for e in read_jsonl(self.path("in.errors.jsonl"))], [shape])
                self.folder = os.path.dirname(self.folder)

    def test_names_of_models_are_shown_as_one_line_of_text(self):
        backend = Backend({}, models=["m\u001b[31m\n"])
        self.addCleanup(backend.close)
        self.write("in.jsonl", '{"prompt":"a"}\n')
        code, _, err = run("run", "in.jsonl", "--backend", backend.url, cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.assertIn(r": m\x1b[31m\n", err)
        code, _, err = run("run", "in.jsonl", "--backend", backend.url, "--model", "x", "--force", cwd=self.folder)
        self.assertEqual(code, 2)
        self.assertIn(r"models there: m\x1b[31m\n", err)

    def test_token_counts_that_cannot_be_do_not_spoil_the_sums(self):
        huge = 2**63 - 1
        usages = [{"prompt_tokens": huge, "completion_tokens": huge}, {"prompt_tokens": 5, "completion_tokens": -4},
                  {"prompt_tokens": 10**30, "completion_tokens": 1e300}]
        answers = {f"p{i}": (200, {**ANSWER, "usage": u}) for i, u in enumerate(usages)}
        code, out, err = self.run_against(answers, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out.splitlines()[-1])["tokens"], {"prompt": 5 + 3, "completion": 4})
        recorded = read_jsonl(self.path("in.results.jsonl"))
        self.assertEqual([r["response"]["body"]["usage"] for r in recorded][:3], usages)


class Values(TestCase):
    def setUp(self):
        super().setUp()
        self.write("ok.jsonl", '{"prompt":"a"}\n{"prompt":"b"}\n')

    def refused(self, *options):
        code, out, err = run("run", "ok.jsonl", "--backend", "sim", *options, cwd=self.folder)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(os.listdir(self.folder), ["ok.jsonl"])
        self.assertEqual(len(err.splitlines()), 1, err)
        return err

    # An unset variable in a script must not become the folder "/".
    def test_an_empty_value_is_refused(self):
        for flag in ("--data-dir", "--output", "--errors", "--config"):
            self.assertIn(f"{flag}: \"\" is empty", self.refused(flag, ""))

    # The job is found again by the hash of its input, so that must be the input that it got.
    def test_an_input_that_changes_before_it_is_handed_in_is_not_run(self):
        loaded = threading.Event()
        backend = Backend({}, loaded=loaded)
        self.addCleanup(backend.close)
        process = self.start(Process([PROGRAM, "run", "ok.jsonl", "--backend", backend.url,
                                      "--wait-for-backend", "1m"], cwd=self.folder))
        process.wait_for("^Waiting up to")
        self.write("ok.jsonl", '{"prompt":"a"}\n{"prompt":"b"}\n{"prompt":"c"}\n')
        loaded.set()
        self.assertEqual(process.wait(), 2)
        self.assertIn("error: ok.jsonl was changed while it was read", "\n".join(process.err))
        self.assertEqual(backend.calls, [])
        code, _, err = run("run", "ok.jsonl", "--backend", backend.url, cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(backend.calls), 3)
        self.assertEqual(len(read_jsonl(self.path("ok.results.jsonl"))), 3)

    def test_values_that_would_mean_the_opposite_are_refused(self):
        for flag, value in (("--deadline", "0s"), ("--request-timeout", "0s"), ("--budget-usd", "0"),
                            ("--stop-on-error-rate", "0"), ("--request-timeout", "99999999h"),
                            ("--max-attempts", "4294967297")):
            self.assertIn(f"{flag}: \"{value}\"", self.refused(flag, value))

    def test_an_option_that_comes_too_late_is_named(self):
        self.assertEqual(run("run", "ok.jsonl", "--backend", "sim", "--deadline", "1h", cwd=self.folder)[0], 0)
        code, _, err = run("run", "ok.jsonl", "--backend", "sim", "--deadline", "1h", "--budget-tokens", "5",
                           "--max-attempts", "3", cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.assertIn("this changes nothing now: --max-attempts, --budget-tokens\n", err)

    def test_texts_that_are_not_utf_8_are_refused(self):
        for flag, value in (("--name", b"\xff"), ("--label", b"k=\xff"), ("--model", b"\xff")):
            self.assertIn("is not UTF-8 text", self.refused(flag, os.fsdecode(value)))

    def test_a_file_for_an_option_that_is_not_there_is_named(self):
        self.assertEqual(self.refused("--system", "@gone"), "error: --system: there is no file gone\n")

    def test_file_names_are_bytes(self):
        name = os.fsdecode(b"caf\xe9")
        os.rename(self.path("ok.jsonl"), self.path(name + ".jsonl"))
        for said in ("Done", "Already complete"):
            code, _, err = run("run", name + ".jsonl", "--backend", "sim", cwd=self.folder)
            self.assertEqual(code, 0, err)
            self.assertIn(said, err)
        self.assertEqual(len(read_jsonl(self.path(name + ".results.jsonl"))), 2)

    def test_a_file_that_is_not_the_job_s_is_kept(self):
        code, out, err = run("run", "ok.jsonl", "--backend", "sim", "--json", cwd=self.folder)
        job = json.loads(out.splitlines()[-1])["id"]
        before = os.stat(self.path("ok.jsonl"))
        for command in ("results", "errors"):
            code, _, err = run(command, job, "-o", "ok.jsonl", cwd=self.folder)
            self.assertEqual((code, err.splitlines()[0]), (2, "error: ok.jsonl exists and is not this job's file"))
        self.assertEqual(os.stat(self.path("ok.jsonl")), before)
        for _ in range(2):
            self.assertEqual(run("results", job, "-o", "new", cwd=self.folder)[0], 0)

    # Two runs, each with a data folder of its own, that began before either had written the file.
    def test_a_file_that_another_run_wrote_meanwhile_is_kept(self):
        gate = threading.Event()
        backend = Backend({}, gate)
        self.addCleanup(backend.close)
        slow = self.start(Process([PROGRAM, "run", "ok.jsonl", "--backend", backend.url, "-o", "out",
                                   "--data-dir", "a"], cwd=self.folder))
        slow.wait_for("^State ")
        code, _, err = run("run", "ok.jsonl", "--backend", "sim", "-o", "out", "--data-dir", "b", cwd=self.folder)
        self.assertEqual(code, 0, err)
        with open(self.path("out"), "rb") as handle:
            before = handle.read()
        gate.set()
        self.assertEqual(slow.wait(), 1)
        self.assertIn("error: out was written by something else while this job ran", slow.err)
        with open(self.path("out"), "rb") as handle:
            self.assertEqual(handle.read(), before)

    # The socket by which the other commands reach a run is named by a URI.
    def test_any_name_of_a_data_folder_leads_to_its_run(self):
        gate = threading.Event()
        backend = Backend({}, gate)
        self.addCleanup(backend.close)
        data = "100%20 a?b#c:d;e"
        process = self.start(Process([PROGRAM, "run", "ok.jsonl", "--backend", backend.url, "--data-dir", data],
                                     cwd=self.folder))
        process.wait_for("^State ")
        code, out, err = run("jobs", "--json", "--data-dir", data, cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.assertIn(json.loads(out)[0]["state"], ("queued", "running"))
        gate.set()
        self.assertEqual(process.wait(), 0)

    # As on a file system that has no sockets.
    def test_a_run_does_without_a_socket(self):
        os.makedirs(self.path("data/nightshift.sock"))
        code, _, err = run("run", "ok.jsonl", "--backend", "sim", "--data-dir", "data", cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.assertIn("warning: no socket can be made in data", err)

    # A folder with other things in it may be the data folder too.
    def test_nothing_in_the_data_folder_is_removed(self):
        for kept in ("tmp", "spool", "other"):
            os.mkdir(self.path(kept))
            self.write(f"{kept}/mine", "precious")
        code, _, err = run("run", "ok.jsonl", "--backend", "sim", "--data-dir", ".", cwd=self.folder)
        self.assertEqual(code, 0, err)
        for kept in ("tmp", "spool", "other"):
            self.assertTrue(os.path.exists(self.path(f"{kept}/mine")), kept)

    # The next file that is opened would get the number of the closed stream, and the messages.
    def test_closed_streams_are_not_mistaken_for_files_of_the_store(self):
        done = subprocess.run(["sh", "-c", 'exec "$0" "$@" 2>&- <&-', PROGRAM, "run", "ok.jsonl", "--backend", "sim",
                               "--data-dir", "data"], cwd=self.folder, stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        for folder, _, names in os.walk(self.path("data")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as handle:
                    self.assertNotIn(b"simulated answers", handle.read(), name)
        done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', PROGRAM, "jobs", "--data-dir", "data"],
                              cwd=self.folder, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (1, b"error: standard output: Bad file descriptor\n"))

    def test_a_named_pipe_gets_the_whole_output(self):
        os.mkfifo(self.path("pipe"))
        reader = self.start(Process(["cat", "pipe"], cwd=self.folder))
        code, _, err = run("run", "ok.jsonl", "--backend", "sim", "-o", "pipe", cwd=self.folder, timeout=60)
        self.assertEqual((code, reader.wait()), (0, 0), err)
        self.assertEqual(len(reader.out), 2)

    def test_the_input_is_not_the_output_by_another_name_either(self):
        os.symlink("ok.jsonl", self.path("symbolic"))
        os.link(self.path("ok.jsonl"), self.path("hard"))
        for name in ("symbolic", "hard"):
            code, _, err = run("run", "ok.jsonl", "--backend", "sim", "-o", name, "--force", cwd=self.folder)
            self.assertEqual(code, 2)
            self.assertIn(f"{name} is the input", err)

    def test_a_proxy_of_the_environment_is_not_asked_for_the_coordinator(self):
        coordinator = self.start(Coordinator(self.path("data")))
        for variable in ("http_proxy", "https_proxy", "grpc_proxy"):
            code, out, err = run("jobs", "--coordinator", coordinator.address, env={variable: "http://127.0.0.1:9"})
            self.assertEqual((code, out), (0, "No jobs.\n"), err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
