"""rondo-train as users run it: on one rank and several, with good and with bad input.

Usage: test_trainer.py RONDO RONDO_TRAIN.
"""
import re
import subprocess
import sys
import unittest

RONDO = TRAIN = ""
# A model and images that take a fraction of a second a step.
SMALL = ["--model", "resnet18", "--width", "8", "--data", "synthetic", "--image", "32", "--batch", "4",
         "--num-classes", "1000", "--val-num-samples", "9"]


def train(ranks, *arguments):
    """A run on `ranks` ranks."""
    command = [RONDO, "run", "-n", str(ranks), "--", TRAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class Trainer(unittest.TestCase):
    def good(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def test_version_is_rondos_although_torch_brings_libraries_of_its_own(self):
        self.assertRegex(self.good(train(1, "--version")), r"Rondo \d+\.\d+\.\d+")

    def test_last_line_tells_the_speed_over_all_ranks(self):
        output = self.good(train(2, *SMALL, "--max-steps", "3", "--parallel", "none"))
        self.assertTrue(re.fullmatch(r"\d+(\.\d+)? images/s", output.splitlines()[-1]), output)

    def test_evaluation_counts_every_image_once(self):
        output = self.good(train(2, *SMALL, "--evaluate", "--parallel", "none"))
        self.assertIn("of 9 images", output)

    def test_words_that_are_no_option(self):
        result = train(1, "--epochs", "none")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--epochs", result.stderr)


if __name__ == "__main__":
    RONDO, TRAIN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
