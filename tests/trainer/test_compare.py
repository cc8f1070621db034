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

    def test_an_unknown_mode_is_refused(self):
        done = self.compare("--modes", "ddp,horovod")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no mode horovod", done.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
