"""Where settings come from, and that secrets go nowhere."""
import json
import os
import unittest

from support import CliCase, PROGRAM, prompts


class Precedence(CliCase):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("home/nightshift"))
        self.env = {"XDG_CONFIG_HOME": self.path("home")}

    def shown(self, name, *words, **env):
        code, out, err = self.nightshift("config", "show", "--json", *words, env={**self.env, **env})
        self.assertEqual((code, err), (0, ""))
        return next(s for s in json.loads(out)["settings"] if s["name"] == name)

    # One setting, given at each level in turn; the sources are named.
    def test_flag_environment_config_file_user_file_default(self):
        self.assertEqual(self.shown("max-attempts"),
                         {"name": "max-attempts", "value": "5", "source": "default", "where": "default"})
        user = self.write("home/nightshift/config.yaml", "\nmax-attempts: 6\n")
        self.assertEqual(self.shown("max-attempts"),
                         {"name": "max-attempts", "value": "6", "source": "user_file", "where": user + ":2"})
        file = self.write("mine.yaml", "max-attempts: 7\n")
        self.assertEqual(self.shown("max-attempts", "--config", file),
                         {"name": "max-attempts", "value": "7", "source": "config_file", "where": file + ":1"})
        self.assertEqual(self.shown("max-attempts", "--config", file, NIGHTSHIFT_MAX_ATTEMPTS="8"),
                         {"name": "max-attempts", "value": "8", "source": "environment",
                          "where": "NIGHTSHIFT_MAX_ATTEMPTS"})
        self.assertEqual(
            self.shown("max-attempts", "--config", file, "--max-attempts", "9", NIGHTSHIFT_MAX_ATTEMPTS="8"),
            {"name": "max-attempts", "value": "9", "source": "flag", "where": "--max-attempts"})

    def test_a_value_from_a_file_takes_effect(self):
        self.write("in.jsonl", prompts(3))
        file = self.write("mine.yaml", "backend: sim\nlimit: 2\nquiet: true\n")
        code, _, err = self.nightshift("run", "in.jsonl", "--config", file)
        self.assertEqual((code, err), (0, ""))
        with open(self.path("in.results.jsonl")) as lines:
            self.assertEqual(len(lines.readlines()), 2)

    def test_an_unknown_key_names_file_and_line(self):
        file = self.write("mine.yaml", "json: true\nmax-atempts: 7\n")
        code, out, err = self.nightshift("jobs", "--config", file)
        self.assertEqual((code, out), (2, ""))
        self.assertIn(f"{file}:2: unknown key max-atempts", err)
        self.assertIn("max-attempts", err)

    def test_a_broken_user_file_does_not_keep_anybody_from_reading_help(self):
        self.write("home/nightshift/config.yaml", "nonsense: 1\n")
        self.assertEqual(self.nightshift("jobs", env=self.env)[0], 2)
        self.assertEqual(self.nightshift("help", "run", env=self.env)[0], 0)
        self.assertEqual(self.nightshift("--version", env=self.env)[0], 0)

    def test_a_missing_config_file_is_refused_and_a_missing_user_file_is_not(self):
        self.assertEqual(self.nightshift("config", "show", "--config", "none.yaml")[0], 2)
        self.assertEqual(self.nightshift("config", "show", env=self.env)[0], 0)

    def test_text_form_names_sources_too(self):
        _, out, _ = self.nightshift("config", "show", "--model", "m1")
        self.assertRegex(out, r"(?m)^model +m1 +--model$")


class Secrets(CliCase):
    KEY = "sk-marker-6f1d2c"

    def check_absent(self, *texts):
        for text in texts:
            self.assertNotIn(self.KEY, text)

    def test_a_key_appears_nowhere(self):
        sim = self.sim("--api-key-file", self.write("key", self.KEY + "\n"))
        self.write("in.jsonl", prompts(5))
        config = self.write("c.yaml", "backends:\n"
                            f"  filed: {{url: '{sim.url}', api_key_file: '{self.path('key')}'}}\n"
                            f"  named: {{url: '{sim.url}', api_key_env: MARKER_KEY}}\n")
        env = {"MARKER_KEY": self.KEY}
        for backend in ("filed", "named"):
            code, out, err = self.nightshift("run", "in.jsonl", "--backend", backend, "--config", config, "--json",
                                             "--log-level", "debug", "-o", backend + ".jsonl", "--data-dir",
                                             backend + ".data", env=env)
            self.assertEqual(code, 0, err)
            self.check_absent(out, err)
        self.check_absent(*self.nightshift("config", "show", "--config", config, env=env)[1:])
        self.check_absent(*self.nightshift("config", "show", "--json", "--config", config, env=env)[1:])
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if os.path.join(folder, name) != self.path("key"):
                    with open(os.path.join(folder, name), "rb") as handle:
                        self.assertNotIn(self.KEY.encode(), handle.read(), os.path.join(folder, name))

    def test_a_password_in_a_url_is_not_shown(self):
        _, out, _ = self.nightshift("config", "show", env={"NIGHTSHIFT_BACKEND": "http://u:hunter2@h/v1"})
        self.assertIn("http://***@h/v1", out)
        self.assertNotIn("hunter2", out)

    def test_a_refused_key_says_so_and_runs_nothing(self):
        sim = self.sim("--api-key-file", self.write("key", self.KEY + "\n"))
        self.write("in.jsonl", prompts(5))
        code, out, err = self.nightshift("run", "in.jsonl", "--backend", sim.url)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("key was refused", err)
        self.assertEqual(self.sim_calls(), [])

    def test_a_missing_key_says_where_it_was_looked_for(self):
        self.write("in.jsonl", prompts(1))
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "cerebras")
        self.assertEqual(code, 2)
        self.assertIn("CEREBRAS_API_KEY (not set)", err)
        self.assertIn("hint:", err)

    def test_there_is_no_flag_for_a_key(self):
        self.write("in.jsonl", prompts(1))
        self.assertEqual(self.nightshift("run", "in.jsonl", "--api-key", "x")[0], 2)


if __name__ == "__main__":
    unittest.main()
