"""Who may do what: every route and every command, for every role, on one's own and on another's."""
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import CHAT, ApiCase, Reply, form, requests  # noqa: E402
from nightshift_testing import PROGRAM, Coordinator, Process, Sim, Worker, run  # noqa: E402

NOBODY, WRONG = "nobody", "wrong"
OWN, FOREIGN, MISSING = "own", "foreign", "missing"


class AccessCase(ApiCase):
    """A coordinator with a table of tokens: of the tenants a and b, and of none."""

    def setUp(self):
        super(ApiCase, self).setUp()
        self.data_dir = self.path("data")
        self.tokens = self.path("tokens")
        self.token = {NOBODY: None, WRONG: "ns_0000000000_" + "0" * 64}
        for who, role, tenant in (("admin", "admin", None), ("submit a", "submit", "a"), ("read a", "read", "a"),
                                  ("submit b", "submit", "b"), ("read b", "read", "b"), ("read all", "read", "*"),
                                  ("submit", "submit", None), ("worker", "worker", None)):
            self.token[who] = self.made_token(role, tenant)
        self.start_coordinator("--token-file", self.tokens)

    def made_token(self, role, tenant=None, name="a name"):
        more = () if tenant is None else ("--tenant", tenant)
        code, out, err = run("token", "create", "--token-file", self.tokens, "--role", role, "--name", name, *more)
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"^ns_[0-9a-f]{10}_[0-9a-f]{64}\n$")
        return out.strip()

    def token_file(self, who):
        return self.write(f"{who}.token", self.token[who] or "none at all")

    def headers(self, who):
        return {} if self.token[who] is None else {"Authorization": f"Bearer {self.token[who]}"}

    def by(self, who, method, path, body=None, headers=None):
        return self.call(method, path, body, {**self.headers(who), **(headers or {})})

    def file_of(self, who, content=None):
        return self.uploaded(content or requests(2), headers=self.headers(who))

    def batch_of(self, who, content=None):
        reply = self.create(self.file_of(who, content), headers=self.headers(who))
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["id"]

    def until_by(self, who, batch, *statuses):
        def there():
            return self.by(who, "GET", f"/v1/batches/{batch}").json["status"] in statuses
        self.eventually(there, f"{batch} is {statuses}")

    def start_fleet(self):
        sim = self.start(Sim("--models", "m"))
        return self.start(Worker(self.coordinator.address, sim.url, "--token-file", self.token_file("worker")))


