"""The real client libraries against the Batch API.

They are installed with npm from package-lock.json into a folder of their own, once per build folder;
without node, npm or a registry the test is skipped with a loud line.
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from http_api import ApiCase, requests  # noqa: E402

# Where the libraries are kept between runs.
CACHE = os.environ.get("NIGHTSHIFT_SDK_DIR", os.path.join(tempfile.gettempdir(), "nightshift-sdk"))


def skip(why):
    print(f"SKIPPED LOUDLY: {why}; this test proves nothing here", file=sys.stderr)
    raise unittest.SkipTest(why)


def installed(name):
    """A folder that holds the scripts of this one and the library."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            skip(f"there is no {program}")
    os.makedirs(CACHE, exist_ok=True)
    for file in ("package.json", "package-lock.json", "batch.mjs"):
        shutil.copy(os.path.join(HERE, file), CACHE)
    if not os.path.exists(os.path.join(CACHE, "node_modules", name)):
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=CACHE, timeout=120,
                              capture_output=True, text=True)
        if done.returncode != 0:
            skip(f"npm cannot install {name}: {done.stderr.strip()[-300:]}")
    return CACHE


class NodeLibrary(ApiCase):
    def test_everything_a_batch_script_does(self):
        folder = installed("openai")
        self.start_worker()
        done = subprocess.run(["node", "batch.mjs"], cwd=folder, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "OPENAI_BASE_URL": f"http://{self.http}/v1", "OPENAI_API_KEY": "any"})
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertEqual(json.loads(done.stdout), {"answers": 50, "batches": 3, "files": 2})


class Readme(ApiCase):
    """What the README tells people to type, word for word but for the address and the ids."""

    def setUp(self):
        super().setUp()
        self.start_worker()
        self.write("prompts.jsonl", requests(3))
        with open(os.path.join(HERE, "..", "..", "README.md"), encoding="utf-8") as handle:
            text = handle.read()
        self.section = text.split("## With your OpenAI batch script", 1)[1].split("\n## ", 1)[0]
        self.section = self.section.replace("127.0.0.1:7480", self.http)

    def block(self, language):
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", self.section, re.S | re.M)
        return next(text for name, text in blocks if name == language)

    def completed(self, batch_id):
        batch = self.until(batch_id, "completed", "failed")
        self.assertEqual((batch["status"], batch["request_counts"]["completed"]), ("completed", 3), batch)
        return batch

    def test_node(self):
        folder = installed("openai")
        shutil.copy(self.path("prompts.jsonl"), folder)
        with open(os.path.join(folder, "readme.mjs"), "w", encoding="utf-8") as handle:
            handle.write(self.block("js") + "console.log(batch.id);\n")
        done = subprocess.run(["node", "readme.mjs"], cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.completed(done.stdout.strip())

    def test_python(self):
        if importlib.util.find_spec("openai") is None:
            skip("the Python library is not installed")
        done = subprocess.run([sys.executable, "-c", self.block("python") + "print(batch.id)"], cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.completed(done.stdout.strip())

    def test_curl(self):
        if shutil.which("curl") is None:
            skip("there is no curl")
        commands = [c for c in self.block("").replace("\\\n", " ").split("\n") if c.startswith("$ curl")]
        self.assertEqual(len(commands), 4)

        def curl(command):
            done = subprocess.run(command[2:], shell=True, cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        file = json.loads(curl(commands[0]))["id"]
        batch = json.loads(curl(commands[1].replace("file-\u2026", file)))["id"]
        output = self.completed(batch)["output_file_id"]
        self.assertEqual(json.loads(curl(commands[2].replace("batch_\u2026", batch)))["status"], "completed")
        curl(commands[3].replace("file-\u2026-output", output))
        with open(self.path("answers.jsonl"), encoding="utf-8") as handle:
            self.assertEqual(len(handle.readlines()), 3)


if __name__ == "__main__":
    unittest.main()
