"""What nobody means to do to `run`, and what happens anyway: backends that answer what no backend
should, values and names that are none."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from nightshift_testing import TestCase, run  # noqa: E402


class Values(TestCase):
    def setUp(self):
        super().setUp()
        self.write("ok.jsonl", '{"prompt":"a"}\n{"prompt":"b"}\n')

    def refused(self, *options):
        code, out, err = run("run", "ok.jsonl", "--backend", "sim", *options, cwd=self.folder)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(os.listdir(self.folder), ["ok.jsonl"])
        self.assertEqual(len(err.splitlines()), 1, err)
        return err

    # A folder with other things in it may be the data folder too.
    def test_nothing_in_the_data_folder_is_removed(self):
        for kept in ("tmp", "spool", "other"):
            os.mkdir(self.path(kept))
            self.write(f"{kept}/mine", "precious")
        code, _, err = run("run", "ok.jsonl", "--backend", "sim", "--data-dir", ".", cwd=self.folder)
        self.assertEqual(code, 0, err)
        for kept in ("tmp", "spool", "other"):
            self.assertTrue(os.path.exists(self.path(f"{kept}/mine")), kept)


if __name__ == "__main__":
    unittest.main(verbosity=2)
