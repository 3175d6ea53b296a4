"""Batches from creation to their files: what is refused when, counts, files, cancel, expiry, retries."""
import json
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import CHAT, ApiCase, requests  # noqa: E402
from nightshift_testing import PATIENCE, chat_line, run  # noqa: E402

KEYS = ["id", "object", "endpoint", "model", "errors", "input_file_id", "completion_window", "status",
        "output_file_id", "error_file_id", "created_at", "in_progress_at", "expires_at", "finalizing_at",
        "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at", "request_counts", "usage",
        "metadata", "nightshift"]
ENDS = ("failed", "completed", "expired", "cancelled")


class RefusedAtCreation(ApiCase):
    """400, and no batch is made."""

    def refused(self, reply, code, param, pattern="."):
        self.assertEqual(reply.status, 400, reply.body)
        error = reply.error
        self.assertEqual((error["type"], error["code"], error["param"]), ("invalid_request_error", code, param))
        self.assertRegex(error["message"], pattern)
        self.assertEqual(self.call("GET", "/v1/batches").json["data"], [])

    def test_missing_parameters(self):
        for name in ("input_file_id", "endpoint", "completion_window"):
            for nothing in (..., None):
                self.refused(self.create("file-x", **{name: nothing}), "missing_required_parameter", name,
                             f"^Missing required parameter: '{name}'.$")

    def test_bad_values(self):
        for name, value in (("endpoint", "/v1/nothing"), ("completion_window", "soon"), ("completion_window", "0s"),
                            ("completion_window", "400d")):
            self.refused(self.create("file-x", **{name: value}), "invalid_value", name, name.split("_")[0])
        self.refused(self.create("file-x", nightshift={"prioritee": 1}), "invalid_value", "nightshift.prioritee")
        self.refused(self.create("file-x", nightshift={"max_attempts": 0}), "invalid_value", "nightshift.max_attempts")
        after = {"anchor": "created_at", "seconds": 60}
        self.refused(self.create("file-x", output_expires_after=after), "invalid_value", "output_expires_after.seconds")
        after = {"anchor": "last_used", "seconds": 3600}
        self.refused(self.create("file-x", output_expires_after=after), "invalid_value", "output_expires_after.anchor")

    def test_bad_types(self):
        self.refused(self.create(7), "invalid_type", "input_file_id")
        self.refused(self.create("file-x", metadata={"tags": ["a"]}), "invalid_type", "metadata.tags",
                     r"^Invalid type for 'metadata.tags': expected a string, but got an array instead.$")
        self.refused(self.create("file-x", metadata=[]), "invalid_type", "metadata")
        self.refused(self.create("file-x", nightshift={"priority": "high"}), "invalid_type", "nightshift.priority")

    def test_limits_of_metadata(self):
        for metadata in ({f"k{i}": "v" for i in range(17)}, {"k" * 65: "v"}, {"k": "v" * 513}):
            reply = self.create("file-x", metadata=metadata)
            self.assertEqual((reply.status, reply.error["code"]), (400, "invalid_value"))

    def test_bodies_that_are_none(self):
        for body in (b"", b"[]", b"nothing", b'{"a":' * 1000, b'{"input_file_id":"\xff"}'):
            reply = self.call("POST", "/v1/batches", body, {"Content-Type": "application/json"})
            self.assertEqual((reply.status, reply.error["type"]), (400, "invalid_request_error"), body[:20])
        reply = self.call("POST", "/v1/batches", b" " * (2 << 20))
        self.assertEqual((reply.status, reply.error["type"]), (413, "invalid_request_error"))