class Table(AccessCase):
    """Rows are routes, columns are callers; what they touch belongs to tenant a."""

    # Of each caller: what it is to tenant a, and whether it may write.
    COLUMNS = {"admin": (OWN, True), "submit a": (OWN, True), "read a": (OWN, False), "read all": (OWN, False),
               "submit b": (FOREIGN, True), "read b": (FOREIGN, False), "submit": (FOREIGN, True)}

    def expected(self, who, write, shared=False):
        """The status, or None for success."""
        if who in (NOBODY, WRONG):
            return 401
        if who == "worker":
            return 403
        side, may_write = self.COLUMNS[who]
        if write and not may_write:
            return 403
        return None if shared or side == OWN else 404

    def check(self, route, who, reply, write, shared=False):
        expected = self.expected(who, write, shared)
        if expected is None:
            self.assertIn(reply.status, (200, 409), f"{route} as {who}: {reply.body}")
        else:
            self.assertEqual(reply.status, expected, f"{route} as {who}: {reply.body}")
            reply.error  # is an envelope
        self.cells += 1
        return expected is None

    def test_every_route_for_everybody(self):
        self.cells = 0
        self.start_fleet()
        done = self.batch_of("submit a")
        self.until_by("submit a", done, "completed")
        output = self.by("submit a", "GET", f"/v1/batches/{done}").json["output_file_id"]
        everybody = [*self.COLUMNS, "worker", NOBODY, WRONG]
        mine = self.file_of("submit a")
        upload_body = json.dumps({"bytes": 3, "filename": "x.jsonl", "purpose": "batch", "mime_type": "application/jsonl"})
        data, kind = form([("data", "blob", b"{}\n")])
        whole, whole_kind = form([("file", "in.jsonl", requests(1)), ("purpose", None, "batch")])
        for who in everybody:
            # Of the tenant's own: the same routes, and another's is as if it were not.
            for path in (f"/v1/files/{mine}", f"/v1/files/{mine}/content", f"/v1/files/{output}", f"/v1/batches/{done}/events",
                         f"/v1/files/{output}/content", f"/v1/batches/{done}", f"/v1/batches/{done}/results"):
                reply = self.by(who, "GET", path)
                self.check(path, who, reply, write=False)
                if reply.status == 404:
                    absent = self.by(who, "GET", path.replace(mine, "file-" + "0" * 25).replace(output, output[:-9] + "000-output")
                                     .replace(done, "batch_" + "0" * 12))
                    self.assertEqual((absent.status, absent.error["code"]), (404, reply.error["code"]))
            for action in ("cancel", "pause", "resume"):
                self.check(action, who, self.by(who, "POST", f"/v1/batches/{done}/{action}"), write=True)
            fresh = self.file_of("submit a")
            self.check("DELETE file", who, self.by(who, "DELETE", f"/v1/files/{fresh}"), write=True)
            upload = self.by("submit a", "POST", "/v1/uploads", upload_body).json["id"]
            part = self.by(who, "POST", f"/v1/uploads/{upload}/parts", data, {"Content-Type": kind})
            parts = [part.json["id"]] if self.check("parts", who, part, write=True) else ["part_none"]
            self.check("complete", who, self.by(who, "POST", f"/v1/uploads/{upload}/complete",
                                                json.dumps({"part_ids": parts})), write=True)
            upload = self.by("submit a", "POST", "/v1/uploads", upload_body).json["id"]
            self.check("cancel upload", who, self.by(who, "POST", f"/v1/uploads/{upload}/cancel"), write=True)
            # Of nobody's yet, or everybody's.
            for path in ("/v1/files", "/v1/batches", "/v1/models", "/v1/models/m"):
                self.check(path, who, self.by(who, "GET", path), write=False, shared=True)
            self.check("POST /v1/files", who, self.by(who, "POST", "/v1/files", whole, {"Content-Type": whole_kind}),
                       write=True, shared=True)
            self.check("POST /v1/uploads", who, self.by(who, "POST", "/v1/uploads", upload_body), write=True, shared=True)
            created = self.by(who, "POST", "/v1/batches", json.dumps(
                {"input_file_id": mine, "endpoint": CHAT, "completion_window": "24h"}))
            if self.check("POST /v1/batches", who, created, write=True, shared=True):
                # Another's file is not there, which is found out as for any other.
                own = self.COLUMNS[who][0] == OWN
                self.until_by(who, created.json["id"], *(("completed",) if own else ("failed",)))
            # Without a token, for supervisors.
            for path in ("/healthz", "/readyz", "/metrics"):
                self.assertEqual(self.by(who, "GET", path).status, 200, (path, who))
                self.cells += 1
        # Last, as it cannot be undone: the output.
        for who in [w for w in everybody if w != "admin"] + ["admin"]:
            if self.expected(who, write=True) is None and who != "admin":
                continue
            self.check("DELETE output", who, self.by(who, "DELETE", f"/v1/files/{output}"), write=True)
        print(f"{self.cells} cells", file=sys.stderr)

    def test_lists_hold_ones_own(self):
        files = {who: self.file_of(who) for who in ("submit a", "submit b", "submit")}
        batches = {who: self.batch_of(who) for who in ("submit a", "submit b", "submit")}
        for path, owned in (("/v1/files", files), ("/v1/batches", batches)):
            def listed(who):
                return {one["id"] for one in self.by(who, "GET", path).json["data"]}
            for reader, owner in (("read a", "submit a"), ("read b", "submit b"), ("submit", "submit")):
                seen = listed(reader)
                for who, one in owned.items():
                    self.assertEqual(one in seen, who == owner, (reader, who, path))
            for reader in ("admin", "read all"):
                self.assertLessEqual(set(owned.values()), listed(reader))
            # Nor does a place in a list tell of another's.
            other = owned["submit b"]
            self.assertEqual(self.by("read a", "GET", f"{path}?after={other}").status, 400)

    def test_the_same_idempotency_key_of_two_tenants(self):
        def create(who):
            return self.create(self.file_of(who), headers={**self.headers(who), "Idempotency-Key": "k"}).json["id"]
        self.assertNotEqual(create("submit a"), create("submit b"))
        code, first, _ = self.command("submit a", "submit", self.write("in.jsonl", requests(1)), "--quiet")
        self.assertEqual(code, 0)

    def command(self, who, *words):
        """The program as that caller: (exit code, output, error)."""
        return run(*words, "--coordinator", self.coordinator.address, "--token-file", self.token_file(who), timeout=60)

    def test_every_command_for_everybody(self):
        self.start_fleet()
        prompts = self.write("prompts.jsonl", requests(2))
        cells = 0

        def job_of_a(*more):
            code, out, err = self.command("submit a", "submit", prompts, "--quiet", *more)
            self.assertEqual(code, 0, err)
            return out.strip()
        done = job_of_a()
        self.assertEqual(self.command("submit a", "watch", done, "--quiet")[0], 0)
        for who in [*self.COLUMNS, "worker", NOBODY, WRONG]:
            # Each with whether it changes something; JOB is tenant a's.
            for words, write in ((("status", "JOB"), False), (("watch", "JOB"), False), (("results", "JOB"), False),
                                 (("errors", "JOB"), False), (("pause", "JOB"), True), (("resume", "JOB"), True),
                                 (("retry", "JOB"), True), (("cancel", "JOB", "--yes"), True),
                                 (("delete", "JOB", "--yes"), True)):
                job = done
                if words[0] == "delete":
                    job = job_of_a()
                    self.command("submit a", "watch", job, "--quiet")
                code, out, err = self.command(who, *(job if word == "JOB" else word for word in words))
                expected = self.expected(who, write)
                where = f"{words} as {who}: {code} {err}"
                if expected is None:
                    # What cannot be done to a job that has ended is another matter.
                    self.assertNotRegex(err, "token of the role|asks for a token|is none that", where)
                    self.assertNotIn("there is no job", err, where)
                elif expected == 404:
                    self.assertIn("there is no job", err, where)
                    self.assertNotEqual(code, 0, where)
                else:
                    self.assertRegex(err, "token of the role" if expected == 403 else "is none that", where)
                    self.assertNotEqual(code, 0, where)
                cells += 1
            code, out, err = self.command(who, "jobs", "--json")
            if self.expected(who, write=False, shared=True) is None:
                self.assertEqual(done in out, self.COLUMNS[who][0] == OWN, who)
            else:
                self.assertNotEqual(code, 0, who)
            code, out, err = self.command(who, "submit", prompts, "--quiet")
            self.assertEqual(code == 0, self.expected(who, write=True, shared=True) is None, f"submit as {who}: {err}")
            code, out, err = self.command(who, "workers", "--json")
            self.assertEqual(code == 0, who in self.COLUMNS, f"workers as {who}: {err}")
            # The fleet is shared: who and where is told only to those who see all.
            self.assertEqual("127.0.0.1" in out, who in ("admin", "read all"), f"workers as {who}: {out}")
            for words in (("audit",), ("backup", "create"), ("backup", "list")):
                code, out, err = self.command(who, *words)
                self.assertEqual(code == 0, who == "admin", f"{words} as {who}: {err}")
            cells += 6
        print(f"{cells} cells", file=sys.stderr)

    # A token that hands jobs in is not one that gets everybody's prompts as a worker.
    def test_only_a_workers_token_takes_work(self):
        for who in ("submit a", "read all", WRONG):
            sim = self.start(Sim("--models", "m"))
            worker = self.start(Worker(self.coordinator.address, sim.url, "--token-file", self.token_file(who)))
            worker.wait_for("token of the role" if who != WRONG else "is none that")
        self.assertEqual(json.loads(self.command("admin", "workers", "--json")[1]), [])


