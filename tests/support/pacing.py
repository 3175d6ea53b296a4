"""A job against the simulated service with limits per minute, and what it came to: makespan against
the lower bound that the limits allow, refusals, attempts. What the bench and the test share."""
import json
import os

from nightshift_testing import Coordinator, Process, PROGRAM, Sim, Worker, read_jsonl, run

ANSWER = 100  # tokens, of each answer and at most
PROMPT_TOKENS = 22  # about
# name -> (what is limited, headers, workers)
SCENARIOS = {
    "tokens per minute, headers": ("tokens", True, 0),
    "requests per minute, headers": ("requests", True, 0),
    "tokens per minute, no headers": ("tokens", False, 0),
    "requests per minute, no headers": ("requests", False, 0),
    "three workers on one key, headers": ("tokens", True, 3),
}


class Outcome:
    """Seconds, counts."""

    def __init__(self, calls, results, errors, limited, limit):
        self.answered, self.failed = len(results), len(errors)
        self.refusals = sum(call["status"] == 429 for call in calls)
        self.attempts_max = max((r["nightshift"]["attempts"] for r in results), default=0)
        self.seconds = (max(call["time"] + call["ms"] / 1000 for call in calls) - min(call["time"] for call in calls))
        work = (sum(r["nightshift"]["prompt_tokens"] + ANSWER for r in results) if limited == "tokens"
                else len(results))
        self.lower_bound = 60 * (work - limit) / limit

    @property
    def ratio(self):
        return self.seconds / self.lower_bound

    def __str__(self):
        return (f"{self.seconds:6.1f} s, {self.ratio:.3f} of the lower bound {self.lower_bound:.1f} s; "
                f"{self.refusals} refusals; at most {self.attempts_max} attempts; "
                f"{self.answered} answered, {self.failed} failed")


def scenario(name, folder, requests, seconds):
    """Runs one of SCENARIOS with `requests` requests, limits chosen so that the lower bound is about
    `seconds`; files are left in `folder`."""
    limited, headers, workers = SCENARIOS[name]
    os.makedirs(folder, exist_ok=True)
    source, log = os.path.join(folder, "in.jsonl"), os.path.join(folder, "sim.log")
    with open(source, "w") as out:
        for i in range(requests):
            # Lengths differ, so that the estimate has something to learn.
            text = f"Say something about number {i} " + "and more " * (i * 7 % 13)
            out.write(json.dumps({"custom_id": f"r{i}", "model": "sim", "max_tokens": ANSWER,
                                  "messages": [{"role": "user", "content": text}]}) + "\n")
    work = requests * (ANSWER + PROMPT_TOKENS) if limited == "tokens" else requests
    limit = int(work / (1 + seconds / 60))
    sim = Sim("--profile", "cerebras", "--log", log, "--reply-tokens", ANSWER,
              "--tokens-per-minute", limit if limited == "tokens" else 0,
              "--requests-per-minute", limit if limited == "requests" else 0,
              f"--limit-headers={'true' if headers else 'false'}")
    processes = [sim]
    try:
        backend = "cerebras=" + sim.url
        results, errors = os.path.join(folder, "out.jsonl"), os.path.join(folder, "errors.jsonl")
        if workers == 0:
            code, _, text = run("run", source, "--backend", backend, "--data-dir", os.path.join(folder, "data"),
                                "-o", results, "--errors", errors, timeout=20 * seconds + 120)
        else:
            coordinator = Coordinator(os.path.join(folder, "data"))
            processes.append(coordinator)
            processes += [Worker(coordinator.address, backend, "--name", f"w{i}") for i in range(workers)]
            code, _, text = run("submit", source, "--wait", "--coordinator", coordinator.address, "-o", results,
                                "--errors", errors, timeout=20 * seconds + 120)
        if code not in (0, 3):
            raise AssertionError(f"{name}: exit code {code}\n{text}")
        calls = [call for call in read_jsonl(log, torn_tail=True) if call["path"].endswith("/chat/completions")]
        return Outcome(calls, read_jsonl(results), read_jsonl(errors), limited, limit)
    finally:
        for process in reversed(processes):
            process.kill()
