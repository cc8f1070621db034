"""rondo-train as users run it: what it learns, and that ranks, accumulation, recomputing and resuming don't change it.

Usage: test_trainer.py RONDO RONDO_TRAIN [TEST...].
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

import checkpoints

RONDO = TRAIN = ""
# A model and images that take a fraction of a second a step.
SMALL = ["--model", "resnet18", "--width", "8", "--data", "synthetic", "--image", "32", "--batch", "4",
         "--val-num-samples", "9", "--train-num-samples", "96"]
FASHION = "/usr/share/datasets/fashion-mnist"


def train(ranks, *arguments):
    command = [RONDO, "run", "-n", str(ranks), "--", TRAIN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


class Trainer(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def good(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def trained(self, ranks, *arguments):
        """The bytes of the last checkpoint of a small training."""
        folder = self.folder()
        self.good(train(ranks, *SMALL, *arguments, "--output", folder))
        with open(checkpoints.newest(folder), "rb") as file:
            return file.read()

    def test_version_is_rondos_although_torch_brings_libraries_of_its_own(self):
        self.assertRegex(self.good(train(1, "--version")), r"Rondo \d+\.\d+\.\d+")

    def test_last_line_tells_the_speed_over_all_ranks(self):
        for mode in ("none", "ddp", "ps", "dp"):
            output = self.good(train(1 if mode == "dp" else 2, *SMALL, "--max-steps", "3", "--parallel", mode))
            self.assertTrue(re.fullmatch(r"\d+(\.\d+)? images/s", output.splitlines()[-1]), output)

    def test_reports_of_other_numbers_of_ranks_give_the_scaling(self):
        one = os.path.join(self.folder(), "one.json")
        self.good(train(1, *SMALL, "--max-steps", "3", "--report", one))
        output = self.good(train(2, *SMALL, "--max-steps", "3", "--compare", one))
        self.assertIn("Amdahl's formula", output)
        result = train(1, *SMALL, "--max-steps", "3", "--compare", one + "x")
        self.assertEqual(result.returncode, 1)
        self.assertIn(one + "x", result.stderr)

    def test_timeline_and_trace_show_the_buckets(self):
        drawn, traced = (os.path.join(self.folder(), name) for name in ("timeline.svg", "trace.json"))
        self.good(train(2, *SMALL, "--max-steps", "3", "--timeline", drawn, "--trace", traced))
        words = [text.text for text in ElementTree.parse(drawn).iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(any("backward" in (word or "") for word in words), words)
        with open(traced, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
                  if event["name"] == "thread_name"}
        buckets = [event for event in events if event["ph"] == "X"
                   and tracks[event["pid"], event["tid"]] == "all-reduces"]
        self.assertEqual({event["pid"] for event in buckets}, {0, 1})

    def test_evaluation_counts_every_image_once(self):
        self.assertIn("on 9 test images", self.good(train(2, *SMALL, "--evaluate")))

    def test_ranks_and_accumulation_share_a_batch_without_changing_the_result(self):
        exact = ["--dtype", "float64", "--norm", "group", "--max-steps", "20", "--lr", "0.05", "--warmup-epochs", "1"]
        results = []
        for ranks, batch, passes in ((1, 32, 1), (2, 16, 1), (4, 8, 1), (2, 8, 2)):
            folder = self.folder()
            self.good(train(ranks, *SMALL, *exact, "--batch", str(batch), "--grad-accum-steps", str(passes),
                            "--check-every", "5", "--output", folder))
            results.append(checkpoints.read(checkpoints.newest(folder))[1])
        for other in results[1:]:
            self.assertLess(checkpoints.difference(results[0], other), 1e-10)

    def test_servers_and_norms_over_all_ranks_give_what_one_rank_gives(self):
        exact = ["--dtype", "float64", "--norm", "sync", "--max-steps", "4", "--clip-grad", "1", "--lr", "0.05"]
        results = []
        for ranks, batch, mode in ((1, 8, "ddp"), (2, 4, "ddp"), (2, 4, "ps"), (1, 4, "dp")):
            folder = self.folder()
            self.good(train(ranks, *SMALL, *exact, "--batch", str(batch), "--parallel", mode, "--output", folder))
            results.append(checkpoints.read(checkpoints.newest(folder))[1])
        for other in results[1:]:
            self.assertLess(checkpoints.difference(results[0], other), 1e-9)

    def test_resuming_gives_the_same_bits(self):
        # 96 images on 2 ranks are 12 steps an epoch: the first part ends within the second epoch.
        usual = [*SMALL, "--epochs", "3", "--model-ema", "--mixup", "0.2", "--nesterov", "--smoothing", "0.1", "--lr",
                 "0.05", "--clip-grad", "5", "--no-norm-decay", "--grad-accum-steps", "2", "--warmup-epochs", "1"]
        whole, parts = self.folder(), self.folder()
        self.good(train(2, *usual, "--max-steps", "14", "--output", whole))
        self.good(train(2, *usual, "--max-steps", "9", "--output", parts))
        output = self.good(train(2, *usual, "--max-steps", "14", "--output", parts, "--resume", "auto"))
        self.assertIn("resuming at step 9", output)
        with open(checkpoints.newest(whole), "rb") as one, open(checkpoints.newest(parts), "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_computing_activations_again_gives_the_same_bits(self):
        for precision in ([], ["--amp"]):
            self.assertEqual(self.trained(1, "--max-steps", "3", *precision),
                             self.trained(1, "--max-steps", "3", "--grad-checkpointing", *precision))

    def test_layout_in_memory_changes_little(self):
        states = []
        for flags in ([], ["--channels-last"]):
            folder = self.folder()
            self.good(train(1, *SMALL, "--dtype", "float64", "--max-steps", "3", *flags, "--output", folder))
            states.append(checkpoints.read(checkpoints.newest(folder))[1])
        self.assertLess(checkpoints.difference(*states), 1e-9)

    def test_an_overflow_of_half_precision_is_left_out_and_the_scale_becomes_smaller(self):
        output = self.good(train(2, *SMALL, "--max-steps", "3", "--log-interval", "1", "--amp", "--amp-dtype",
                                 "float16", "--loss-scale", "1e30"))
        self.assertEqual(output.count("a gradient overflowed"), 3, output)

    def test_learns(self):
        if not os.path.isdir(FASHION):
            self.skipTest("Debian's package dataset-fashion-mnist is not installed")
        output = self.good(train(2, "--model", "resnet18", "--width", "8", "--data", "fashion-mnist", "--batch", "32",
                                 "--epochs", "5", "--train-num-samples", "4096", "--val-num-samples", "1000", "--lr",
                                 "0.1", "--warmup-epochs", "0.2"))
        found = re.findall(r"epoch 5\.00, step \d+: accuracy ([\d.]+) %", output)
        self.assertGreater(float(found[0]), 65, output)


if __name__ == "__main__":
    RONDO, TRAIN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