class RefusedLater(ApiCase):
    """200 and `validating`, then `failed` with every bad line; nothing runs."""

    def failed(self, content, **fields):
        batch = self.until(self.created(self.uploaded(content), **fields), *ENDS)
        self.assertEqual(batch["status"], "failed")
        self.assertIsNotNone(batch["failed_at"])
        self.assertIsNone(batch["output_file_id"])
        self.assertIsNone(batch["error_file_id"])
        self.assertEqual(batch["request_counts"], {"total": 0, "completed": 0, "failed": 0})
        self.assertEqual(batch["errors"]["object"], "list")
        return [(e["code"], e["param"], e["line"]) for e in batch["errors"]["data"]]

    def test_creation_answers_before_the_input_is_read(self):
        reply = self.create(self.uploaded(requests(1)))
        batch = reply.json
        self.assertEqual(list(batch), KEYS)
        self.assertIn(batch["status"], ("validating", "in_progress"))
        self.assertEqual(batch["expires_at"], batch["created_at"] + 86400)

    def test_a_file_that_is_not_there(self):
        batch = self.until(self.created("file-none"), *ENDS)
        self.assertEqual(batch["status"], "failed")
        error = batch["errors"]["data"][0]
        self.assertEqual((error["code"], error["param"], error["line"]), ("invalid_request", "file_id", None))

    def test_a_file_for_another_purpose(self):
        batch = self.until(self.created(self.uploaded(requests(1), purpose="user_data")), *ENDS)
        self.assertEqual(batch["errors"]["data"][0]["param"], "file_id")

    def test_an_empty_file(self):
        for content in (b"", b"\n \n\r\n", b"\xef\xbb\xbf"):
            self.assertEqual(self.failed(content), [("empty_file", None, None)])

    def test_every_kind_of_bad_line(self):
        good = json.loads(chat_line("good", "x"))

        def line(**changes):
            return json.dumps({k: v for k, v in {**good, **changes}.items() if v is not ...})

        body = good["body"]
        cases = [
            (chat_line("first", "x"), None),
            ("{not json", ("invalid_json_line", None)),
            ("[]", ("invalid_json_line", None)),
            ('"x"', ("invalid_json_line", None)),
            ("1", ("invalid_json_line", None)),
            (line(custom_id=...), ("missing_required_parameter", "custom_id")),
            (line(method=...), ("missing_required_parameter", "method")),
            (line(url=...), ("missing_required_parameter", "url")),
            (line(body=...), ("missing_required_parameter", "body")),
            (line(custom_id="u", url="/v1/embeddings"), ("invalid_url", "url")),
            (line(custom_id="s", body={**body, "stream": True}), ("streaming_unsupported", "body.stream")),
            (line(custom_id="n", body={"messages": body["messages"]}), ("invalid_request", "body.model")),
            (line(custom_id="m", body={"model": "m"}), ("invalid_request", "body.messages")),
            (line(custom_id="g", method="GET"), ("invalid_request", "method")),
            ("", None),
            (line(custom_id="first"), ("duplicate_custom_id", "custom_id")),
            (line(custom_id=""), ("invalid_request", "custom_id")),
            (line(custom_id="x" * 513), ("invalid_request", "custom_id")),
        ]
        expected = [(*error, number) for number, (_, error) in enumerate(cases, 1) if error]
        self.assertEqual(self.failed("\n".join(text for text, _ in cases)), expected)
        self.assertEqual(self.call("GET", "/v1/batches").json["data"][0]["status"], "failed")
        self.assertEqual(json.loads(run("jobs", "--json", "--coordinator", self.coordinator.address)[1]), [])

    def test_a_model_that_no_worker_offers(self):
        self.start_worker()
        self.assertEqual(self.failed(requests(1, model="nobody-has-it")), [("model_not_found", "body.model", 1)])
        batch = self.until(self.created(self.uploaded(requests(1))), *ENDS)
        self.assertEqual((batch["status"], batch["model"]), ("completed", "m"))

    def test_more_bad_lines_than_are_shown(self):
        batch = self.until(self.created(self.uploaded("{}\n" * 1500)), *ENDS)
        self.assertEqual([e["line"] for e in batch["errors"]["data"]], list(range(1, 1001)))
        self.assertEqual(batch["nightshift"]["bad_lines"], 1500)

    # Nobody can take its input away from a batch that is being checked.
    def test_the_input_may_go_once_it_is_checked(self):
        file = self.uploaded(requests(1))
        batch = self.created(file)
        self.until(batch, "in_progress")
        self.assertEqual(self.call("DELETE", f"/v1/files/{file}").status, 200)
        self.assertEqual(self.batch(batch)["input_file_id"], file)


