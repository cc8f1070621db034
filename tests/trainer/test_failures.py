"""rondo-train with bad input, dying ranks and signals: a sentence, the right status, no half-written file, no hang.

Usage: test_failures.py RONDO RONDO_TRAIN [TEST...].
"""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import checkpoints

RONDO = TRAIN = ""
SMALL = ["--model", "resnet18", "--width", "8", "--data", "synthetic", "--image", "32", "--batch", "4",
         "--val-num-samples", "9", "--train-num-samples", "96", "--log-interval", "1"]
ENDLESS = ["--epochs", "100000", "--val-interval", "100000"]


def command(ranks, *arguments):
    return [RONDO, "run", "-n", str(ranks), "--", TRAIN, *SMALL, *arguments]


def train(ranks, *arguments, **how):
    return subprocess.run(command(ranks, *arguments), capture_output=True, text=True, timeout=120, check=False, **how)


class Failures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def begun(self, *arguments):
        """An endless training on 2 ranks that has done its first step."""
        process = subprocess.Popen(command(2, *ENDLESS, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step 1 "):
                return process
        self.fail(process.communicate()[1])

    def told(self, result, status, sentence):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertRegex(result.stderr, sentence)
        self.assertNotIn("Exception raised", result.stderr)

    def whole_files_only(self):
        self.assertEqual([name for name in os.listdir(self.folder) if "part" in name], [])

    def test_help_that_nobody_gets(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([TRAIN, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        self.told(result, 1, "cannot write the standard output")

    def test_words_that_are_no_option(self):
        self.told(train(1, "--epochs", "none"), 2, "--epochs")
        self.told(train(1, "--resume", "auto"), 2, "--resume auto needs --output")
        self.told(train(1, "--dtype", "float64", "--amp"), 2, "--amp is for --dtype float32")

    def test_data_that_is_not_there(self):
        self.told(train(2, "--data", "fashion-mnist", "--data-dir", self.folder), 1, re.escape(self.folder))

    def test_files_that_cannot_be_written_are_told_before_the_training(self):
        for flag in ("--json", "--report", "--trace", "--output"):
            result = train(2, "--max-steps", "1", flag, os.path.join(os.devnull, "x"))
            self.told(result, 1, "cannot (write|create|make)")
            self.assertNotIn("step 1", result.stdout)

    def test_fewer_images_than_ranks(self):
        self.told(train(2, "--train-num-samples", "1"), 1, "1 images for 2 ranks")

    def test_a_loss_that_is_no_number(self):
        result = train(2, "--lr", "1e30", "--warmup-epochs", "0", "--output", self.folder)
        self.told(result, 1, r"the loss of step \d+ is no number on \d of 2 ranks")
        self.assertEqual(result.stderr.count("rondo-train:"), 1, "only one rank tells it")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_full_disk_leaves_the_old_checkpoint(self):
        usual = ["--width", "16", "--output", self.folder]
        self.assertEqual(train(1, "--max-steps", "1", *usual).returncode, 0)
        before = os.listdir(self.folder)
        # A limit on files' sizes ends a write as a full disk does; the links of two ranks stay below it.
        limit = os.path.getsize(checkpoints.newest(self.folder)) // 2
        result = train(2, "--max-steps", "3", "--resume", "auto", *usual, restore_signals=False,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.told(result, 1, r"cannot write .*checkpoint-000000003\.rondo: ")
        self.assertEqual(os.listdir(self.folder), before)

    def test_a_checkpoint_that_is_damaged_is_passed_over(self):
        arguments = ["--recovery-interval", "1", "--output", self.folder]
        self.assertEqual(train(1, "--max-steps", "2", *arguments).returncode, 0)
        newest = checkpoints.newest(self.folder)
        os.truncate(newest, os.path.getsize(newest) // 2)
        result = train(2, "--max-steps", "3", "--resume", "auto", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resuming at step 1 ", result.stdout)
        self.assertRegex(result.stderr, "is no whole checkpoint of rondo-train: its checksum is wrong")
        self.told(train(2, "--resume", newest + "x"), 1, "cannot read")

    def test_a_checkpoint_of_another_model(self):
        self.assertEqual(train(1, "--max-steps", "1", "--output", self.folder).returncode, 0)
        self.told(train(1, "--width", "24", "--resume", checkpoints.newest(self.folder)), 1, "--width")

    def test_a_signal_saves_a_checkpoint(self):
        process = self.begun("--output", self.folder)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        step = re.search(r"stopped by a signal after step (\d+)", output)[1]
        self.assertEqual(checkpoints.read(checkpoints.newest(self.folder))[0]["steps"], int(step))
        self.whole_files_only()

    def test_a_signal_in_an_evaluation_ends_it_and_the_continuation_makes_up_for_it(self):
        usual = ["--train-num-samples", "8", "--output", self.folder]
        process = self.begun(*usual, "--val-num-samples", "1000000", "--val-interval", "1")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        self.assertIn("stopped by a signal after step 1", output)
        self.assertNotIn("test images", output)
        result = train(2, *usual, "--resume", "auto", "--epochs", "1", "--max-steps", "1")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"epoch 1\.00, step 1: accuracy .* on 9 test images")

    def test_an_interrupt_of_an_evaluation_alone_ends_it(self):
        process = subprocess.Popen(command(2, "--evaluate", "--val-num-samples", "1000000"), stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while len(self.ranks(process)) < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=120), process.returncode)[1], 128 + signal.SIGINT)

    def test_an_interrupt_without_a_folder_ends_all(self):
        process = self.begun()
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=120), process.returncode)[1], 128 + signal.SIGINT)

    def test_a_rank_that_is_killed(self):
        process = self.begun("--recovery-interval", "1", "--output", self.folder)
        os.kill(int(self.ranks(process)[-1]), signal.SIGKILL)
        errors = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, errors)
        self.assertRegex(errors, "rondo-train: .*rank 1")
        checkpoints.read(checkpoints.newest(self.folder))
        self.whole_files_only()

    def ranks(self, process):
        """The processes that `rondo run` has made trainings of."""
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            return [pid for pid in file.read().split() if self.program(pid) == os.path.realpath(TRAIN)]

    @staticmethod
    def program(pid):
        try:
            return os.path.realpath(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return ""


if __name__ == "__main__":
    RONDO, TRAIN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
