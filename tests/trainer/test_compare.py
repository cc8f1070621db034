"""compare_dp.py: one small round of every way of rondo-train's gives a row each; and its bars.

Usage: test_compare.py BUILD.  PyTorch's own DDP needs packages that tests don't install: `tools/dev compare-dp` does.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARE = os.path.join(ROOT, "tools", "trainer", "compare", "compare_dp.py")
sys.path.append(os.path.join(ROOT, "tools", "hosts"))
import hosts as fixture  # noqa: E402

BUILD = ""
SMALL = ["--model", "resnet18", "--width", "8", "--image", "32", "--batch", "2", "--max-steps", "3", "--rounds", "1"]


class Compare(unittest.TestCase):
    def compare(self, *arguments):
        return subprocess.run([sys.executable, "-B", COMPARE, "--build", BUILD, *SMALL, *arguments],
                              capture_output=True, text=True, timeout=300, check=False)

    def test_each_mode_has_a_row_and_a_bar(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "bars.svg")
            done = self.compare("--modes", "one,none,dp,ps,ddp", "--svg", picture)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            rows = re.findall(r"^\| (\w[^|]*\S) \| +\d+ \| \d+\.\d \| \d+\.\d\d \|", done.stdout, re.MULTILINE)
            self.assertEqual(rows, ["1 rank", "no exchange", "dp: a replica a thread", "ps: parameter server",
                                    "ddp: Rondo"], done.stdout)
            names = {text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")}
            self.assertLessEqual(set(rows), names)

    @staticmethod
    def table(output):
        """[{column: cell}] of the one table in `output`."""
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in output.splitlines() if "|" in line]
        return [dict(zip(rows[0], row)) for row in rows[2:]]

    def test_further_rows_and_what_the_exchange_costs(self):
        done = self.compare("--modes", "none,ps", "--also", "bf16: --wire-dtype bfloat16", "--exposed", "1")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        none, *exchanging = self.table(done.stdout)
        self.assertEqual([row["mode"] for row in exchanging], ["ps: parameter server", "bf16"])
        self.assertEqual(none["exchange alone, ms"], "")
        for row in exchanging:
            self.assertRegex(row["of none, in turn"], r"^\d\.\d{3} \(")
            self.assertRegex(row["hidden, %"], r"^-?\d+$")

    def test_a_sweep_of_the_trainers_own(self):
        done = self.compare("--tune", "--tune-rounds 1 --tune-steps 1 --tune-bucket-cap-mb 1 --tune-grad-accum-steps 2")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("fastest: buckets of", done.stdout)

    def test_links_between_hosts_carry_what_the_formulas_say(self):
        if why := fixture.why_not():
            self.skipTest(why)
        done = self.compare("--width", "16", "--hosts", "3", "--modes", "none,ps,ddp")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        none, *exchanging = self.table(done.stdout)
        self.assertLess(abs(float(none["busiest link, MB a step"])), 0.1)
        for row in exchanging:
            self.assertAlmostEqual(float(row["busiest link, MB a step"]) / float(row["link, formula"]), 1, delta=0.15)

    def test_the_model_gives_a_ring_what_its_formula_says(self):
        model = os.path.join(os.path.dirname(COMPARE), "model.py")
        done = subprocess.run([sys.executable, "-B", model, "--build", BUILD, "--gradients-mb", "20"],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        rows = self.table(done.stdout)
        self.assertEqual([row["way"] for row in rows], ["ps", "ddp"] * 4)
        four_hosts = rows[1]  # of 0.125 GB/s
        self.assertAlmostEqual(float(four_hosts["exchange, ms"]) / (2 * 3 / 4 * 20e6 / 0.125e9 * 1e3), 1, delta=0.05)

    def test_an_unknown_mode_is_refused(self):
        done = self.compare("--modes", "ddp,horovod")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no mode horovod", done.stderr)
        self.assertIn("write TITLE: FLAGS", self.compare("--also", "bf16").stderr)
        self.assertIn("no rate fast", self.compare("--rate", "fast").stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
