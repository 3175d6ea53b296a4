"""What the tests of the command line share, on top of tests/support/nightshift_testing.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from nightshift_testing import *  # noqa: F401,F403
from nightshift_testing import PROGRAM, Coordinator, Sim, TestCase, Worker, read_jsonl, run

# Nothing of the person who runs the tests may decide how they end.
for name in [n for n in os.environ if n.startswith("NIGHTSHIFT_")
             and n not in ("NIGHTSHIFT_PROGRAM", "NIGHTSHIFT_TOOLS")]:
    del os.environ[name]
for name in ("CEREBRAS_API_KEY", "OPENAI_API_KEY", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(name, None)
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"


def prompts(count, text="Write about topic %d"):
    return "".join('{"prompt":"%s"}\n' % (text % i if "%d" in text else text) for i in range(count))


class CliCase(TestCase):
    """Commands run in a folder of their own."""

    def nightshift(self, *arguments, **options):
        options.setdefault("cwd", self.folder)
        return run(*arguments, **options)

    def sim(self, *options):
        return self.start(Sim("--log", self.path("sim.log"), *options))

    def sim_calls(self):
        """Calls for answers that the simulated server has logged."""
        return [call for call in read_jsonl(self.path("sim.log"), torn_tail=True)
                if call.get("path", "").startswith("/v1/") and call.get("path") != "/v1/models"]

    def cluster(self, *sim_options):
        """A coordinator and a worker on a simulated server; commands find them by environment."""
        sim = self.sim(*sim_options)
        self.coordinator = self.start(Coordinator(self.path("cluster")))
        self.worker = self.start(Worker(self.coordinator.address, sim.url))
        self.address = self.coordinator.address
        self.eventually(self.worker_is_ready, "the worker connects")
        return self.address

    def worker_is_ready(self):
        import json
        code, out, _ = run("workers", "--json", "--coordinator", self.address)
        return code == 0 and any(b["state"] == "ready" for w in json.loads(out) for b in w["backends"])
