"""Every row of docs/launchers.md with the real launcher: the ranks meet, and the log says by whom and where.

Usage: test_launchers.py RONDO LIBRARY SANITIZE TORCH.  TORCH is a Python that can import torch, or a path where none
is.  A launcher that is not installed skips its tests.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import program
import slurm

RONDO = LIBRARY = SANITIZE = TORCH = ""
PATIENCE_S = 120
OTHERS = re.compile("(RANK|WORLD_SIZE)$|(LOCAL|MASTER|NCCL|RONDO|TORCHELASTIC|OMPI|PMI|PMIX|MPI|SLURM)_")


def clean(**more):
    """This environment without what any launcher or user has set of ours, and with INFO lines."""
    kept = {name: value for name, value in os.environ.items() if not OTHERS.match(name)}
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
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.first = program.compile_first(LIBRARY, SANITIZE, cls.folder.name)
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


class RondoRun(Jobs):
    def command(self, *flags):
        return [RONDO, "run", "-n", "3", *flags, "--", self.first]

    def test_by_the_jobs_name(self):
        err = self.meets(self.command(), r"rondo run, at abstract socket rondo-\S+ by RONDO_JOB_NAME, with a secret")
        self.assertNotIn("unauthenticated", err)

    def test_by_nccl_comm_id(self):
        where = f"127.0.0.1:{slurm.free_ports(1)[0]}"
        self.meets(self.command(), r"rondo run, at abstract socket rondo-\S+ by NCCL_COMM_ID, with a secret",
                   NCCL_COMM_ID=where)

    def test_several_hosts_never_meet_at_loopback(self):
        command = self.command("--nnodes", "2", "--node-rank", "0", "--master-addr", "localhost", "--master-port",
                               "4000")
        status, out, err = end(start(command, clean()))
        self.assertNotEqual(status, 0)
        self.assertIn("MASTER_ADDR=localhost is every host by itself", out)


class Mpirun(Jobs):
    def launcher(self, name, ranks=3):
        if not shutil.which(name):
            self.skipTest(name + " is not installed")
        root = ["--allow-run-as-root", "--oversubscribe"] if name == "mpirun.openmpi" else []
        return [name, *root, "-n", str(ranks)]

    def test_open_mpi(self):
        command = self.launcher("mpirun.openmpi") + [self.wrapper, self.first]
        where = r"Open MPI's mpirun, at abstract socket rondo-\d+-ompi-\S+ by the job's number, unauthenticated"
        self.assertIn("any process of this user on this host may join", self.meets(command, where))
        self.meet_apart([command] * 2, where)

    def test_mpich(self):
        command = self.launcher("mpirun.mpich") + [self.wrapper, self.first]
        where = r"MPICH's mpirun, at abstract socket rondo-\d+-mpich-\d+ by the job's number, unauthenticated"
        self.meets(command, where)
        self.meet_apart([command] * 2, where)

    def test_a_key_file_gives_a_secret(self):
        for name in ("mpirun.openmpi", "mpirun.mpich"):
            with self.subTest(name):
                err = self.meets(self.launcher(name) + [self.first], ".*, with a secret", RONDO_PSK_FILE=self.key)
                self.assertNotIn("unauthenticated", err)

    def test_what_is_left_of_another_launcher_is_warned_of(self):
        left = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "4000"}
        status, out, err = end(start(self.launcher("mpirun.openmpi", 1) + [self.first], clean(**left)))
        self.assertEqual((status, out), (0, "rank 0 of 1: the sum is 0\n"), err)
        self.assertIn("RANK and WORLD_SIZE (RANK=0 of WORLD_SIZE=1) counts, and not Open MPI's mpirun", err)


class Torchrun(Jobs):
    def command(self, *flags):
        if not os.access(TORCH, os.X_OK):
            self.skipTest("torch is not installed: tools/dev torch installs it")
        return [TORCH, "-m", "torch.distributed.run", *flags, "--no-python", "--nproc-per-node", "3", self.first]

    def test_it_meets_behind_its_own_port(self):
        port = slurm.free_ports(1)[0]
        self.meets(self.command("--master-port", str(port)),
                   rf"torchrun, at abstract socket rondo-\d+-{port + 1} by MASTER_ADDR and MASTER_PORT\+1")

    def test_at_the_port_that_is_said_with_a_secret(self):
        self.meets(self.command("--standalone"),
                   r"torchrun, at abstract socket rondo-\d+-77 by MASTER_ADDR and RONDO_MASTER_PORT, with a secret",
                   RONDO_MASTER_PORT="77", RONDO_PSK_FILE=self.key)


class Srun(Jobs):
    def test_srun(self):
        if why := slurm.missing():
            self.skipTest(why)
        with slurm.Cluster() as cluster:
            def meets(where, **more):
                self.meets(["srun", "-n", "3", self.wrapper, self.first], where,
                           SLURM_CONF=cluster.environment["SLURM_CONF"], **more)
            meets(r"srun, at abstract socket rondo-\d+-slurm-\d+\.\d+ by the job's number, unauthenticated")
            meets(r"srun, at abstract socket rondo-\S+ by NCCL_COMM_ID, with a secret", RONDO_PSK_FILE=self.key,
                  NCCL_COMM_ID=f"localhost:{slurm.free_ports(1)[0]}")


if __name__ == "__main__":
    TORCH = sys.argv.pop(4)
    SANITIZE = sys.argv.pop(3)
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    RONDO = os.path.abspath(sys.argv.pop(1))
    unittest.main()
