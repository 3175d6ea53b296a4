"""Uploads, good and awkward: the right status in the right envelope, and nothing left on disk."""
import gzip
import hashlib
import json
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import ApiCase, form, requests  # noqa: E402

GOOD = requests(3)


class GoodUploads(ApiCase):
    def test_a_file_comes_back_byte_by_byte(self):
        content = ("\ufeff" + GOOD.replace("\n", "\r\n")).encode() + b'{"x":"\x00\\u0000\xff'
        reply = self.upload(content)
        self.assertEqual(reply.status, 200, reply.body)
        self.assertRegex(reply.headers["content-type"], "application/json")
        self.assertRegex(reply.headers["x-request-id"], r"^req_[0-9a-f]+$")
        file = reply.json
        self.assertRegex(file["id"], "^file-")
        self.assertEqual((file["object"], file["bytes"], file["filename"], file["purpose"], file["status"]),
                         ("file", len(content), "in.jsonl", "batch", "processed"))
        self.assertEqual(file["expires_at"], file["created_at"] + 2592000)
        self.assertLess(abs(file["created_at"] - time.time()), 60)
        self.assertEqual(self.call("GET", f"/v1/files/{file['id']}").json, file)
        got = self.content(file["id"], headers={"Accept": "application/binary"})
        self.assertEqual((got.status, got.body), (200, content))
        self.assertEqual(got.headers["content-type"], "application/octet-stream")
        self.assertEqual(int(got.headers["content-length"]), len(content))
        self.assertEqual(self.files_on_disk(), [file["id"]])

    def test_parts_may_come_in_any_order(self):
        parts = [("purpose", None, "batch"), ("expires_after[seconds]", None, "7200"),
                 ("file", "in.jsonl", GOOD), ("expires_after[anchor]", None, "created_at")]
        for order in (parts, parts[::-1], parts[2:] + parts[:2]):
            body, kind = form(order)
            reply = self.call("POST", "/v1/files", body, {"Content-Type": kind})
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(reply.json["expires_at"], reply.json["created_at"] + 7200)
            self.assertEqual(reply.json["bytes"], len(GOOD))

    # A client that streams sends chunks, however they fall on boundaries and line ends.
    def test_chunks_of_any_size(self):
        body, kind = form([("file", "in.jsonl", GOOD), ("purpose", None, "batch")])
        for size in (1, 2, 7, 64, len(body)):
            chunks = [body[i:i + size] for i in range(0, len(body), size)]
            framed = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
            head = (f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n").encode()
            reply = self.raw(head + framed)
            self.assertTrue(reply.startswith(b"HTTP/1.1 200"), (size, reply))
            self.assertEqual(json.loads(reply.split(b"\r\n\r\n", 1)[1])["bytes"], len(GOOD))

    def test_ranges(self):
        content = os.urandom(100_000)
        file = self.uploaded(content, filename="x.bin", purpose="user_data")
        for header, first, last in (("bytes=0-0", 0, 0), ("bytes=10-19", 10, 19), ("bytes=99990-", 99990, 99999),
                                    ("bytes=-5", 99995, 99999), ("bytes=0-999999", 0, 99999),
                                    ("bytes=-200000", 0, 99999)):
            reply = self.content(file, {"Range": header})
            self.assertEqual((reply.status, reply.body), (206, content[first:last + 1]), header)
            self.assertEqual(reply.headers["content-range"], f"bytes {first}-{last}/100000")
        for header in ("bytes=5-2", "bytes=0-1,4-5", "lines=0-1"):
            reply = self.content(file, {"Range": header})
            self.assertIn(reply.status, (200, 416), header)
            if reply.status == 200:
                self.assertEqual(reply.body, content)
        reply = self.content(file, {"Range": "bytes=100000-"})
        self.assertEqual((reply.status, reply.headers["content-range"]), (416, "bytes */100000"))
        self.assertTrue(reply.error["message"])

    def test_head_has_the_length_and_no_body(self):
        file = self.uploaded(GOOD)
        reply = self.call("HEAD", f"/v1/files/{file}/content")
        self.assertEqual((reply.status, reply.body, int(reply.headers["content-length"])), (200, b"", len(GOOD)))

    def test_delete_and_what_comes_after(self):
        file = self.uploaded(GOOD)
        reply = self.call("DELETE", f"/v1/files/{file}")
        self.assertEqual((reply.status, reply.json), (200, {"id": file, "object": "file", "deleted": True}))
        self.assertEqual(self.files_on_disk(), [])
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            reply = self.call(method, f"/v1/files/{file}{path}")
            self.assertEqual((reply.status, reply.error), (404, {
                "message": f"No such File object: {file}", "type": "invalid_request_error", "param": "id",
                "code": None}))

    def test_files_outlive_the_process_and_halves_do_not(self):
        file = self.uploaded(GOOD)
        self.coordinator.kill()
        half = os.path.join(self.data_dir, "files", "file-" + "0" * 25 + ".part")
        stray = os.path.join(self.data_dir, "files", "file-" + "0" * 25)
        foreign = os.path.join(self.data_dir, "files", "notes.txt")
        for path in (half, stray, foreign):
            with open(path, "w") as handle:
                handle.write("x")
        self.start_coordinator()
        self.assertEqual(self.content(file).body, GOOD.encode())
        self.assertEqual(self.files_on_disk(), [file, "notes.txt"])


class Parts(ApiCase):
    def post(self, path, **fields):
        return self.call("POST", path, json.dumps(fields), {"Content-Type": "application/json"})

    def begin(self, content, **fields):
        reply = self.post("/v1/uploads", **{"bytes": len(content), "filename": "in.jsonl", "mime_type": "text/jsonl",
                                            "purpose": "batch", **fields})
        self.assertEqual(reply.status, 200, reply.body)
        upload = reply.json
        self.assertEqual((upload["object"], upload["status"], upload["file"], upload["bytes"]),
                         ("upload", "pending", None, len(content)))
        self.assertEqual(upload["expires_at"], upload["created_at"] + 3600)
        return upload["id"]

    def part(self, upload, content):
        body, kind = form([("data", "blob", content)])
        reply = self.call("POST", f"/v1/uploads/{upload}/parts", body, {"Content-Type": kind})
        if reply.status == 200:
            self.assertEqual((reply.json["object"], reply.json["upload_id"]), ("upload.part", upload))
            return reply.json["id"]
        return reply

    def test_parts_out_of_order_make_the_file(self):
        content = requests(300).encode()
        cuts = [0, 1000, 1001, 20_000, len(content)]
        pieces = [content[a:b] for a, b in zip(cuts, cuts[1:])]
        upload = self.begin(content)
        ids = {i: self.part(upload, pieces[i]) for i in (2, 0, 3, 1)}
        self.assertEqual(self.call("GET", "/v1/files").json["data"], [])
        for i in ids:
            self.assertEqual(self.call("GET", f"/v1/files/{ids[i].replace('part_', 'file-')}").status, 404)
        reply = self.post(f"/v1/uploads/{upload}/complete", part_ids=[ids[i] for i in range(4)],
                          md5=hashlib.md5(content).hexdigest())
        self.assertEqual((reply.status, reply.json["status"]), (200, "completed"), reply.body)
        file = reply.json["file"]
        self.assertEqual((file["bytes"], file["purpose"], file["filename"]), (len(content), "batch", "in.jsonl"))
        self.assertEqual(self.content(file["id"]).body, content)
        self.assertEqual(self.files_on_disk(), [file["id"]])
        self.assertEqual(self.until(self.created(file["id"]), "in_progress")["request_counts"]["total"], 300)
        for path, fields in (("complete", {"part_ids": []}), ("cancel", {})):
            self.assertEqual(self.post(f"/v1/uploads/{upload}/{path}", **fields).status, 409)
        self.assertEqual(self.part(upload, b"x").status, 409)

    # No file comes of it, and another try may still succeed.
    def test_what_does_not_add_up_is_refused(self):
        content = requests(10).encode()
        upload, other = self.begin(content), self.begin(content)
        first, second, foreign = self.part(upload, content[:100]), self.part(upload, content[100:]), self.part(other, content)
        for fields in ({"part_ids": [first]}, {"part_ids": [first, second], "md5": "0" * 32}, {"part_ids": [foreign]},
                       {"part_ids": [first, first]}, {"part_ids": ["part_none"]}, {"part_ids": "x"}, {}):
            reply = self.post(f"/v1/uploads/{upload}/complete", **fields)
            self.assertEqual((reply.status, reply.error["type"]), (400, "invalid_request_error"), fields)
        self.assertEqual(self.call("GET", "/v1/files").json["data"], [])
        self.assertEqual(self.post(f"/v1/uploads/{upload}/complete", part_ids=[first, second]).status, 200)
        self.assertEqual(self.post(f"/v1/uploads/{other}/cancel").json["status"], "cancelled")
        self.assertEqual(self.post("/v1/uploads/upload_none/cancel").status, 404)
        for field in ("filename", "purpose", "mime_type", "bytes"):
            reply = self.post("/v1/uploads", **{k: v for k, v in {"bytes": 1, "filename": "a.jsonl", "mime_type": "x",
                                                                  "purpose": "batch"}.items() if k != field})
            self.assertEqual((reply.status, reply.error["param"]), (400, field))

    def test_a_part_has_a_limit(self):
        upload = self.begin(b"x")
        reply = self.part(upload, b"x" * ((64 << 20) + 1))
        self.assertEqual((reply.status, reply.error["type"]), (413, "invalid_request_error"))
        self.assertEqual(self.files_on_disk(), [])


class AwkwardUploads(ApiCase):
    """Each by its number; after each one the folder is as empty as before."""

    def post(self, body, kind, more="", shut=False, length=None):
        head = (f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body) if length is None else length}\r\nConnection: close\r\n{more}\r\n").encode()
        return self.raw(head + body, shut=shut)

    def refused(self, reply, status, message=None, code=...):
        self.assertTrue(reply.startswith(b"HTTP/1.1 %d " % status), reply[:300])
        head, body = reply.split(b"\r\n\r\n", 1)
        self.assertIn(b"x-request-id: req_", head)
        error = json.loads(body)["error"]
        self.assertEqual(sorted(error), ["code", "message", "param", "type"])
        self.assertEqual(error["type"], "invalid_request_error")
        if message:
            self.assertRegex(error["message"], message)
        if code is not ...:
            self.assertEqual(error["code"], code)
        self.assertEqual(self.files_on_disk(), [])
        self.assertEqual(self.call("GET", "/v1/files").json["data"], [])
        return error

    def good_form(self, **options):
        return form([("file", "in.jsonl", GOOD), ("purpose", None, "batch")], **options)

    def test_01_a_connection_that_ends_in_the_middle(self):
        body, kind = self.good_form()
        self.refused(self.post(body[:100], kind, length=len(body), shut=True), 400, "ends early")

    def test_02_a_form_without_its_closing_boundary(self):
        body, kind = self.good_form(close=False)
        self.refused(self.post(body, kind), 400, "cut off")

    def test_03_a_boundary_that_is_not_in_the_body(self):
        body, _ = self.good_form()
        self.refused(self.post(body, "multipart/form-data; boundary=another"), 400, "boundary")

    def test_04_no_boundary_or_another_type(self):
        body, _ = self.good_form()
        for kind in ("multipart/form-data", "multipart/form-data; boundary=", "application/json",
                     "multipart/form-data; boundary=" + "x" * 71):
            self.refused(self.post(body, kind), 400)

    def test_05_no_file(self):
        body, kind = form([("purpose", None, "batch")])
        error = self.refused(self.post(body, kind), 400, "'file'", "missing_required_parameter")
        self.assertEqual(error["param"], "file")

    def test_06_no_purpose_or_one_that_nobody_knows(self):
        body, kind = form([("file", "in.jsonl", GOOD)])
        error = self.refused(self.post(body, kind), 400, "'purpose'")
        self.assertEqual(error["param"], "purpose")
        body, kind = form([("file", "in.jsonl", GOOD), ("purpose", None, "fun")])
        self.refused(self.post(body, kind), 400, "purpose", "invalid_value")

    def test_07_two_files(self):
        body, kind = form([("file", "a.jsonl", GOOD), ("file", "b.jsonl", GOOD), ("purpose", None, "batch")])
        self.refused(self.post(body, kind), 400, "two files")

    # It is a file; that it holds no request is the batch's to say.
    def test_08_an_empty_file(self):
        reply = self.upload(b"")
        self.assertEqual((reply.status, reply.json["bytes"]), (200, 0))
        file = reply.json["id"]
        self.assertEqual((self.content(file).status, self.content(file).body), (200, b""))
        self.assertEqual(self.call("DELETE", f"/v1/files/{file}").status, 200)
        self.assertEqual(self.files_on_disk(), [])

    def test_09_an_empty_body(self):
        _, kind = self.good_form()
        self.refused(self.post(b"", kind), 400)

    def test_10_a_content_length_that_is_too_short(self):
        body, kind = self.good_form()
        self.refused(self.post(body, kind, length=len(body) - 40), 400, "cut off")

    def test_11_content_lengths_that_are_no_numbers_or_two(self):
        body, kind = self.good_form()
        for length in ("-5", "+5", "1e3", "99999999999999999999", "0x10", "5, 5"):
            self.refused(self.post(body, kind, length=length), 400, "Content-Length")
        self.refused(self.post(body, kind, f"Content-Length: {len(body) + 1}\r\n"), 400, "Content-Length")
        self.refused(self.post(body, kind, "Transfer-Encoding: chunked\r\n"), 400, "Content-Length")

    def test_12_chunks_without_an_end_or_with_a_false_size(self):
        body, kind = self.good_form()
        head = (f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                "Transfer-Encoding: chunked\r\n\r\n").encode()
        whole = b"%x\r\n%s\r\n" % (len(body), body)
        self.refused(self.raw(head + whole, shut=True), 400)
        for size in (b"-1", b"zz", b"ffffffffffffffff", b""):
            self.refused(self.raw(head + size + b"\r\n" + body, shut=True), 400)

    # A body that unpacks to a thousand times its size is not unpacked at all.
    def test_13_a_compressed_bomb(self):
        body, kind = form([("file", "in.jsonl", b" " * 20_000_000), ("purpose", None, "batch")])
        packed = gzip.compress(body)
        self.refused(self.post(packed, kind, "Content-Encoding: gzip\r\n"), 400, "[Cc]ompressed")

    def test_14_names_with_folders_line_ends_and_more(self):
        for sent, kept in (("../../../etc/passwd.jsonl", "passwd.jsonl"), ("C:\\x\\y.jsonl", "y.jsonl"),
                           ("a%0D%0Ab%22.jsonl", 'a__b".jsonl'), ("n\u00e4me \u2603.jsonl", "n\u00e4me \u2603.jsonl"),
                           ("a\x01b.jsonl", "a_b.jsonl")):
            reply = self.upload(GOOD, filename=sent)
            self.assertEqual((reply.status, reply.json.get("filename")), (200, kept), sent)
            self.assertEqual(self.files_on_disk(), [reply.json["id"]])
            self.assertEqual(self.call("DELETE", f"/v1/files/{reply.json['id']}").status, 200)
        body, kind = form([("file", "x" * 9000 + ".jsonl", GOOD), ("purpose", None, "batch")])
        self.refused(self.post(body, kind), 400, "headers of a part")
        # A name that brings a header of its own along is not read as one.
        body, kind = form([("file", 'x"\r\nX-Other: y\r\nfoo="', GOOD), ("purpose", None, "batch")])
        self.refused(self.post(body, kind), 400)

    def test_15_a_byte_order_mark_and_windows_line_ends(self):
        content = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
        file = self.uploaded(content)
        self.assertEqual(self.content(file).body, content)
        batch = self.until(self.created(file), "in_progress")
        self.assertEqual(batch["request_counts"]["total"], 3)
        self.call("DELETE", f"/v1/files/{file}")
        self.assertEqual(self.files_on_disk(), [])

    def test_16_not_json_lines(self):
        for name, content in (("in.txt", GOOD), ("in", GOOD), ("in.jsonl", "a,b\n1,2\n"), ("in.jsonl", "{\n}\n")):
            body, kind = form([("file", name, content), ("purpose", None, "batch")])
            error = self.refused(self.post(body, kind), 400)
            self.assertEqual(error, {"message": "Invalid file format for Batch API. Must be .jsonl",
                                     "type": "invalid_request_error", "param": None, "code": None})

    def test_17_parts_without_end(self):
        body, kind = form([(f"p{i}", None, "x") for i in range(100)])
        self.refused(self.post(body, kind), 400, "parts")
        body, kind = form([("purpose", None, "x" * 100_000)])
        self.refused(self.post(body, kind), 400, "field")
        body, kind = form([("purpose", None, "batch"), ("purpose", None, "batch"), ("file", "a.jsonl", GOOD)])
        self.refused(self.post(body, kind), 400, "twice")
        for more in ("expires_after[seconds]", "expires_after[anchor]"):
            body, kind = form([("purpose", None, "batch"), ("file", "a.jsonl", GOOD), (more, None, "60")])
            self.refused(self.post(body, kind), 400, "expires_after", "invalid_value")

    # The half on disk goes with the connection that brought it.
    def test_an_upload_that_is_given_up_leaves_nothing(self):
        body, kind = form([("file", "in.jsonl", b"x" * 5_000_000), ("purpose", None, "batch")])
        host, port = self.http.split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall((f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n").encode() + body[:2_000_000])
            self.eventually(lambda: [f for f in self.files_on_disk() if f.endswith(".part")], "it has begun")
        self.eventually(lambda: self.files_on_disk() == [], "it is gone")


if __name__ == "__main__":
    unittest.main()
