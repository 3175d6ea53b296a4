"""Bodies reach the backend byte for byte, each answer comes back at its request, and few of them are in memory."""
import base64
import hashlib
import json
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import PROGRAM, Process, Sim, TestCase, Witness, chat_line, read_jsonl, run

COUNT = int(os.environ.get("NIGHTSHIFT_BYTES_COUNT", "3000"))

# Its input is so large, MiB, that it cannot be held within the bound: with little of it in memory it takes about
# 160, of which most are the store's buffers, whatever the size of the input.
LARGE_MIB, RESIDENT_MIB_MAX = 150, 220
LARGE_LINES = 600


def awkward_body(rng, number):
    """The text of a chat body that any re-printing of JSON would change."""
    pieces = [
        '"temperature":1e-1', '"seed":9007199254740993', '"big":123456789012345678901234567890',
        '"top_p" : 0.10', '"logit_bias":{"50256":-100,"50256":-99}', '"user":"\\u00e9\\ud83d\\ude00\\/"',
        '"x":[1 , 2,\t3]', '"metadata":{"z":1,"a":2,"z":3}', '"n":1.0', '"stop":["\\n","\\u2028"]',
        '"lone":"\\ud800"', '"deep":' + "[" * 40 + "]" * 40, '"tiny":1E400', '"neg":-0.0', '"unknown_field":null',
        '"ls":"\u2028\u2029\u0085"', '"emoji":"\U0001f319"', '"empty":{}', '"spaces":   "  "']
    rng.shuffle(pieces)
    content = rng.choice(['plain', 'a \\"quoted\\" word', 'tab\\tnew\\nline', '\u00fcml\u00e4ut', '\\u0041', 'x' * rng.randrange(2000)])
    chosen = pieces[:rng.randrange(1, 9)]
    messages = '"messages":[{"role":"user","content":"%s %d"}]' % (content, number)
    chosen.insert(rng.randrange(len(chosen) + 1), messages)
    chosen.insert(rng.randrange(len(chosen) + 1), '"model":"m"')
    comma = rng.choice([",", ", ", " ,\t"])
    return "{" + rng.choice(["", " "]) + comma.join(chosen) + rng.choice(["", "  "]) + "}"


class AwkwardBodies(TestCase):
    def test_every_body_arrives_byte_for_byte_and_every_answer_is_at_its_request(self):
        seed = int(os.environ.get("NIGHTSHIFT_SEED", random.randrange(1 << 30)))
        print("seed", seed, file=sys.stderr)
        rng = random.Random(seed)
        bodies, lines = {}, []
        for i in range(COUNT):
            custom_id = f"r-{i}"
            body = awkward_body(rng, i)
            bodies[custom_id] = body.encode()
            members = [f'"custom_id":"{custom_id}"', '"method":"POST"', '"url":"/v1/chat/completions"', f'"body":{body}']
            rng.shuffle(members)
            lines.append("{" + ",".join(members) + "}")
        source = self.write("in.jsonl", "\n".join(lines) + "\n")
        witness = self.start(Witness(self.folder, "--keep-bodies"))
        command = ("run", source, "--backend", witness.url, "--data-dir", self.path("data"),
                   "-o", self.path("out.jsonl"), "--errors", self.path("err.jsonl"))
        code, _, err = run(*command, cwd=self.folder)
        self.assertEqual(code, 0, err)

        calls = witness.calls()
        self.assertEqual(len(calls), COUNT, "one call each")
        seen = sorted(base64.b64decode(c["raw"]) for c in calls)
        self.assertEqual(seen, sorted(bodies.values()), "bodies changed on the way")

        results = read_jsonl(self.path("out.jsonl"))
        self.assertFalse(os.path.exists(self.path("err.jsonl")))
        self.assertEqual([r["custom_id"] for r in results], [f"r-{i}" for i in range(COUNT)])
        for r in results:
            expected = "echo:" + hashlib.sha1(bodies[r["custom_id"]]).hexdigest()[:12]
            self.assertEqual(r["response"]["body"]["choices"][0]["message"]["content"], expected)
            self.assertEqual(r["response"]["status_code"], 200)
            self.assertIsNone(r["error"])
            self.assertEqual(r["nightshift"]["attempts"], 1)

        with open(self.path("out.jsonl"), "rb") as handle:
            first = handle.read()
        code, _, err = run(*command, cwd=self.folder)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(witness.calls()), COUNT, "the second run made calls")
        with open(self.path("out.jsonl"), "rb") as handle:
            self.assertEqual(handle.read(), first)


def peak_mib(pid):
    """The largest resident size so far; 0 of a process that has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


class LargeJob(TestCase):
    def test_a_job_takes_no_more_memory_than_a_part_of_its_input(self):
        filler = "x" * (LARGE_MIB * (1 << 20) // LARGE_LINES)
        with open(self.path("in.jsonl"), "w") as handle:
            handle.writelines(chat_line(f"r-{i}", filler) + "\n" for i in range(LARGE_LINES))
        sim = self.start(Sim("--models", "m"))
        process = self.start(Process([PROGRAM, "run", "in.jsonl", "--backend", sim.url, "--concurrency", "32"],
                                     cwd=self.folder))
        peak = 0
        while process.process.poll() is None:
            peak = max(peak, peak_mib(process.pid))
            time.sleep(0.01)
        self.assertEqual(process.wait(), 0, process.err)
        print(f"{LARGE_MIB} MiB of input, {peak:.0f} MiB resident at most", file=sys.stderr)
        self.assertGreater(peak, 0)
        self.assertLess(peak, RESIDENT_MIB_MAX)
        self.assertEqual(len(read_jsonl(self.path("in.results.jsonl"))), LARGE_LINES)


if __name__ == "__main__":
    unittest.main()
