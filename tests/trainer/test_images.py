"""rondo-train on files: folders of JPEG images, packed files, shares that are not equal, and damage of each kind.

Usage: test_images.py RONDO RONDO_TRAIN [TEST...].
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import checkpoints
import jpeg

RONDO = TRAIN = ""
SMALL = ["--model", "resnet18", "--width", "8", "--batch", "4", "--log-interval", "1"]
FASHION = "/usr/share/datasets/fashion-mnist"
COLOURS = {"n01440764": (200, 40, 40), "n01443537": (40, 40, 200)}  # classes are named as ImageNet's


def train(ranks, *arguments):
    command = [RONDO, "run", "-n", str(ranks), "--", TRAIN, *SMALL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def make_folder(folder, training, test):
    """ImageNet's layout: so many images a class, of several sizes, each a colour and noise."""
    noise = random.Random(7)
    for part, count in (("train", training), ("val", test)):
        for name, colour in COLOURS.items():
            os.makedirs(os.path.join(folder, part, name))
            for number in range(count):
                width, height = 40 + 8 * (number % 3), 48
                pixels = [min(255, max(0, value + noise.randrange(-30, 31))) for _ in range(width * height)
                          for value in colour]
                jpeg.write(os.path.join(folder, part, name, f"{name}_{number}.JPEG"), width, height, pixels)


class Images(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.photos = os.path.join(self.folder, "photos")

    def good(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def told(self, result, sentence):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, sentence)

    def pack(self, path, *arguments):
        self.good(subprocess.run([TRAIN, "pack", *arguments, "-o", path], capture_output=True, text=True, timeout=60,
                                 check=False))

    def test_a_folder_of_photographs_is_learned_packed_or_not(self):
        make_folder(self.photos, 16, 4)
        usual = ["--image", "32", "--epochs", "4", "--lr", "0.05", "--warmup-epochs", "0"]
        output = self.good(train(2, "--data", "folder", "--data-dir", self.photos, *usual))
        found = re.findall(r"epoch 4\.00, step 16: accuracy ([\d.]+) %, loss [\d.]+ on 8 test images", output)
        self.assertGreaterEqual(float(found[0]), 75, output)
        packed = os.path.join(self.folder, "packed")
        os.mkdir(packed)
        for name, split in (("train", "train"), ("test", "test")):
            self.pack(os.path.join(packed, name + ".pack"), "--data", "folder", "--data-dir", self.photos, "--image",
                      "40", "--split", split)
        self.assertIn("on 8 test images", self.good(train(2, "--data", "packed", "--data-dir", packed, *usual)))

    def test_a_damaged_photograph_ends_the_training_with_its_name(self):
        make_folder(self.photos, 4, 1)
        damaged = os.path.join(self.photos, "train", "n01443537", "n01443537_2.JPEG")
        with open(damaged, "r+b") as file:
            file.truncate(100)
        self.told(train(2, "--data", "folder", "--data-dir", self.photos, "--image", "32", "--epochs", "1"),
                  re.escape(damaged))

    def test_truncated_files_are_named(self):
        make_folder(self.photos, 4, 1)
        path = os.path.join(self.folder, "train.pack")
        for name, split in ((path, "train"), (os.path.join(self.folder, "test.pack"), "test")):
            self.pack(name, "--data", "folder", "--data-dir", self.photos, "--image", "32", "--split", split)
        arguments = ["--data", "packed", "--data-dir", self.folder, "--max-steps", "1"]
        self.good(train(2, *arguments))
        os.truncate(path, os.path.getsize(path) - 1)
        self.told(train(2, *arguments), re.escape(path))

    def test_sets_that_do_not_go_together_are_refused(self):
        make_folder(self.photos, 4, 1)
        self.pack(os.path.join(self.folder, "train.pack"), "--data", "folder", "--data-dir", self.photos, "--image",
                  "32")
        if os.path.isdir(FASHION):
            self.pack(os.path.join(self.folder, "test.pack"), "--data", "fashion-mnist", "--split", "test")
            self.told(train(2, "--data", "packed", "--data-dir", self.folder, "--max-steps", "1"),
                      "have 3 channels, those to test with 1: they are of different sets")

    def test_more_classes_than_the_model_has_are_refused(self):
        self.told(train(2, "--data", "synthetic", "--image", "32", "--num-classes", "2"),
                  "--num-classes 2 is less than the data's")

    def test_unequal_shares_give_what_one_rank_gives(self):
        # 13 images: in the last step of an epoch ranks have 2, 2 and 1 images, or, with 4 ranks, 1 and none.
        exact = ["--data", "synthetic", "--image", "32", "--dtype", "float64", "--norm", "group", "--epochs", "2",
                 "--train-num-samples", "13", "--val-num-samples", "3", "--lr", "0.05", "--warmup-epochs", "0"]
        results = []
        for ranks, batch, mode in ((1, 12, "ddp"), (2, 6, "ddp"), (3, 4, "ps"), (4, 3, "ddp")):
            folder = os.path.join(self.folder, str(ranks))
            output = self.good(train(ranks, *exact, "--batch", str(batch), "--parallel", mode, "--join",
                                     "--check-every", "1", "--output", folder))
            self.assertIn("step 4 of 4", output)
            results.append(checkpoints.read(checkpoints.newest(folder))[1])
        for other in results[1:]:
            self.assertLess(checkpoints.difference(results[0], other), 1e-10)

    def test_unequal_shares_have_limits_that_are_told(self):
        for arguments, sentence in ((["--norm", "sync"], "--join does not go with --norm sync"),
                                    (["--drop-last"], "it does not go with --drop-last"),
                                    (["--parallel", "none"], "--join is for --parallel ddp or ps")):
            result = train(1, "--join", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(sentence, result.stderr)
        self.told(train(2, "--join", "--data", "synthetic", "--train-num-samples", "1"), "1 images for 2 ranks")

    def test_a_device_that_rondo_cannot_reach_is_told(self):
        result = train(1, "--device", "cuda")
        self.assertEqual(result.returncode, 2)
        self.assertIn("Rondo moves host memory only", result.stderr)


if __name__ == "__main__":
    RONDO, TRAIN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
