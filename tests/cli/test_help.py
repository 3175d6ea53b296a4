"""Help, unknown words, and where things are printed."""
import json
import re
import unittest

from support import CliCase

COMMANDS = ["run", "coordinator", "worker", "submit", "jobs", "status", "watch", "results", "errors", "pause",
            "resume", "cancel", "retry", "delete", "workers", "audit", "backup", "token", "sim-server", "config", "version", "help"]


class Help(CliCase):
    def test_alone_it_shows_one_screen_with_an_example(self):
        code, out, err = self.nightshift()
        self.assertEqual((code, err), (0, ""))
        self.assertLessEqual(len(out.splitlines()), 25)
        self.assertIn("--backend sim", out)
        self.assertLessEqual(max(map(len, out.splitlines())), 80)

    def test_every_way_of_asking_for_help_works_on_standard_output(self):
        for words in (["-h"], ["--help"], ["help"], ["help", "run"], ["run", "-h"], ["run", "--help"],
                      ["run", "x", "--budget-usd", "3", "-h"], ["run", "--nonsense", "-h"], ["--json", "run", "-h"]):
            code, out, err = self.nightshift(*words)
            self.assertEqual((code, err), (0, ""), words)
            self.assertIn("Usage: nightshift", out, words)

    def test_every_command_explains_itself_in_eighty_columns(self):
        for command in COMMANDS:
            code, out, err = self.nightshift("help", command)
            self.assertEqual((code, err), (0, ""), command)
            self.assertIn(f"nightshift {command}", out)
            self.assertLessEqual(max(map(len, out.splitlines())), 80, command)

    def test_the_overview_names_every_command_and_no_other(self):
        _, out, _ = self.nightshift()
        named = set(re.findall(r"\b[a-z][a-z-]+\b", out[out.index("Run a file"):]))
        for command in set(COMMANDS) - {"help"}:
            self.assertIn(command, named)
        for absent in ("bench", "completion", "manpage"):
            self.assertNotIn(absent, named)

    def test_topics_name_every_exit_code_and_every_variable(self):
        _, codes, _ = self.nightshift("help", "exit-codes")
        for code in (0, 1, 2, 3, 4, 5, 75, 130, 143):
            self.assertRegex(codes, rf"(?m)^ *{code}  ")
        _, variables, _ = self.nightshift("help", "environment")
        flags = set()
        for command in COMMANDS:
            _, out, _ = self.nightshift("help", command)
            flags |= set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z0-9-]+)", out)) - {"help"}
        self.assertGreater(len(flags), 60)
        for flag in flags:
            self.assertIn("NIGHTSHIFT_" + flag.upper().replace("-", "_"), variables)
        self.assertIn("CEREBRAS_API_KEY", variables)
        _, formats, _ = self.nightshift("help", "formats")
        for word in ("custom_id", "error_class", '"type":"error"', "context_too_long"):
            self.assertIn(word, formats)


class WrongWords(CliCase):
    def test_a_wrong_command_suggests_the_right_one(self):
        code, out, err = self.nightshift("sttaus")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("did you mean nightshift status?", err)

    def test_a_wrong_flag_suggests_the_right_one(self):
        code, out, err = self.nightshift("run", "x", "--jsno")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("did you mean --json?", err)

    def test_commands_are_not_completed(self):
        self.assertEqual(self.nightshift("stat")[0], 2)
        self.assertEqual(self.nightshift("jo")[0], 2)

    def test_an_unknown_topic_is_bad_usage(self):
        code, out, err = self.nightshift("help", "exit-code")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("exit-codes", err)

    def test_under_json_errors_are_json_on_standard_error(self):
        for words in (["--json", "sttaus"], ["run", "--json"], ["jobs", "--json", "--color", "red"],
                      ["status", "job_1", "--json", "--coordinator", "127.0.0.1:1"]):
            code, out, err = self.nightshift(*words)
            self.assertIn(code, (2, 5))
            self.assertEqual(out, "", words)
            document = json.loads(err)
            self.assertEqual(list(document)[:4], ["type", "code", "message", "hint"], words)
            self.assertEqual(document["type"], "error")


class Version(CliCase):
    def test_one_line_with_version_and_commit(self):
        for words in (["--version"], ["version"]):
            code, out, err = self.nightshift(*words)
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, r"^nightshift \d+\.\d+\.\d+ \([0-9a-f]{7,}|unknown\)\n$")

    def test_as_json(self):
        for words in (["version", "--json"], ["--version", "--json"]):
            document = json.loads(self.nightshift(*words)[1])
            self.assertEqual(set(document), {"name", "version", "commit"})


if __name__ == "__main__":
    unittest.main()