class Running(ApiCase):
    def test_a_batch_from_upload_to_answers(self):
        self.start_worker()
        count = 500
        batch_id = self.created(self.uploaded(requests(count)), metadata={"team": "search"})
        batch = self.until(batch_id, *ENDS)
        self.assertEqual(list(batch), KEYS)
        self.assertEqual(batch["status"], "completed")
        self.assertEqual(batch["request_counts"], {"total": count, "completed": count, "failed": 0})
        self.assertEqual((batch["model"], batch["metadata"]), ("m", {"team": "search"}))
        self.assertIsNone(batch["error_file_id"])
        self.assertIsNone(batch["errors"])
        usage = batch["usage"]
        self.assertGreater(usage["output_tokens"], 0)
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        for name in ("in_progress_at", "finalizing_at", "completed_at"):
            self.assertGreaterEqual(batch[name], batch["created_at"], name)
        for name in ("failed_at", "expired_at", "cancelling_at", "cancelled_at"):
            self.assertIsNone(batch[name], name)
        lines = self.lines(batch["output_file_id"])
        self.assertEqual([line["custom_id"] for line in lines], [f"r{i}" for i in range(count)])
        for line in lines:
            self.assertEqual((line["response"]["status_code"], line["error"]), (200, None))
            self.assertTrue(line["response"]["request_id"])
            self.assertTrue(line["id"].startswith("batch_req_"))
        file = self.call("GET", f"/v1/files/{batch['output_file_id']}").json
        whole = self.content(batch["output_file_id"]).body
        self.assertEqual((file["purpose"], file["bytes"], file["filename"]),
                         ("batch_output", len(whole), f"{batch_id}_output.jsonl"))
        self.assertEqual(file["expires_at"], file["created_at"] + 2592000)
        for first, last in ((0, 9), (1000, 70_000), (len(whole) - 10, len(whole) - 1)):
            part = self.content(batch["output_file_id"], {"Range": f"bytes={first}-{last}"})
            self.assertEqual((part.status, part.body), (206, whole[first:last + 1]))
        reply = self.call("POST", f"/v1/batches/{batch_id}/cancel")
        self.assertEqual((reply.status, reply.headers["x-should-retry"]), (409, "false"))
        self.assertEqual(reply.error, {"message": "Cannot cancel a batch with status 'completed'.",
                                       "type": "invalid_request_error", "param": None, "code": None})
        # The same job, seen from the command line.
        job = "job_" + batch_id[len("batch_"):]
        code, out, _ = run("results", job, "--coordinator", self.coordinator.address)
        self.assertEqual((code, out.encode()), (0, whole))
        # Gone for the API, not for the job.
        self.assertEqual(self.call("DELETE", f"/v1/files/{batch['output_file_id']}").status, 200)
        self.assertEqual(self.content(batch["output_file_id"]).status, 404)
        self.assertEqual(run("results", job, "--coordinator", self.coordinator.address)[1].encode(), whole)

    # A file is named when all of it can be read.
    def test_a_file_can_be_read_the_moment_it_is_named(self):
        self.start_worker()
        batch_id = self.created(self.uploaded(requests(300)))
        end = time.monotonic() + PATIENCE
        while not (batch := self.batch(batch_id))["output_file_id"]:
            self.assertLess(time.monotonic(), end, batch)
        self.assertEqual(len(self.lines(batch["output_file_id"])), 300)
        self.assertEqual(batch["request_counts"]["completed"], 300)

    def test_lines_that_fail_when_they_run(self):
        self.start_worker()
        failing = requests(3, '<<{"status":400}>> %d').replace('"custom_id": "r', '"custom_id": "f')
        batch = self.until(self.created(self.uploaded(requests(2) + failing)), *ENDS)
        self.assertEqual(batch["status"], "completed")
        self.assertEqual(batch["request_counts"], {"total": 5, "completed": 2, "failed": 3})
        self.assertEqual(len(self.lines(batch["output_file_id"])), 2)
        for line in self.lines(batch["error_file_id"]):
            self.assertEqual((line["response"]["status_code"], line["error"]), (400, None))
            self.assertIn("error", line["response"]["body"])
        batch = self.until(self.created(self.uploaded(failing)), *ENDS)
        self.assertEqual((batch["status"], batch["output_file_id"]), ("completed", None))
        self.assertEqual(len(self.lines(batch["error_file_id"])), 3)

    def test_a_batch_that_is_cancelled_keeps_what_it_has(self):
        self.start_worker("--latency", "100ms", concurrency=4)
        batch_id = self.created(self.uploaded(requests(400)))
        self.eventually(lambda: self.batch(batch_id)["request_counts"]["completed"] > 0, "answers are there")
        reply = self.call("POST", f"/v1/batches/{batch_id}/cancel")
        self.assertEqual(reply.status, 200, reply.body)
        self.assertIn(reply.json["status"], ("cancelling", "cancelled"))
        self.assertIsNotNone(reply.json["cancelling_at"])
        batch = self.until(batch_id, *ENDS)
        self.assertEqual(batch["status"], "cancelled")
        counts = batch["request_counts"]
        self.assertEqual((counts["total"], counts["failed"]), (400, 0))
        self.assertGreater(counts["completed"], 0)
        output, errors = self.lines(batch["output_file_id"]), self.lines(batch["error_file_id"])
        self.assertEqual((len(output), len(output) + len(errors)), (counts["completed"], 400))
        for line in errors:
            self.assertEqual((line["response"], line["error"]["code"]), (None, "batch_cancelled"))
        again = self.call("POST", f"/v1/batches/{batch_id}/cancel")
        self.assertEqual((again.status, again.json["status"]), (200, "cancelled"))

    def test_a_batch_that_expires_keeps_what_it_has(self):
        self.start_worker("--latency", "100ms", concurrency=2)
        batch_id = self.created(self.uploaded(requests(400)), completion_window="2s")
        batch = self.until(batch_id, *ENDS)
        self.assertEqual(batch["status"], "expired")
        self.assertEqual(batch["expires_at"], batch["created_at"] + 2)
        self.assertGreaterEqual(batch["expired_at"], batch["expires_at"])
        counts = batch["request_counts"]
        self.assertEqual((counts["total"], counts["failed"]), (400, 0))
        output, errors = self.lines(batch["output_file_id"]), self.lines(batch["error_file_id"])
        self.assertEqual((len(output), len(output) + len(errors)), (counts["completed"], 400))
        self.assertEqual({line["error"]["code"] for line in errors}, {"batch_expired"})
        self.assertEqual(self.call("POST", f"/v1/batches/{batch_id}/cancel").status, 409)

    # Its end is the one that is shown, and stays.
    def test_a_batch_that_its_error_policy_stops_is_shown_as_failed(self):
        self.start_worker("--latency", "20ms", concurrency=2)
        batch_id = self.created(self.uploaded(requests(300, '<<{"status":400}>> %d')),
                                nightshift={"stop_on_error_rate": 0.5})
        batch = self.until(batch_id, "finalizing", *ENDS)
        self.assertEqual(batch["status"], "failed")
        self.assertIsNotNone(batch["failed_at"])
        for name in ("finalizing_at", "completed_at", "cancelled_at", "expired_at"):
            self.assertIsNone(batch[name], name)
        counts = batch["request_counts"]
        self.assertEqual((counts["total"], counts["completed"]), (300, 0))
        self.assertIsNone(batch["output_file_id"])
        lines = self.lines(batch["error_file_id"])
        self.assertEqual([line["custom_id"] for line in lines], [f"r{i}" for i in range(300)])
        rejected = [line for line in lines if line["response"]]
        self.assertEqual({line["response"]["status_code"] for line in rejected}, {400})
        self.assertEqual({line["error"]["code"] for line in lines if not line["response"]}, {"job_stopped"})
        self.assertEqual(counts["failed"], len(rejected))
        self.assertEqual(self.batch(batch_id), batch)
        self.coordinator.kill()
        self.start_coordinator()
        self.assertEqual(self.batch(batch_id), batch)

    # Whatever was still to be done for its files is done by the next process.
    def test_a_crash_right_after_the_last_answer(self):
        self.start_worker()
        count = 3000
        batch_id = self.created(self.uploaded(requests(count) + requests(1, '<<{"status":400}>>').replace("r0", "bad")))
        self.eventually(lambda: sum(self.batch(batch_id)["request_counts"].values()) == 2 * (count + 1), "all answers")
        self.coordinator.kill()
        self.start_coordinator()
        batch = self.until(batch_id, *ENDS)
        self.assertEqual((batch["status"], batch["request_counts"]),
                         ("completed", {"total": count + 1, "completed": count, "failed": 1}))
        self.assertEqual([line["custom_id"] for line in self.lines(batch["output_file_id"])],
                         [f"r{i}" for i in range(count)])
        self.assertEqual([line["custom_id"] for line in self.lines(batch["error_file_id"])], ["bad"])

    # Page by page while it runs: every line once, in order, and an end that is one.
    def test_results_as_they_come(self):
        self.start_worker("--latency", "20ms", concurrency=8)
        failing = requests(5, '<<{"status":400}>> %d').replace('"custom_id": "r', '"custom_id": "f')
        batch = self.created(self.uploaded(requests(200) + failing))
        for kind, expected in (("output", [f"r{i}" for i in range(200)]), ("error", [f"f{i}" for i in range(5)])):
            ids, after, early = [], "", 0
            while True:
                reply = self.call("GET", f"/v1/batches/{batch}/results?kind={kind}&limit=30&after={after}")
                self.assertEqual(reply.status, 200, reply.body)
                got = [json.loads(line)["custom_id"] for line in reply.body.splitlines()]
                self.assertLessEqual(len(got), 30)
                ids += got
                after = reply.headers["nightshift-after"]
                early += bool(got) and self.batch(batch)["status"] == "in_progress"
                if reply.headers["nightshift-at-end"] == "true":
                    break
                self.assertNotEqual(self.batch(batch)["status"], "failed")
            self.assertEqual(ids, expected)
            if kind == "output":
                self.assertGreater(early, 0, "lines came before the end")
        for query, param in (("after=nonsense", "after"), ("limit=0", "limit"), ("kind=x", "kind")):
            reply = self.call("GET", f"/v1/batches/{batch}/results?{query}")
            self.assertEqual((reply.status, reply.error["param"]), (400, param))
        refused = self.created("file-none")
        self.until(refused, "failed")
        reply = self.call("GET", f"/v1/batches/{refused}/results")
        self.assertEqual((reply.status, reply.body, reply.headers["nightshift-at-end"]), (200, b"", "true"))

    def test_pause_and_resume(self):
        batch_id = self.created(self.uploaded(requests(3)))
        self.until(batch_id, "in_progress")
        reply = self.call("POST", f"/v1/batches/{batch_id}/pause")
        self.assertEqual((reply.status, reply.json["status"]), (200, "in_progress"))
        self.assertEqual((reply.json["nightshift"]["state"], reply.json["nightshift"]["reason"]), ("paused", "user"))
        reply = self.call("POST", f"/v1/batches/{batch_id}/resume")
        self.assertEqual((reply.status, reply.json["nightshift"]["state"]), (200, "queued"))


