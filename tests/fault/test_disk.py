"""Disks that fill up or die. Full disks are a volume of their own (tmpfs) whose size is changed under
the running program, which needs the right to mount (root) and is skipped loudly elsewhere; the dying
disk is a preloaded library that fails syncs ($NIGHTSHIFT_FAILING_SYNC, set by ctest). Sizes come from the environment:
NIGHTSHIFT_DISK_FILLS (default 3), NIGHTSHIFT_DISK_REQUESTS (default 1500), NIGHTSHIFT_SEED.
"""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import (PROGRAM, Coordinator, Process, TestCase, Witness, Worker, chat_line,
                                read_jsonl, run)

FILLS = int(os.environ.get("NIGHTSHIFT_DISK_FILLS", "3"))
REQUESTS = int(os.environ.get("NIGHTSHIFT_DISK_REQUESTS", "1500"))
SEED = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))
MIB = 1 << 20
VOLUME = 600 * MIB
# Below the first mark for such a volume nothing goes out (160 MiB free, and 200 to go on), below the
# second (80 MiB) nothing is written.
BETWEEN = 125 * MIB
FULL = 40 * MIB
# From there being room to work going on, seconds.
SERVING_WITHIN = 10.0


class Volume:
    """A file system of its own, in memory. `leave(bytes)` makes it as full as that; `empty()` undoes it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="nightshift-volume-")
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={VOLUME}", "nightshift-test", self.path],
                              capture_output=True)
        if made.returncode != 0:
            os.rmdir(self.path)
            print(f"SKIPPED LOUDLY: no volume can be mounted ({made.stderr.decode().strip()}); this test "
                  "proves nothing here", file=sys.stderr)
            raise unittest.SkipTest("mounting is not permitted")

    def unmount(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)

    def _resize(self, size):
        return subprocess.run(["mount", "-o", f"remount,size={size}", self.path], capture_output=True).returncode == 0

    def leave(self, free):
        while True:  # what is written meanwhile can make it refuse
            info = os.statvfs(self.path)
            used = (info.f_blocks - info.f_bfree) * info.f_frsize
            if self._resize(used + free):
                return

    def empty(self):
        assert self._resize(VOLUME)


class DyingDisk(TestCase):
    def test_failed_sync_ends_the_coordinator_with_75_and_a_restart_goes_on(self):
        preload = os.environ.get("NIGHTSHIFT_FAILING_SYNC")
        if not preload:
            print("SKIPPED LOUDLY: NIGHTSHIFT_FAILING_SYNC names no library; this test proves nothing here",
                  file=sys.stderr)
            self.skipTest("no library to preload")
        order = self.path("fail")
        ids = [f"r-{i}" for i in range(REQUESTS)]
        source = self.write("in.jsonl", "".join(chat_line(c, f"say {c}") + "\n" for c in ids))
        witness = self.start(Witness(self.folder, "--latency", "0.05"))
        coordinator = self.start(Coordinator(self.path("data"), env={"LD_PRELOAD": preload, "NIGHTSHIFT_FAIL_SYNCS": order}))
        where = ("--coordinator", coordinator.address)
        self.start(Worker(coordinator.address, witness.url, "--data-dir", self.path("w")))
        code, out, err = run("submit", source, *where)
        self.assertEqual(code, 0, err)
        job = out.strip()
        self.eventually(lambda: len(witness.calls()) >= REQUESTS // 5, "the first fifth")
        self.write("fail", "")
        self.assertEqual(coordinator.wait(timeout=10), 75)
        self.assertRegex("\n".join(coordinator.err), "can no longer be trusted.*\n.*start the coordinator again")
        coordinator = self.start(Coordinator(self.path("data"), address=where[1]))
        code, _, err = run("watch", job, *where)
        self.assertEqual(code, 0, err)
        code, out, err = run("audit", *where)
        self.assertEqual(code, 0, out + err)
        code, _, err = run("results", job, *where, "--force", "-o", self.path("out.jsonl"))
        self.assertEqual(code, 0, err)
        self.check_files_cover(read_jsonl(self.path("out.jsonl")), [], ids)
        self.assertEqual(len(witness.calls()), REQUESTS, "the worker held what was not acknowledged: no second call")
        self.assertEqual(coordinator.end(), 0)


class FullDisk(TestCase):
    def setUp(self):
        self.volume = Volume()
        self.addCleanup(self.volume.unmount)  # after the processes have ended
        super().setUp()
        print("seed", SEED, file=sys.stderr)
        self.rng = random.Random(SEED)
        self.data = os.path.join(self.volume.path, "data")
        self.ids = [f"r-{i}" for i in range(REQUESTS)]
        self.source = self.write("in.jsonl", "".join(
            chat_line(c, f'<<{{"key":"{c}"}}>> say {c}') + "\n" for c in self.ids))

    def status(self, job, *where):
        code, out, err = run("status", job, "--json", *where)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def check_each_outcome_once(self, job, *where):
        code, out, err = run("audit", *where)
        self.assertEqual(code, 0, out + err)
        code, _, err = run("results", job, *where, "--force", "-o", self.path("out.jsonl"))
        self.assertEqual(code, 0, err)
        self.check_files_cover(read_jsonl(self.path("out.jsonl")), [], self.ids)

    def test_work_stops_before_the_disk_is_full_and_goes_on_by_itself(self):
        witness = self.start(Witness(self.folder, "--latency", "0.1"))
        coordinator = self.start(Coordinator(self.data))
        where = ("--coordinator", coordinator.address)
        self.start(Worker(coordinator.address, witness.url, "--data-dir", self.path("w")))
        code, out, err = run("submit", self.source, *where)
        self.assertEqual(code, 0, err)
        job = out.strip()
        self.eventually(lambda: len(witness.calls()) >= REQUESTS // 10, "the first calls")

        self.volume.leave(BETWEEN)
        self.eventually(lambda: self.status(job, *where)["state"] == "paused", "the pause")
        paused = self.status(job, *where)
        self.assertEqual(paused["reason"], "disk")
        self.assertIn(self.data, paused["waiting_for"])
        code, _, err = run("submit", self.source, *where)
        self.assertEqual(code, 1)
        self.assertRegex(err, "no new job is taken.*nearly full")
        code, _, err = run("submit", self.source, *where, "--json")
        self.assertEqual((code, "disk_full" in err), (1, True), err)
        code, _, err = run("resume", job, *where)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, "but it is still paused: the disk of .* is nearly full")
        # What workers had already is recorded: between the marks there is room for it.
        self.eventually(lambda: self.status(job, *where)["counts"]["in_flight"] == 0, "answers being recorded")
        called = len(witness.calls())
        self.assertEqual(self.status(job, *where)["counts"]["succeeded"], called)
        self.assertLess(called, REQUESTS, "the job ended before the disk was low: nothing was tested")

        self.volume.leave(FULL)
        code, _, err = run("pause", job, *where)
        self.assertNotEqual(code, 0)
        self.assertRegex(err, "the disk of .* is full")
        self.assertIsNone(coordinator.process.poll(), "it waits for room, it does not end")
        self.assertEqual(len(witness.calls()), called)

        self.volume.empty()
        since = time.monotonic()
        self.eventually(lambda: len(witness.calls()) > called, "work going on", SERVING_WITHIN)
        print(f"work went on {time.monotonic() - since:.1f} s after there was room", file=sys.stderr)
        code, _, err = run("watch", job, *where)
        self.assertEqual(code, 0, err)
        self.check_each_outcome_once(job, *where)
        self.assertEqual(len(witness.calls()), REQUESTS, "a full disk costs no second call")
        self.assertEqual(coordinator.end(), 0)

    def test_run_shows_the_pause_and_ends_well(self):
        witness = self.start(Witness(self.folder, "--latency", "0.05"))
        command = Process([PROGRAM, "run", self.source, "--backend", witness.url, "--data-dir", self.data, "-o",
                           self.path("out.jsonl"), "--progress", "plain", "--progress-interval", "200ms",
                           "--concurrency", "16"], cwd=self.folder)
        self.start(command)
        self.eventually(lambda: len(witness.calls()) >= REQUESTS // 10, "the first calls")
        self.volume.leave(BETWEEN)
        command.wait_for(r"state=paused waiting=\"paused: the disk of .* is nearly full")
        self.volume.empty()
        self.assertEqual(command.wait(), 0, command.err[-5:])
        self.check_files_cover(read_jsonl(self.path("out.jsonl")), [], self.ids)
        self.assertEqual(len(witness.calls()), REQUESTS)

    def test_start_on_a_full_disk_is_refused_in_clear_words_until_there_is_room(self):
        self.volume.leave(FULL)
        refused = self.start(Process([PROGRAM, "coordinator", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                      "--data-dir", self.data]))
        self.assertEqual(refused.wait(), 1)
        self.assertRegex("\n".join(refused.err), "the disk of .* is full: .* free, .* needs .*free some space")
        self.volume.empty()
        self.assertEqual(self.start(Coordinator(self.data)).end(), 0)

    # Whatever the moment and however little is left: RocksDB may even abort. A supervisor starts the
    # coordinator again until there is room.
    def test_disk_filled_at_once_again_and_again_loses_nothing(self):
        witness = self.start(Witness(self.folder, "--latency", "0.02"))
        coordinator = self.start(Coordinator(self.data))
        where = ("--coordinator", coordinator.address)
        worker = Worker(coordinator.address, witness.url, "--data-dir", self.path("w"))
        self.start(worker)
        ends = collections.Counter()
        slowest = 0.0
        for _ in range(FILLS):
            submitted = []

            def submit():
                submitted[:] = run("submit", self.source, *where)
                return submitted[0] == 0

            # The coordinator looks at the disk once a second.
            self.eventually(submit, "a new job being taken", SERVING_WITHIN)
            job = submitted[1].strip()
            self.eventually(lambda: self.status(job, *where)["counts"]["succeeded"] >= 50, "some answers")
            time.sleep(self.rng.random() * 0.3)
            self.volume.leave(self.rng.choice([0, 1, 8, 60, 100]) * MIB + self.rng.randrange(MIB))
            time.sleep(0.2 + self.rng.random() * 1.5)
            self.volume.empty()
            since = time.monotonic()
            if coordinator.process.poll() is None:
                ends["none"] += 1
            while coordinator.process.poll() is not None:
                ends[coordinator.process.returncode] += 1
                coordinator = self.start(Coordinator(self.data, address=where[1]))
            done = self.status(job, *where)["counts"]["succeeded"]
            self.eventually(lambda: self.status(job, *where)["counts"]["succeeded"] > min(done, REQUESTS - 1),
                            "work going on", SERVING_WITHIN)
            slowest = max(slowest, time.monotonic() - since)
            code, _, err = run("watch", job, *where)
            self.assertEqual(code, 0, err)
            self.check_each_outcome_once(job, *where)
        print(f"fills {FILLS}, how the coordinator ended {dict(ends)}, slowest to serve again {slowest:.1f} s, "
              f"calls {len(witness.calls())} for {FILLS * REQUESTS} requests", file=sys.stderr)
        self.assertEqual(coordinator.end(), 0)


if __name__ == "__main__":
    unittest.main()
