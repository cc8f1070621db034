"""Every row of docs/launchers.md with the real launcher: the ranks meet, and the log says by whom and where.

Usage: test_launchers.py RONDO LIBRARY SANITIZE TORCH.  TORCH is a Python that can import torch, or a path where none
is.  A launcher that is not installed skips its tests.
"""
import os
import shutil
import sys
import unittest

import slurm
from jobs import Jobs, clean, end, start

class RondoRun(Jobs):
    def command(self, *flags):
        return [Jobs.rondo, "run", "-n", "3", *flags, "--", self.first]

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
        # The program ends without freeing its float: that report would end it before its sentence is written.
        status, out, err = end(start(command, clean(ASAN_OPTIONS="detect_leaks=0")))
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

    def test_the_performance_programs_are_ranks_of_the_job(self):
        measure = os.path.join(os.path.dirname(os.path.dirname(Jobs.library)), "perf", "all_reduce_perf")
        for name in ("mpirun.openmpi", "mpirun.mpich"):
            with self.subTest(name):
                status, out, err = end(start(self.launcher(name, 2) + [measure, "-b", "1K", "-e", "1K"], clean()))
                self.assertEqual(status, 0, err)
                self.assertEqual([line.split()[2] for line in out.splitlines() if "host memory" in line], ["0", "1"])

    def test_what_is_left_of_another_launcher_is_warned_of(self):
        left = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "4000"}
        status, out, err = end(start(self.launcher("mpirun.openmpi", 1) + [self.first], clean(**left)))
        self.assertEqual((status, out), (0, "rank 0 of 1: the sum is 0\n"), err)
        self.assertIn("RANK and WORLD_SIZE (RANK=0 of WORLD_SIZE=1) counts, and not Open MPI's mpirun", err)


class Torchrun(Jobs):
    def command(self, *flags):
        if not os.access(Jobs.torch, os.X_OK):
            self.skipTest("torch is not installed: tools/dev torch installs it")
        return [Jobs.torch, "-m", "torch.distributed.run", *flags, "--no-python", "--nproc-per-node", "3", self.first]

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
                self.meets(cluster.srun("-n", "3", self.wrapper, self.first), where,
                           SLURM_CONF=cluster.environment["SLURM_CONF"], **more)
            meets(r"srun, at abstract socket rondo-\d+-slurm-\d+\.\d+ by the job's number, unauthenticated")
            meets(r"srun, at abstract socket rondo-\S+ by NCCL_COMM_ID, with a secret", RONDO_PSK_FILE=self.key,
                  NCCL_COMM_ID=f"localhost:{slurm.free_ports(1)[0]}")


if __name__ == "__main__":
    Jobs.take_arguments(sys.argv)
    unittest.main()