class Identity(ApiCase):
    def batches(self):
        return self.call("GET", "/v1/batches").json["data"]

    # A client that did not hear the first answer sends the same bytes and says how often.
    def test_a_repeated_creation_makes_one_batch(self):
        file = self.uploaded(requests(1))
        first = self.create(file, headers={"x-stainless-retry-count": "0"}).json["id"]
        again = self.create(file, headers={"x-stainless-retry-count": "1"})
        self.assertEqual((again.status, again.json["id"]), (200, first))
        self.until(first, "in_progress")
        self.coordinator.kill()
        self.start_coordinator()
        self.assertEqual(self.create(file, headers={"x-stainless-retry-count": "2"}).json["id"], first)
        other = self.create(file, headers={"x-stainless-retry-count": "1"}, completion_window="12h").json["id"]
        self.assertNotEqual(other, first)
        wanted = self.create(file, headers={"x-stainless-retry-count": "0"}).json["id"]
        self.assertEqual(len({first, other, wanted}), 3)
        self.assertEqual(len(self.batches()), 3)

    def test_an_idempotency_key(self):
        file = self.uploaded(requests(1))
        for how in ({"headers": {"Idempotency-Key": "k1"}}, {"idempotency_key": "k2"}):
            first = self.create(file, **how).json["id"]
            self.assertEqual(self.create(file, **how).json["id"], first)
            reply = self.create(file, completion_window="12h", **how)
            self.assertEqual((reply.status, reply.headers["x-should-retry"]), (409, "false"))
            self.assertRegex(reply.error["message"], "idempotency key")
        self.assertEqual(len(self.batches()), 2)

    # Whatever a crash interrupts, the batch goes on, once.
    def test_a_crash_while_it_is_validated(self):
        file = self.uploaded(requests(60_000))
        batch = self.created(file)
        self.coordinator.kill()
        self.start_coordinator()
        self.assertEqual(self.until(batch, "in_progress")["request_counts"]["total"], 60_000)
        self.assertEqual([b["id"] for b in self.batches()], [batch])
        jobs = json.loads(run("jobs", "--json", "--coordinator", self.coordinator.address)[1])
        self.assertEqual([job["id"] for job in jobs], ["job_" + batch[len("batch_"):]])

    def test_a_batch_cancelled_while_it_is_validated(self):
        file = self.uploaded(requests(100_000))
        batch = self.created(file)
        reply = self.call("POST", f"/v1/batches/{batch}/cancel")
        self.assertEqual(reply.status, 200, reply.body)
        ended = self.until(batch, *ENDS)
        self.assertEqual((ended["status"], ended["request_counts"]["completed"]), ("cancelled", 0))
        self.assertIsNotNone(ended["cancelled_at"])

    def test_a_job_of_the_command_line_is_a_batch(self):
        path = self.write("in.jsonl", requests(3))
        code, out, err = run("submit", path, "--coordinator", self.coordinator.address, "--deadline", "8h",
                             "--name", "nightly")
        self.assertEqual(code, 0, err)
        batch = self.batch("batch_" + out.strip()[len("job_"):])
        self.assertEqual((batch["status"], batch["endpoint"], batch["request_counts"]["total"]),
                         ("in_progress", CHAT, 3))
        self.assertEqual(batch["expires_at"], batch["created_at"] + 8 * 3600)
        self.assertEqual([b["id"] for b in self.batches()], [batch["id"]])
        self.assertEqual(self.call("POST", f"/v1/batches/{batch['id']}/cancel").status, 200)
        self.assertEqual(self.until(batch["id"], *ENDS)["status"], "cancelled")
        self.assertEqual(run("delete", out.strip(), "--yes", "--coordinator", self.coordinator.address)[0], 0)
        self.assertEqual(self.call("GET", f"/v1/batches/{batch['id']}").status, 404)

    def test_unknown_batches(self):
        for batch in ("batch_000000000000", "batch_x", "nothing", "job_000000000000"):
            for method, path in (("GET", ""), ("POST", "/cancel")):
                reply = self.call(method, f"/v1/batches/{batch}{path}")
                self.assertEqual((reply.status, reply.error["type"]), (404, "invalid_request_error"))
                self.assertIn(f"No batch found with id '{batch}'", reply.error["message"])


if __name__ == "__main__":
    unittest.main()