class Tokens(AccessCase):
    def test_a_revoked_token_is_out_within_two_seconds_and_a_new_one_in(self):
        self.assertEqual(self.by("read a", "GET", "/v1/files").status, 200)
        code, _, err = run("token", "revoke", self.token["read a"][3:13], "--token-file", self.tokens)
        self.assertEqual(code, 0, err)
        self.eventually(lambda: self.by("read a", "GET", "/v1/files").status == 401, "it is out", timeout=5)
        self.token["new"] = self.made_token("read", "a")
        self.eventually(lambda: self.by("new", "GET", "/v1/files").status == 200, "it is in", timeout=5)

    def test_list_and_refusals(self):
        code, out, _ = run("token", "list", "--token-file", self.tokens, "--json")
        listed = json.loads(out)
        self.assertEqual((code, len(listed)), (0, 8))
        self.assertEqual({one["role"] for one in listed}, {"admin", "submit", "read", "worker"})
        self.assertNotIn(self.token["admin"][14:], out)
        with open(self.tokens, encoding="utf-8") as handle:
            text = handle.read()
        for token in self.token.values():
            self.assertNotIn((token or "-" * 99)[14:], text)
        self.assertEqual(os.stat(self.tokens).st_mode & 0o777, 0o600)
        clear = self.write("clear", "secret\n")
        for words in (("list", "--token-file", clear), ("create", "--token-file", clear),
                      ("revoke", "0000000000", "--token-file", self.tokens), ("revoke", "--token-file", self.tokens),
                      ("create",), ("create", "--token-file", self.tokens, "--tenant", "a b"),
                      ("create", "--token-file", self.tokens, "--role", "boss"),
                      ("list", "--token-file", self.tokens, "--role", "read")):
            code, out, err = run("token", *words)
            self.assertEqual((code, out), (2, ""), (words, err))
            self.assertIn("error", err)

    # Two people at once: none of the tokens is lost.
    def test_tokens_made_at_the_same_time(self):
        makers = [subprocess.Popen([PROGRAM, "token", "create", "--token-file", self.tokens, "--quiet"],
                                   stdout=subprocess.PIPE) for _ in range(8)]
        made = [maker.communicate()[0].decode().strip() for maker in makers]
        _, out, _ = run("token", "list", "--token-file", self.tokens, "--json")
        ids = {one["id"] for one in json.loads(out)}
        self.assertEqual(len(ids), 16)
        self.assertLessEqual({token[3:13] for token in made}, ids)

    def test_a_coordinator_refuses_a_file_that_makes_no_sense(self):
        broken = self.write("broken", "# nightshift tokens, version 1\nnonsense\n")
        for path in (broken, self.path("absent"), self.write("empty", "")):
            code, _, err = run("coordinator", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--token-file", path,
                               "--data-dir", self.path("other"))
            self.assertEqual(code, 2, err)
            self.assertIn(path, err)

    def test_one_token_in_clear_may_do_everything(self):
        clear = self.write("clear", "secret\n")
        other = self.start(Coordinator(self.path("other"), "--token-file", clear))
        for words in (("jobs",), ("workers",), ("audit",), ("backup", "list")):
            code, _, err = run(*words, "--coordinator", other.address, "--token-file", clear)
            self.assertEqual(code, 0, err)

    # Neither what was sent nor what is right is ever in a line of the log.
    def test_no_token_in_any_log(self):
        self.coordinator.kill()
        self.start_coordinator("--token-file", self.tokens, "--log-level", "debug")
        self.start_fleet()
        batch = self.batch_of("submit a")
        self.until_by("submit a", batch, "completed")
        self.by(WRONG, "GET", "/v1/files")
        run("jobs", "--coordinator", self.coordinator.address, "--token-file", self.token_file(WRONG))
        self.coordinator.end()
        log = "\n".join(self.coordinator.out + self.coordinator.err)
        self.assertIn("was refused", log)
        for token in self.token.values():
            self.assertNotIn((token or "-" * 99)[14:], log)

    # A wrong token takes as long whether its first or its last character is wrong.
    def test_the_time_of_a_refusal_tells_nothing(self):
        right = self.token["submit a"]
        at = {"first": 14, "last": len(right) - 1}
        times = {name: [] for name in at}
        for _ in range(300):
            for name, place in at.items():
                other = "0" if right[place] != "0" else "1"
                token = right[:place] + other + right[place + 1:]
                begun = time.perf_counter()
                self.assertEqual(self.call("GET", "/v1/files", headers={"Authorization": f"Bearer {token}"}).status, 401)
                times[name].append(time.perf_counter() - begun)
        medians = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
        print(f"median refusal: {medians}", file=sys.stderr)
        self.assertLess(abs(medians["first"] - medians["last"]), 0.2 * medians["first"])


