"""What a person sees: one line that is painted over, colour, questions."""
import os
import re
import signal
import subprocess
import time
import unittest

from support import CliCase, PROGRAM, prompts
from terminal import Terminal

SHOW_CURSOR = b"\x1b[?25h"
HIDE_CURSOR = b"\x1b[?25l"
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class OnATerminal(CliCase):
    def terminal(self, *words, **options):
        terminal = Terminal([PROGRAM, *words], cwd=self.folder, **options)
        self.addCleanup(terminal.close)
        return terminal

    def slow_run(self, columns, *words, requests=24, **options):
        self.write("in.jsonl", prompts(requests))
        sim = self.sim("--latency", "200ms")
        return self.terminal("run", "in.jsonl", "--backend", sim.url, "--concurrency", "2", *words,
                             columns=columns, **options)

    def painted(self, screen):
        """The painted lines: what stands between a carriage return and the next line end or return."""
        return [ESCAPE.sub(b"", frame).decode() for frame in re.findall(rb"\r([^\r\n]*)", screen)
                if re.search(rb"\d+%", frame)]

    # One line, never wider than the window.
    def test_the_line_fits_windows_of_all_widths(self):
        for columns in (40, 80, 120):
            with self.subTest(columns=columns):
                terminal = self.slow_run(columns, "--data-dir", f"d{columns}", "--force")
                self.assertEqual(terminal.finish(), 0)
                lines = self.painted(terminal.screen)
                self.assertGreater(len(lines), 3)
                self.assertLess(max(map(len, lines)), columns + 1)
                # 100 % only at the end, and then the summary stands in its place.
                for line in lines:
                    if "100%" in line:
                        self.assertIn("24/24", line)
                self.assertIn(b"24 succeeded", terminal.screen)
                self.assertLess(terminal.screen.rindex(b"\x1b[?25h"), terminal.screen.index(b"24 succeeded"))

    # The kernel's own SIGHUP, with nowhere left to write to.
    def test_a_window_that_is_closed_loses_nothing(self):
        terminal = self.slow_run(80, requests=60)
        terminal.read_until("%")
        terminal.hang_up()
        self.assertEqual(terminal.process.wait(60), 129)
        calls = len(self.sim_calls())
        code, _, err = self.nightshift("run", "in.jsonl", "--backend", "sim")
        self.assertEqual(code, 0, err)
        self.assertIn(f"{calls} of 60 done, {60 - calls} to go", err)

    def test_a_smaller_window_is_noticed(self):
        terminal = self.slow_run(120, requests=40)
        terminal.read_until("%")
        terminal.resize(40)
        mark = len(terminal.screen)
        self.assertEqual(terminal.finish(), 0)
        after = self.painted(terminal.screen[mark:])[1:]  # the first may have been on its way
        self.assertGreater(len(after), 2)
        self.assertLess(max(map(len, after)), 41)

    def test_ten_frames_a_second_at_most_each_in_one_write(self):
        terminal = self.slow_run(80)
        self.assertEqual(terminal.finish(), 0)
        seconds = terminal.chunks[-1][0] - terminal.chunks[0][0]
        self.assertLess(len(self.painted(terminal.screen)), 10 * seconds + 5)

    def test_the_cursor_is_shown_again_after_an_interrupt(self):
        terminal = self.slow_run(80, requests=200)
        terminal.read_until("%")
        terminal.type("\x03")
        terminal.read_until("Ctrl-C again")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)
        self.assertIn(b"Resume with:", terminal.screen)
        if HIDE_CURSOR in terminal.screen:
            self.assertGreater(terminal.screen.rindex(SHOW_CURSOR), terminal.screen.rindex(HIDE_CURSOR))

    def test_standard_input_that_is_a_terminal_is_said_and_not_waited_for(self):
        started = time.monotonic()
        terminal = self.terminal("run", "-", "--backend", "sim")
        self.assertEqual(terminal.finish(), 2)
        self.assertLess(time.monotonic() - started, 5)
        self.assertIn(b"terminal", terminal.screen)

    # With standard output piped away, the bar and colour stay where the person is.
    def test_piped_results_leave_the_bar_on_the_terminal(self):
        terminal = self.slow_run(80, "-o", "-")
        code = terminal.finish()
        out = terminal.process.stdout.read()
        self.assertEqual(code, 0)
        self.assertGreater(len(self.painted(terminal.screen)), 2)
        self.assertNotIn(b"\x1b", out)
        self.assertEqual(len(out.splitlines()), 24)

    def test_colour_follows_no_color_term_and_the_flag(self):
        def colours(*words, **env):
            terminal = self.terminal("run", "missing.jsonl", "--backend", "sim", *words, env=env)
            self.assertEqual(terminal.finish(), 2)
            return bool(COLOUR.search(terminal.screen))
        self.assertTrue(colours())
        self.assertTrue(colours(NO_COLOR=""))  # empty does not count
        self.assertFalse(colours(NO_COLOR="1"))
        self.assertFalse(colours(TERM="dumb"))
        self.assertFalse(colours("--color", "never"))
        self.assertTrue(colours("--color", "always", NO_COLOR="1"))
        piped = subprocess.run([PROGRAM, "sttaus"], capture_output=True, timeout=60)
        self.assertNotIn(b"\x1b", piped.stderr)
        piped = subprocess.run([PROGRAM, "run", "x", "--backend", "sim", "--color", "always"], capture_output=True,
                               timeout=60, cwd=self.folder)
        self.assertIn(b"\x1b", piped.stderr)

    def test_a_dumb_terminal_gets_plain_lines(self):
        terminal = self.slow_run(80, "--progress-interval", "300ms", env={"TERM": "dumb"})
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn(b"\x1b", terminal.screen)
        self.assertRegex(terminal.screen, rb"\d+% \d+/24 failed=0")

    def test_quiet_is_quiet_on_a_terminal_too(self):
        terminal = self.slow_run(80, "--quiet", requests=4)
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual(terminal.screen, b"")


class Questions(CliCase):
    def setUp(self):
        super().setUp()
        self.write("in.jsonl", prompts(3))
        self.assertEqual(self.nightshift("run", "in.jsonl", "--backend", "sim")[0], 0)
        import json
        self.job = json.loads(self.nightshift("jobs", "--json", "--data-dir", "nightshift-data")[1])[0]["id"]

    def jobs(self):
        return self.nightshift("jobs", "--json", "--data-dir", "nightshift-data")[1]

    def ask(self, answer):
        terminal = Terminal([PROGRAM, "delete", self.job, "--data-dir", "nightshift-data"], cwd=self.folder)
        self.addCleanup(terminal.close)
        terminal.read_until("[y/N]")
        self.assertIn(b"3 answers", terminal.screen)  # says what is lost
        terminal.type(answer)
        return terminal.finish()

    def test_delete_asks_on_a_terminal(self):
        self.assertEqual(self.ask("n\n"), 2)
        self.assertIn(self.job, self.jobs())
        self.assertEqual(self.ask("\n"), 2)
        self.assertIn(self.job, self.jobs())
        self.assertEqual(self.ask("y\n"), 0)
        self.assertNotIn(self.job, self.jobs())

    def test_without_a_terminal_it_needs_yes(self):
        code, out, err = self.nightshift("delete", self.job, "--data-dir", "nightshift-data")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("--yes", err)
        self.assertIn("3 answers", err)
        self.assertIn(self.job, self.jobs())
        self.assertEqual(self.nightshift("delete", self.job, "--yes", "--data-dir", "nightshift-data")[0], 0)
        self.assertNotIn(self.job, self.jobs())


if __name__ == "__main__":
    unittest.main()
