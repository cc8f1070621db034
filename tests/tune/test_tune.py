"""`rondo tune` writes a table that ranks then use; ranks whose settings differ are told so when they join.

Usage: test_tune.py RONDO PROGRAM.  PROGRAM is all_reduce_perf.  Which algorithm is fastest is not asserted.
"""
import os
import stat
import subprocess
import sys
import tempfile
import unittest

RONDO = PROGRAM = ""
PATIENCE_S = 100


def run(ranks, *command, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "RONDO_"))}
    return subprocess.run([RONDO, "run", "-n", str(ranks), "--", *command], capture_output=True, text=True,
                          timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False, env={**environment, **variables})


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "table")

    def write(self, *rows):
        with open(self.path, "w") as file:
            file.write("rondo-tune 1\n" + "".join(row + "\n" for row in rows))

    def reduce(self, ranks, **variables):
        return run(ranks, PROGRAM, "-b", "8", "-e", "8", "-n", "1", "-w", "0", NCCL_DEBUG="INFO",
                   NCCL_DEBUG_SUBSYS="TUNING", **variables)

    def test_a_table_is_made_and_used(self):
        self.write("all_reduce 3 1 * star", "all_reduce 2 1 * star  # of the past")
        made = run(2, RONDO, "tune", "-o", self.path, "--bytes-max", "2K", "--round-ms", "1")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("RONDO_TUNE_FILE=" + self.path, made.stdout)
        with open(self.path) as file:
            rows = [line.split() for line in file.read().splitlines()[1:] if not line.startswith("#")]
        self.assertEqual(rows[0], ["all_reduce", "3", "1", "*", "star"])
        self.assertEqual({tuple(row[1:3]) for row in rows[1:]}, {("2", "1")})
        kinds = {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"}
        self.assertEqual({row[0] for row in rows if row[3] == "*"}, kinds)
        used = self.reduce(2, RONDO_TUNE_FILE=self.path)
        self.assertEqual(used.returncode, 0, used.stderr)
        self.assertRegex(used.stdout + used.stderr, r"all_reduce of 8 bytes: \w+ \(RONDO_TUNE_FILE\)")
        shipped = self.reduce(2)
        self.assertRegex(shipped.stdout + shipped.stderr, r"all_reduce of 8 bytes: one_shot \(the shipped table\)")

    def test_a_table_that_is_wrong(self):
        self.write("all_reduce 2 1 * snail")
        result = self.reduce(2, RONDO_TUNE_FILE=self.path)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('line 2: all_reduce has no algorithm "snail"', result.stderr + result.stdout)

    def test_ranks_that_differ(self):
        self.write("all_reduce 2 1 * star")
        for setting in ("NCCL_ALGO=ring", "RONDO_DETERMINISTIC=1", "RONDO_TUNE_FILE=" + self.path):
            script = f'if [ $RANK = 1 ]; then export {setting}; fi; exec "$0" -b 8 -e 8 -n 1'
            result = run(2, "sh", "-c", script, PROGRAM, RONDO_TIMEOUT="60")
            self.assertNotEqual(result.returncode, 0)
            self.assertRegex(result.stderr, "the ranks' settings differ: .*" + setting.split("=")[0])

    def tune_in_vain(self, path):
        result = run(1, RONDO, "tune", "-o", path, "--bytes-max", "8", "--round-ms", "1")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("rondo tune: ring", result.stderr)  # before anything is measured
        return result.stderr

    def test_what_is_no_table_stays(self):
        folder = os.path.dirname(self.path)
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe)
        self.assertIn("it is not a file", self.tune_in_vain(pipe))
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        with open(self.path, "w") as file:
            file.write("hello\n")
        self.assertIn("no table of `rondo tune`", self.tune_in_vain(self.path))
        with open(self.path) as file:
            self.assertEqual(file.read(), "hello\n")
        self.assertEqual(sorted(os.listdir(folder)), ["pipe", "table"])

    def test_a_link_stays_one_and_deterministic_is_no_hindrance(self):
        self.write("all_reduce 3 1 * star")
        link = self.path + ".link"
        os.symlink(self.path, link)
        made = run(1, RONDO, "tune", "-o", link, "--bytes-max", "8", "--round-ms", "1", RONDO_DETERMINISTIC="1")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertTrue(os.path.islink(link))
        with open(self.path) as file:
            text = file.read()
        self.assertIn("all_reduce 3 1 * star", text)
        self.assertIn("all_reduce 1 1 *", text)

    def test_a_place_that_cannot_be_written(self):
        self.assertIn("cannot write /no/such/table: No such file or directory", self.tune_in_vain("/no/such/table"))


if __name__ == "__main__":
    RONDO, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
