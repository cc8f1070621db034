"""What tests with launchers share: jobs of the README's first program, and what must come of them."""
import os
import re
import signal
import subprocess
import tempfile
import unittest

import program

PATIENCE_S = 120
OTHERS = re.compile("(RANK|WORLD_SIZE)$|(LOCAL|MASTER|NCCL|RONDO|TORCHELASTIC|OMPI|PMI|PMIX|MPI|SLURM)_")


def clean(**more):
    """This environment without what any launcher or user has set of ours, and with INFO lines.  Nor with Meson's path
    to our libnccl.so.2, which torch would load in the place of its own: a sanitizer's can't be."""
    kept = {name: value for name, value in os.environ.items()
            if not OTHERS.match(name) and name != "LD_LIBRARY_PATH"}
    return {**kept, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT", "RONDO_TIMEOUT": "60", **more}


def start(command, environment):
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def end(job):
    try:
        out, err = job.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        raise
    return job.returncode, out, err


class Jobs(unittest.TestCase):
    rondo = library = sanitize = torch = ""

    @staticmethod
    def take_arguments(arguments):
        """RONDO LIBRARY SANITIZE TORCH, taken off the command line.  TORCH is a Python that can import torch, or a
        path where none is."""
        rondo, library, Jobs.sanitize, Jobs.torch = arguments[1:5]
        Jobs.rondo, Jobs.library = os.path.abspath(rondo), os.path.abspath(library)
        del arguments[1:5]

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.first = program.compile_first(cls.library, cls.sanitize, cls.folder.name)
        cls.wrapper = os.path.join(cls.folder.name, "wrapper")
        with open(cls.wrapper, "w") as file:
            file.write('#!/bin/sh\n"$@"\nexit $?\n')
        os.chmod(cls.wrapper, 0o755)
        with open(os.path.join(cls.folder.name, "key"), "w",
                  opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            cls.key = file.name
            file.write("a key of 20 letters!\n")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def meets(self, command, rendezvous, ranks=3, **more):
        """Runs the job; every rank must have met there, and the sums must be right.  Returns what was logged."""
        return self.check(end(start(command, clean(**more))), rendezvous, ranks)

    def check(self, ended, rendezvous, ranks=3):
        status, out, err = ended
        self.assertEqual((status, sorted(out.splitlines())), (0, program.sums(ranks)), err)
        for rank in range(ranks):
            self.assertRegex(err, rf"rendezvous: rank {rank} of {ranks} by {rendezvous}")
        return err

    def meet_apart(self, commands, rendezvous):
        """Jobs at the same time: none meets the ranks of another."""
        jobs = [start(command, clean()) for command in commands]
        for ended in [end(job) for job in jobs]:
            self.check(ended, rendezvous)
