"""What rondo-train measures beside a training: --measure-exposed and --tune, on two ranks.

Usage: test_measuring.py RONDO RONDO_TRAIN [TEST...].  Which figures come is asked, not what they are.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import checkpoints

RONDO = TRAIN = ""
SMALL = ["--model", "resnet18", "--width", "8", "--data", "synthetic", "--image", "32", "--batch", "4",
         "--val-num-samples", "9", "--train-num-samples", "90"]


def command(*arguments):
    return [RONDO, "run", "-n", "2", "--", TRAIN, *SMALL, *arguments]


def train(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=200, check=False)


class Measuring(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = os.path.join(folder.name, "report.json")
        self.folder = folder.name

    def good(self, *arguments):
        result = train(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def read(self):
        with open(self.report, encoding="utf-8") as file:
            return json.load(file)

    def test_the_exchange_is_measured_after_the_training_which_it_does_not_change(self):
        for mode in ("ddp", "ps"):
            checkpoint = []
            for rounds in ("0", "2"):
                folder = os.path.join(self.folder, mode + rounds)
                output = self.good("--max-steps", "2", "--measure-exposed", rounds, "--grad-accum-steps", "2",
                                   "--clip-grad", "1", "--parallel", mode, "--report", self.report, "--output", folder)
                with open(checkpoints.newest(folder), "rb") as file:
                    checkpoint.append(file.read())
            self.assertEqual(checkpoint[0], checkpoint[1])
            self.assertRegex(output, r"exposed \(a step less one under no_sync\(\), median of 2\): -?\d")
            figures = self.read()["exchange"]
            self.assertEqual(figures["rounds"], 2)
            for name in ("step_s", "no_sync_s", "without_layer_s", "alone_s"):
                self.assertGreater(figures[name], 0)
            # Medians of two rounds are means, so that their differences are those of the figures.
            self.assertAlmostEqual(figures["exposed_s"], figures["step_s"] - figures["no_sync_s"])
            self.assertAlmostEqual(figures["hidden_share"], 1 - figures["exposed_s"] / figures["alone_s"])

    def test_a_sweep_has_a_row_a_size_and_a_column_a_number_of_passes(self):
        output = self.good("--tune", "--tune-bucket-cap-mb", "0.25,1", "--tune-grad-accum-steps", "2,3",
                           "--tune-rounds", "2", "--tune-steps", "1", "--report", self.report)
        self.assertRegex(output, r"\n +1 +2 +3 \n +256 KiB .*\n +1\.00 MiB .*\n +25\.0 MiB .*\nfastest: buckets of ")
        self.assertRegex(output, r"\n  --bucket-cap-mb [\d.]+ --grad-accum-steps \d: the fastest")
        tune = self.read()["tune"]
        cells = {(point["bucket_bytes"], point["accumulation"]) for point in tune["points"]}
        self.assertEqual(cells, {(size * 2**20, passes) for size in (0.25, 1, 25) for passes in (1, 2, 3)})
        self.assertEqual(tune["fastest"], max(tune["points"], key=lambda point: point["images_per_second"]))
        self.assertEqual((tune["usual"]["bucket_bytes"], tune["usual"]["accumulation"]), (25 * 2**20, 1))
        self.assertIn(tune["usual"], tune["points"])
        self.assertEqual(self.read()["world_size"], 2)

    def test_a_signal_ends_a_sweep(self):
        process = subprocess.Popen(command("--tune", "--tune-rounds", "1000000"), stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn("measuring", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, output)
        self.assertNotIn("fastest", output)

    def test_what_cannot_be_measured_is_told(self):
        for arguments, sentence in ((["--tune", "--parallel", "none"], "--tune is for --parallel ddp or ps"),
                                    (["--measure-exposed", "1", "--parallel", "dp"], "--measure-exposed is for"),
                                    (["--tune", "--tune-rounds", "0"], "--tune-rounds")):
            result = train(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(sentence, result.stderr)
        result = train("--tune", "--batch", "46")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, re.escape("a rank has 45 images, less than a batch (46)"))


if __name__ == "__main__":
    RONDO, TRAIN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
