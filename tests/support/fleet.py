"""A fleet under fault tests: a coordinator that can die and come back at its address, workers whose
calls can be told apart in the backend's log, the record that a client keeps of what it was promised,
and the sums over all that.

The witnesses are the backend's own log (every call: who, which request, when, how it ended) and the
ledger of this side of the wire. Neither is written by the program under test.
"""
import collections
import contextlib
import hashlib
import itertools
import json
import os
import threading
import time

from nightshift_testing import Coordinator, Witness, Worker, chat_line, read_jsonl, run

# What was answered so shortly before its worker died had perhaps not reached it: seconds. The
# backend's clock stops when it has written the answer.
READ_WITHIN = 0.1


class Backend(Witness):
    """The witness, as a backend of many workers: each has a path of its own, which the log names."""

    def __init__(self, folder, latency):
        super().__init__(folder, "--latency", latency)
        self._read = 0
        self._seen = []
        self.first_call = {}  # worker -> when its first call began

    def url_for(self, worker):
        return f"{self.url[:-len('/v1')]}/{worker}/v1"

    def calls(self):
        """All calls that have ended, by their end. Reads only what is new."""
        with open(self.log, "rb") as handle:
            handle.seek(self._read)
            fresh = handle.read()
        whole = fresh.rfind(b"\n") + 1
        for line in fresh[:whole].splitlines():
            call = json.loads(line)
            call["worker"] = call["path"].split("/")[1]
            self._seen.append(call)
            begun = self.first_call.setdefault(call["worker"], call["started"])
            self.first_call[call["worker"]] = min(begun, call["started"])
        self._read += whole
        return self._seen


class Ledger:
    """What the client was promised: submissions acknowledged, and outcomes it has read. On disk before
    it counts, as a client would keep it."""

    def __init__(self, path):
        self._file = open(path, "a", buffering=1)
        self._lock = threading.Lock()
        self.jobs = {}  # id -> custom_ids
        self.outcomes = {}  # (job, custom_id) -> digest of the line
        self.contradictions = []

    def _write(self, record):
        self._file.write(json.dumps(record) + "\n")
        os.fsync(self._file.fileno())

    def acknowledged(self, job, custom_ids):
        with self._lock:
            self.jobs[job] = custom_ids
            self._write({"job": job, "requests": len(custom_ids)})

    def read(self, job, lines):
        """`lines` of the job's results as they are now: none may be lost or change after this."""
        with self._lock:
            for line in lines:
                key = (job, line["custom_id"])
                digest = hashlib.sha1(json.dumps(line, sort_keys=True).encode()).hexdigest()
                if self.outcomes.setdefault(key, digest) != digest:
                    self.contradictions.append(f"{key} has changed")
            self._write({"job": job, "outcomes": len(lines)})

    def missing(self, job, lines):
        have = {line["custom_id"] for line in lines}
        return [custom_id for known, custom_id in self.outcomes if known == job and custom_id not in have]

    def close(self):
        self._file.close()