class Limits(AccessCase):
    def limited(self, *flags):
        self.coordinator.kill()
        self.start_coordinator("--token-file", self.tokens, *flags)

    def refused(self, reply):
        self.assertEqual((reply.status, reply.error["code"]), (429, "tenant_limit_exceeded"), reply.body)
        self.assertEqual(reply.error["type"], "rate_limit_error")
        return reply

    def test_calls_per_second(self):
        self.limited("--tenant-rate", "1")
        # Two at once, and one more each second.
        replies = [self.by("read a", "GET", "/v1/files") for _ in range(6)]
        refused = [reply for reply in replies if reply.status != 200]
        self.assertTrue(1 <= len(refused) <= 4, [reply.status for reply in replies])
        wait = int(self.refused(refused[-1]).headers["retry-after-ms"])
        self.assertTrue(1 <= wait <= 1000, wait)
        self.assertEqual(refused[-1].headers["retry-after"], "1")
        # What it says is true, and others are not touched.
        self.assertEqual(self.by("read b", "GET", "/v1/files").status, 200)
        time.sleep(wait / 1000)
        self.assertEqual(self.by("read a", "GET", "/v1/files").status, 200)

    def test_open_jobs(self):
        self.limited("--tenant-jobs", "2")
        first = self.batch_of("submit a")
        self.batch_of("submit a")
        third = self.file_of("submit a")
        reply = self.refused(self.create(third, headers=self.headers("submit a")))
        self.assertTrue(1 <= int(reply.headers["retry-after"]) <= 60, reply.headers)
        prompts = self.write("in.jsonl", requests(1))
        code, _, err = run("submit", prompts, "--coordinator", self.coordinator.address, "--token-file",
                           self.token_file("submit a"))
        self.assertNotEqual(code, 0)
        self.assertIn("2 are allowed", err)
        self.batch_of("submit b")
        self.by("submit a", "POST", f"/v1/batches/{first}/cancel")
        self.until_by("submit a", first, "cancelled")
        self.assertEqual(self.create(third, headers=self.headers("submit a")).status, 200)

    def test_bytes_of_files(self):
        self.limited("--tenant-bytes", "1MiB")
        mine = self.file_of("submit a", b"{}\n" * 200_000)
        reply = self.refused(self.upload(b"{}\n" * 200_000, headers=self.headers("submit a")))
        # The first one expires in thirty days; no client should wait for that.
        self.assertGreater(int(reply.headers["retry-after"]), 29 * 86400)
        self.assertEqual(reply.headers["x-should-retry"], "false")
        self.assertEqual(len(self.files_on_disk()), 1)
        self.file_of("submit b", b"{}\n" * 200_000)
        self.assertEqual(self.by("submit a", "DELETE", f"/v1/files/{mine}").status, 200)
        self.file_of("submit a", b"{}\n" * 200_000)


