"""The data folder is lost and comes back from a backup: the job ends, each request in exactly one
file, what the backup had is not called again, and what workers hold for the lost store reaches no
request of the other. The backend's own log is the witness.
"""
import collections
import glob
import hashlib
import json
import os
import random
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import (PROGRAM, Coordinator, Process, TestCase, Witness, Worker, chat_line,
                                read_jsonl, run)

REQUESTS = int(os.environ.get("NIGHTSHIFT_BACKUP_REQUESTS", "600"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))


class Restored(TestCase):
    def setUp(self):
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.witness = self.start(Witness(self.folder, "--latency", "0.05"))
        self.data = self.path("data")

    def job(self, prefix, held=0):
        """A file of requests, and what each must be answered. The very first call takes `held` seconds: until
        then the job is not done, however late the test gets to look."""
        ids = [f"{prefix}-{i}" for i in range(REQUESTS)]
        faults = {ids[0]: {"delay": held, "times": 1}} if held else {}
        lines = [chat_line(c, f'<<{json.dumps({"key": c, **faults.get(c, {})})}>> say {c}') for c in ids]
        expected = {}
        for custom_id, line in zip(ids, lines):
            body = line[line.index('"body": ') + len('"body": '):-1]
            expected[custom_id] = "echo:" + hashlib.sha1(body.encode()).hexdigest()[:12]
        return self.write(prefix + ".jsonl", "\n".join(lines) + "\n"), expected

    def nightshift(self, *arguments):
        code, out, err = run(*arguments, cwd=self.folder)
        self.assertEqual(code, 0, out + err)
        return out

    def count(self, job, *where):
        return json.loads(self.nightshift("status", job, "--json", *where))["counts"]["succeeded"]

    def answers(self, path, expected):
        results = read_jsonl(path)
        self.check_files_cover(results, [], list(expected))
        return {r["custom_id"]: r["response"]["body"]["choices"][0]["message"]["content"] for r in results}

    def test_a_fleet_goes_on_from_a_backup_that_was_made_while_it_worked(self):
        source, expected = self.job("a", held=8)
        coordinator = self.start(Coordinator(self.data, "--lease-ttl", "5s"))
        where = ("--coordinator", coordinator.address)
        worker = self.start(Worker(coordinator.address, self.witness.url, "--name", "w", "--concurrency", "16",
                                   "--data-dir", self.path("w")))
        job = self.nightshift("submit", source, *where).strip()
        self.eventually(lambda: self.count(job, *where) >= REQUESTS // 3, "a third of the answers")
        backup = json.loads(self.nightshift("backup", "create", "--json", *where))
        self.assertEqual((backup["id"], backup["state"], backup["jobs"], backup["unfinished_jobs"]), (1, "whole", 1, 1))
        self.assertEqual(backup["folder"], self.data + "-backups")
        apart = json.loads(self.nightshift("backup", "create", "--json", *where, "--backup-dir", self.path("apart")))
        self.assertEqual((apart["id"], apart["folder"]), (1, self.path("apart")))
        self.assertEqual(json.loads(self.nightshift("backup", "list", "--json", *where)), [backup])
        self.eventually(lambda: self.count(job, *where) >= REQUESTS // 2, "half of the answers")
        # A job that the backup does not know: its number will be handed out again.
        late_source, _ = self.job("late")
        self.nightshift("submit", late_source, *where, "--priority", "5")
        self.eventually(lambda: any(c["key"].startswith("late-") for c in self.witness.calls()), "the late job runs")

        coordinator.kill()
        shutil.rmtree(self.data)
        # The worker still calls, and keeps what it gets for a store that is gone.
        self.eventually(lambda: self.witness.counters()["in_flight"] == 0, "the worker's calls ending")
        if self.rng.random() < 0.5:
            worker.kill()
            worker = None
        listed = json.loads(self.nightshift("backup", "list", "--json", "--data-dir", self.data))
        self.assertEqual([b["id"] for b in listed], [1])
        restored = self.nightshift("backup", "restore", "--data-dir", self.data)
        self.assertRegex(restored, r"Restored backup 1 .*1 job, 1 unfinished")
        self.assertRegex(self.nightshift("audit", "--data-dir", self.data), "Everything agrees")
        had = {r["custom_id"] for r in (json.loads(line) for line in self.nightshift(
            "results", job, "--data-dir", self.data).splitlines())}
        self.assertGreaterEqual(len(had), REQUESTS // 3)
        self.assertLess(len(had), REQUESTS)

        seen = len(self.witness.calls())
        coordinator = self.start(Coordinator(self.data, "--lease-ttl", "5s", address=coordinator.address))
        if worker is None:
            self.start(Worker(coordinator.address, self.witness.url, "--name", "w", "--concurrency", "16",
                              "--data-dir", self.path("w")))
        # Other requests under the number that the late job had.
        other_source, other_expected = self.job("other")
        other = self.nightshift("submit", other_source, *where).strip()
        for one in (job, other):
            self.nightshift("watch", one, *where)
        self.assertRegex(self.nightshift("audit", *where), "Everything agrees")
        for one, wanted in ((job, expected), (other, other_expected)):
            self.nightshift("results", one, *where, "--force", "-o", self.path("out.jsonl"))
            self.assertEqual(self.answers(self.path("out.jsonl"), wanted), wanted)
        again = {c["key"] for c in self.witness.calls()[seen:]}
        self.assertEqual(again & had, set(), "called although the backup has the answer")
        print(f"backup had {len(had)} of {REQUESTS}; called after it {len(again)}", file=sys.stderr)

    def test_a_run_goes_on_from_a_backup(self):
        source, expected = self.job("a", held=3600)
        command = ["run", source, "--backend", self.witness.url, "--data-dir", self.data,
                   "-o", self.path("out.jsonl"), "--errors", self.path("err.jsonl"), "--concurrency", "16"]
        running = self.start(Process([PROGRAM, *command], cwd=self.folder))
        self.eventually(lambda: len(self.witness.calls()) >= REQUESTS // 3, "a third of the calls")
        # Through the socket of the run, to a folder of our choice; the third is what stays.
        backups = self.path("elsewhere")
        for number in (1, 2, 3):
            text = self.nightshift("backup", "create", "--data-dir", self.data, "--backup-dir", backups, "--keep", "1")
            self.assertRegex(text, rf"^Backup {number} in {backups}: 1 job, 1 unfinished, .* read back and whole")
        running.kill()
        shutil.rmtree(self.data)
        table = self.nightshift("backup", "list", "--backup-dir", backups)
        self.assertEqual([line.split()[0] for line in table.splitlines()], ["BACKUP", "3"])
        self.nightshift("backup", "restore", "3", "--backup-dir", backups, "--data-dir", self.data)
        self.assertRegex(self.nightshift("audit", "--data-dir", self.data), "Everything agrees")
        self.nightshift(*command)
        self.assertEqual(self.answers(self.path("out.jsonl"), expected), expected)
        self.assertFalse(os.path.exists(self.path("err.jsonl")))
        self.assertRegex(self.nightshift("audit", "--data-dir", self.data), "Everything agrees")
        counts = collections.Counter(c["key"] for c in self.witness.calls())
        self.assertEqual(set(counts), set(expected))

    def test_what_was_restored_is_restorable_again_and_hands_out_no_old_numbers(self):
        source, expected = self.job("a")
        self.nightshift("run", source, "--backend", self.witness.url, "--data-dir", self.data)
        first = json.loads(self.nightshift("backup", "create", "--data-dir", self.data, "--json"))
        self.assertEqual(first["unfinished_jobs"], 0)
        # To another machine, as it were: the folder alone is taken along.
        moved = shutil.copytree(first["folder"], self.path("moved"))
        copy = self.path("copy")
        self.nightshift("backup", "restore", "--backup-dir", moved, "--data-dir", copy)
        second = json.loads(self.nightshift("backup", "create", "--data-dir", copy, "--backup-dir", moved, "--json"))
        self.assertEqual(second["id"], 2)
        self.assertNotEqual(second["store"], first["store"])
        self.nightshift("backup", "restore", "1", "--backup-dir", moved, "--data-dir", self.path("third"))
        job = json.loads(self.nightshift("jobs", "--json", "--data-dir", self.path("third")))[0]["id"]
        self.nightshift("results", job, "--data-dir", self.path("third"), "-o", self.path("third.jsonl"))
        self.assertEqual(self.answers(self.path("third.jsonl"), expected), expected)


class Refused(TestCase):
    def refused(self, code, pattern, *arguments):
        got, out, err = run(*arguments, cwd=self.folder)
        self.assertEqual((got, out), (code, ""), err)
        self.assertRegex(err, pattern)

    def setUp(self):
        super().setUp()
        self.write("in.txt", "one\ntwo\n")
        code, _, err = run("run", "in.txt", "--backend", "sim", "--data-dir", "d", cwd=self.folder)
        self.assertEqual(code, 0, err)
        code, _, err = run("backup", "create", "--data-dir", "d", cwd=self.folder)
        self.assertEqual(code, 0, err)

    def test_a_folder_that_is_not_empty_is_left_alone(self):
        before = sorted(os.listdir(self.path("d/store")))
        self.refused(2, "d is not empty .*nothing was restored", "backup", "restore", "--data-dir", "d")
        self.assertEqual(sorted(os.listdir(self.path("d/store"))), before)
        os.mkdir(self.path("e"))
        self.write("e/letter.txt", "dear")
        self.refused(2, "it holds letter.txt", "backup", "restore", "--data-dir", "e", "--backup-dir", "d-backups")
        self.assertEqual(os.listdir(self.path("e")), ["letter.txt"])

    def test_what_is_not_there_is_said(self):
        self.refused(2, "there is no backup 7 in", "backup", "restore", "7", "--data-dir", "e", "--backup-dir", "d-backups")
        self.refused(2, "holds no backups", "backup", "restore", "--data-dir", "e")
        self.refused(2, "is empty", "backup", "restore", "--data-dir", "", "--backup-dir", "d-backups")
        self.refused(2, "is no backup's number", "backup", "restore", "newest", "--data-dir", "e")
        self.refused(2, "unknown word", "backup", "make")
        self.refused(2, "needs create.list.restore", "backup")
        self.refused(2, "one word too many", "backup", "list", "1")
        self.refused(2, "lies in the data folder", "backup", "create", "--data-dir", "d", "--backup-dir", "d/b")
        code, out, _ = run("backup", "list", "--data-dir", "e", cwd=self.folder)
        self.assertEqual(code, 0)
        self.assertRegex(out, "No backups in .*/e-backups")
        self.assertFalse(os.path.exists(self.path("e")))

    def test_a_damaged_backup_is_not_restored_and_leaves_nothing(self):
        table = max(glob.glob(self.path("d-backups/shared_checksum/*")), key=os.path.getsize)
        with open(table, "r+b") as handle:
            handle.seek(os.path.getsize(table) // 2)
            byte = handle.read(1)
            handle.seek(-1, os.SEEK_CUR)
            handle.write(bytes([byte[0] ^ 1]))
        self.refused(1, "Corruption|checksum", "backup", "restore", "--data-dir", "e", "--backup-dir", "d-backups")
        self.assertFalse(os.path.exists(self.path("e/store")))
        os.remove(table)
        code, out, _ = run("backup", "list", "--data-dir", "d", "--json", cwd=self.folder)
        self.assertEqual(code, 0)
        self.assertEqual([(b["id"], b["state"]) for b in json.loads(out)], [(1, "damaged")])
        self.refused(2, "no backup that is whole", "backup", "restore", "--data-dir", "e", "--backup-dir", "d-backups")

    def test_nobody_begins_in_a_folder_that_is_half_restored(self):
        os.makedirs(self.path("e/store.restoring"))
        self.refused(1, "a restore into e has not finished", "run", "in.txt", "--backend", "sim", "--data-dir", "e")
        code, out, err = run("backup", "restore", "--data-dir", "e", "--backup-dir", "d-backups", cwd=self.folder)
        self.assertEqual(code, 0, err)
        code, out, err = run("audit", "--data-dir", "e", cwd=self.folder)
        self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    unittest.main()