class Fleet:
    """`test` is the TestCase that starts processes and fails."""

    def __init__(self, test, latency, concurrency, *coordinator_options, prompt_bytes=0, env=None):
        self.test = test
        self.backend = test.start(Backend(test.folder, latency))
        self.concurrency = concurrency
        self.padding = "x" * prompt_bytes
        self.tries = 1  # of a command that finds no coordinator
        self.coordinator_options = coordinator_options
        self.ledger = Ledger(test.path("ledger.jsonl"))
        test.addCleanup(self.ledger.close)
        self.coordinator = test.start(Coordinator(test.path("data"), *coordinator_options, env=env))
        self.address = self.coordinator.address
        self.where = ("--coordinator", self.address)
        self.workers = {}  # by name, those that live
        self.bodies = {}  # custom_id -> digest of what its body must be answered
        self._numbers = itertools.count(1)  # of jobs; shared with the clerk's thread

    # --- processes --------------------------------------------------------------------------------
    def start_coordinator(self):
        self.coordinator = self.test.start(Coordinator(self.test.path("data"), *self.coordinator_options,
                                                       address=self.address))

    def start_worker(self, name, told_name=None, folder=None, address=None, options=(), env=None):
        """`name` is what the backend's log says; `told_name` what the coordinator hears."""
        told_name = told_name or name
        worker = self.test.start(Worker(address or self.address, self.backend.url_for(name), "--name", told_name,
                                        "--data-dir", self.test.path(folder or told_name), "--concurrency",
                                        self.concurrency, *options, env=env))
        self.workers[name] = worker
        return worker

    def kill_worker(self, name):
        self.workers.pop(name).kill()

    def run(self, *arguments, timeout=600):
        """A command that must succeed, but may find no coordinator (code 5) as often as `tries` says."""
        for tried in range(1, self.tries + 1):
            code, out, err = run(*arguments, *self.where, timeout=timeout)
            if code != 5 or tried == self.tries:
                self.test.assertEqual(code, 0, out + err)
                return out

    # --- work -------------------------------------------------------------------------------------
    def write_job(self, requests):
        """A file of requests whose names are new; (path, custom_ids)."""
        number = next(self._numbers)
        ids = [f"j{number}-{i}" for i in range(requests)]
        lines = []
        for custom_id in ids:
            line = chat_line(custom_id, f'<<{{"key":"{custom_id}"}}>> say {custom_id} {self.padding}')
            body = line[line.index('"body": ') + len('"body": '):-1]
            self.bodies[custom_id] = "echo:" + hashlib.sha1(body.encode()).hexdigest()[:12]
            lines.append(line + "\n")
        return self.test.write(f"in-{number}.jsonl", "".join(lines)), ids

    def submit(self, requests):
        path, ids = self.write_job(requests)
        job = self.run("submit", path).strip()
        self.ledger.acknowledged(job, ids)
        return job, ids

    def status(self, job):
        return json.loads(self.run("status", job, "--json"))

    def worker_states(self):
        return {worker["name"]: worker["state"] for worker in json.loads(self.run("workers", "--json"))}

    def read_results(self, job):
        """What can be read of a job now goes into the ledger."""
        path = self.test.path("now.jsonl")
        self.run("results", job, "--force", "-o", path)
        lines = read_jsonl(path)
        self.ledger.read(job, lines)
        return lines

    # --- the end ----------------------------------------------------------------------------------
    def check_job(self, job, timeout=600):
        """It ends; each of its requests has one outcome, which is its own answer; nothing that was
        read earlier is lost or different."""
        test = self.test
        ids = self.ledger.jobs[job]
        self.run("watch", job, timeout=timeout)
        lines = self.read_results(job)
        path = test.path("errors.jsonl")
        self.run("errors", job, "--force", "-o", path)
        test.assertEqual(read_jsonl(path), [])
        test.check_files_cover(lines, [], ids)
        wrong = [line["custom_id"] for line in lines if
                 line["response"]["body"]["choices"][0]["message"]["content"] != self.bodies[line["custom_id"]]]
        test.assertEqual(wrong, [], "answered with what belongs to another request")
        test.assertEqual(self.ledger.contradictions, [])
        test.assertEqual(self.ledger.missing(job, lines), [], "outcomes that had been read are gone")
        counts = self.status(job)["counts"]
        test.assertEqual((counts["succeeded"], counts["total"]), (len(ids), len(ids)))

    def audit(self):
        self.run("audit")


@contextlib.contextmanager
def clerk(fleet, requests=20, every=2.0):
    """A client that goes on handing in small jobs while everything else dies, and to the end until one has
    been acknowledged. Yields the codes that its submissions ended with: where it is not 0 nothing was
    promised, though the job may be there."""
    stop, codes, problems = threading.Event(), [], []

    def submit():
        try:
            while not stop.wait(every):
                path, ids = fleet.write_job(requests)
                code, out, _ = run("submit", path, *fleet.where)
                codes.append(code)
                if code == 0:
                    fleet.ledger.acknowledged(out.strip(), ids)
        except Exception as problem:  # raised where the clerk is waited for
            problems.append(problem)

    thread = threading.Thread(target=submit, daemon=True)
    thread.start()
    try:
        yield codes
        until = time.monotonic() + 60
        while 0 not in codes and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
        for problem in problems:
            raise problem


# --- sums over the backend's log ------------------------------------------------------------------


def by_key(calls):
    """The calls of each request, by their start."""
    found = collections.defaultdict(list)
    for call in calls:
        found[call["key"]].append(call)
    for group in found.values():
        group.sort(key=lambda call: call["started"])
    return found


def split_repeats(groups, died_at):
    """(calls that were made again because the first was lost with its worker, calls made although an
    earlier one was answered), over `groups` of by_key. `died_at`: worker -> when it was killed, or all the
    times when it was."""
    def unread(call):
        deaths = died_at.get(call["worker"], [])
        return any(call["started"] < death < call["ended"] + READ_WITHIN
                   for death in (deaths if isinstance(deaths, list) else [deaths]))
    lost, again = [], []
    for group in groups.values():
        answered = False
        for call, following in zip(group, group[1:]):
            answered |= call["how"] == "answered" and not unread(call)
            (again if answered else lost).append(following)
    return lost, again


def waits_after_death(groups, worker, death):
    """For each request that was in a call when its worker died, and had to be called again: how long until
    then, seconds."""
    return [following["started"] - death for group in groups.values() for call, following in zip(group, group[1:])
            if call["worker"] == worker and call["started"] < death <= call["ended"]]


def table(title, rows):
    """Rows of (what, figure), for people."""
    width = max(len(what) for what, _ in rows)
    lines = [title] + [f"  {what.ljust(width)}  {figure}" for what, figure in rows]
    return "\n".join(lines)


def now():
    """The backend's clock: processes of one machine share it."""
    return time.time()