class Encrypted(AccessCase):
    """TLS on both addresses, with certificates that the test makes and replaces."""

    def setUp(self):
        super().setUp()
        self.coordinator.kill()
        self.make_ca("ca")
        self.make_certificate("server", "ca")
        self.start_coordinator("--token-file", self.tokens, "--tls-cert", self.path("server.crt"),
                               "--tls-key", self.path("server.key"), "--tls-client-ca", self.path("ca.crt"))

    def start_coordinator(self, *more):
        self.coordinator = self.start(Coordinator(self.data_dir, *more))
        self.http = self.coordinator.wait_for(r"https?://(127\.0\.0\.1:\d+)/v1").group(1)

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def make_ca(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.crt"))

    def make_certificate(self, name, ca, subject="nightshift"):
        made = self.path("made")
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                     f"/CN={subject}", "-keyout", made + ".key", "-out", made + ".csr")
        extension = self.write("extension", "subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self.openssl("x509", "-req", "-in", made + ".csr", "-CA", self.path(f"{ca}.crt"), "-CAkey",
                     self.path(f"{ca}.key"), "-CAcreateserial", "-days", "2", "-extfile", extension, "-out", made + ".crt")
        for kind in ("key", "crt"):
            os.replace(f"{made}.{kind}", self.path(f"{name}.{kind}"))

    def get(self, path="/v1/files", who="read a", ca="ca"):
        import http.client
        host, port = self.http.split(":")
        context = ssl.create_default_context(cafile=self.path(f"{ca}.crt"))
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
        try:
            connection.request("GET", path, headers=self.headers(who))
            reply = connection.getresponse()
            return Reply(reply.status, dict(reply.getheaders()), reply.read()), connection.sock.getpeercert()
        finally:
            connection.close()

    def command(self, *words, who="admin", ca="ca"):
        return run(*words, "--coordinator", self.coordinator.address, "--token-file", self.token_file(who),
                   *(() if ca is None else ("--tls-ca", self.path(f"{ca}.crt"))), timeout=60)

    def test_both_addresses_speak_tls_and_nothing_else(self):
        self.assertEqual(self.get()[0].status, 200)
        self.assertEqual(self.get("/healthz", who=NOBODY)[0].body, b"ok\n")
        self.assertEqual(self.get(who=NOBODY)[0].status, 401)
        self.assertNotIn(b"200 OK", self.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        code, out, err = self.command("jobs", "--json")
        self.assertEqual((code, out), (0, "[]\n"), err)
        self.assertEqual(self.command("jobs", ca=None)[0], 5)
        self.make_ca("other")
        with self.assertRaises(ssl.SSLError):
            self.get(ca="other")
        self.assertEqual(self.command("jobs", ca="other")[0], 5)

    def test_a_large_file_there_and_back(self):
        import http.client
        host, port = self.http.split(":")
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        content = os.urandom(1 << 20) * 9
        body, kind = form([("file", "x.bin", content), ("purpose", None, "user_data")])
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)
        connection.request("POST", "/v1/files", body, {"Content-Type": kind, **self.headers("submit a")})
        file = json.load(connection.getresponse())["id"]
        connection.request("GET", f"/v1/files/{file}/content", headers=self.headers("submit a"))
        self.assertEqual(connection.getresponse().read(), content)
        connection.close()

    def worker(self, *more):
        sim = self.start(Sim("--models", "m"))
        return self.start(Worker(self.coordinator.address, sim.url, "--token-file", self.token_file("worker"),
                                 "--tls-ca", self.path("ca.crt"), *more))

    def test_a_worker_shows_a_certificate_of_the_right_hand(self):
        self.worker().wait_for("asks workers for a certificate")
        self.make_ca("other")
        self.make_certificate("stranger", "other")
        self.worker("--tls-cert", self.path("stranger.crt"), "--tls-key", self.path("stranger.key"))
        time.sleep(2)
        self.assertEqual(json.loads(self.command("workers", "--json")[1]), [])
        self.make_certificate("worker", "ca", "worker-1")
        self.worker("--tls-cert", self.path("worker.crt"), "--tls-key", self.path("worker.key"))
        self.eventually(lambda: len(json.loads(self.command("workers", "--json")[1])) == 1, "it is there")
        prompts = self.write("in.jsonl", requests(5))
        code, _, err = self.command("submit", prompts, "--wait", "-o", self.path("out.jsonl"))
        self.assertEqual(code, 0, err)
        with open(self.path("out.jsonl"), encoding="utf-8") as handle:
            self.assertEqual(len(handle.readlines()), 5)

    # Renewed without a restart; half a renewal leaves the old one in force over HTTP. (gRPC takes no new
    # connection meanwhile: its own watcher has no other way.)
    def test_a_renewed_certificate_counts_without_a_restart(self):
        serial = self.get()[1]["serialNumber"]
        self.write("broken", "nothing")
        os.replace(self.path("server.crt"), self.path("old.crt"))
        os.replace(self.path("broken"), self.path("server.crt"))
        time.sleep(2.5)
        self.assertEqual(self.get()[1]["serialNumber"], serial)
        self.make_certificate("server", "ca")
        self.eventually(lambda: self.get()[1]["serialNumber"] != serial, "HTTP shows the new one", timeout=10)
        renewed = self.get()[1]["serialNumber"]

        def grpc_serial():
            host, port = self.coordinator.address.split(":")
            context = ssl.create_default_context(cafile=self.path("ca.crt"))
            context.set_alpn_protocols(["h2"])
            with context.wrap_socket(socket.create_connection((host, int(port)), timeout=20), server_hostname=host) as tls:
                return tls.getpeercert()["serialNumber"]
        self.eventually(lambda: grpc_serial() == renewed, "gRPC shows the new one", timeout=10)
        self.assertEqual(self.command("jobs", "--json")[0], 0)

    # A client that begins to agree on a key and stops holds nobody up.
    def test_half_a_handshake_stops_nobody(self):
        host, port = self.http.split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(560)]
        self.addCleanup(lambda: [connection.close() for connection in silent])
        time.sleep(0.5)
        begun = time.monotonic()
        self.assertEqual(self.get("/healthz")[0].status, 200)
        self.assertLess(time.monotonic() - begun, 3)

    def test_files_that_cannot_be_used_are_named(self):
        self.make_certificate("second", "ca")
        for cert, key, named in (("server.crt", "second.key", "second.key"), ("absent", "server.key", "absent"),
                                 ("server.key", "server.key", "server.key")):
            code, _, err = run("coordinator", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir",
                               self.path("other"), "--tls-cert", self.path(cert), "--tls-key", self.path(key))
            self.assertEqual(code, 2, err)
            self.assertIn(self.path(named), err)
        code, _, err = run("jobs", "--tls-cert", self.path("server.crt"), "--tls-key", self.path("server.key"))
        self.assertEqual(code, 2, err)
        self.assertIn("--tls-ca", err)

    def test_beyond_loopback_it_takes_tokens_and_tls(self):
        tokens, tls = ("--token-file", self.tokens), ("--tls-cert", self.path("server.crt"), "--tls-key", self.path("server.key"))
        for address in (("--http", "0.0.0.0:0", "--grpc", "127.0.0.1:0"), ("--http", "127.0.0.1:0", "--grpc", "0.0.0.0:0")):
            for flags in ((), tokens, tls):
                code, _, err = run("coordinator", *address, *flags, "--data-dir", self.path("other"))
                self.assertEqual(code, 2, err)
                self.assertRegex(err, "--token-file")
            open_one = self.start(Process([PROGRAM, "coordinator", *address, *tokens, *tls, "--data-dir", self.path("other")]))
            open_one.wait_for(r"https://")
            self.assertEqual(open_one.end(), 0)


if __name__ == "__main__":
    unittest.main()
