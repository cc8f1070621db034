"""Jobs of two hosts with every launcher: the ranks meet where docs/launchers.md says, or hear what to set.

Usage: test_several_hosts.py RONDO LIBRARY SANITIZE TORCH.  The hosts are namespaces (tools/hosts); mpirun enters the
other one by a script in the place of ssh, and Slurm has a node on each.
"""
import os
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(1, os.path.join(ROOT, "tools", "hosts"))

import hosts as fixture  # noqa: E402
import program  # noqa: E402
import slurm  # noqa: E402
from jobs import Jobs, clean, end, start  # noqa: E402

PORT = 4000  # the hosts are new: every port is free


class SeveralHosts(Jobs):
    @classmethod
    def setUpClass(cls):
        if why := fixture.why_not():
            raise unittest.SkipTest(why)
        super().setUpClass()
        cls.namespaces = fixture.Hosts(2, own_pids=False)
        cls.hosts = cls.namespaces.__enter__()
        cls.addClassCleanup(cls.namespaces.__exit__)
        cls.master = cls.hosts[0].address
        cls.agent = os.path.join(cls.folder.name, "agent")
        with open(cls.agent, "w") as file:
            file.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\ncase $host in\n')
            for host in cls.hosts:
                file.write(f'{host.address}) exec {" ".join(host.command())} sh -c "$*" ;;\n')
            file.write('*) echo "no host $host" >&2; exit 1 ;;\nesac\n')
        os.chmod(cls.agent, 0o755)

    def on_both(self, command, **more):
        """The command of each host's launcher, `command(host number)`, at once; returns (statuses, out, err)."""
        jobs = [start(host.command(*command(number)), clean(**more)) for number, host in enumerate(self.hosts)]
        ended = [end(job) for job in jobs]
        return [one[0] for one in ended], "".join(one[1] for one in ended), "".join(one[2] for one in ended)

    def meet(self, ended, rendezvous, ranks):
        statuses, out, err = ended
        self.assertEqual((set(statuses), sorted(out.splitlines())), ({0}, program.sums(ranks)), err)
        for rank in range(ranks):
            self.assertRegex(err, rf"rendezvous: rank {rank} of {ranks} by {rendezvous}")
        return err

    def once(self, command, **more):
        """A launcher on the first host that reaches the other itself."""
        status, out, err = end(start(self.hosts[0].command(*command), clean(**more)))
        return [status], out, err

    def rondo_run(self, number):
        return [self.rondo, "run", "-n", "2", "--nnodes", "2", "--node-rank", str(number), "--master-addr", self.master,
                "--master-port", str(PORT), "--", self.first]

    def test_rondo_run(self):
        where = rf"rondo run, at {self.master}:{PORT + 1} by MASTER_ADDR and MASTER_PORT\+1, "
        err = self.meet(self.on_both(self.rondo_run, RONDO_PSK_FILE=self.key), where + "with a secret", 4)
        self.assertNotIn("unauthenticated", err)
        err = self.meet(self.on_both(self.rondo_run), where + "unauthenticated", 4)
        self.assertEqual(err.count("whoever reaches it may join this job"), 1)

    def test_a_host_with_another_key_stays_out(self):
        secrets = ["one secret of the job", "another secret of it"]
        command = ["env", "RONDO_JOB_SECRET="]
        statuses, out, err = self.on_both(lambda number: command[:1] + [command[1] + secrets[number]] +
                                          self.rondo_run(number), RONDO_TIMEOUT="3")
        self.assertNotIn(0, statuses)
        self.assertNotIn("the sum is", out)
        self.assertIn("waiting for ranks 2, 3 of 4 to join", out)

    def test_torchrun(self):
        if not os.access(self.torch, os.X_OK):
            self.skipTest("torch is not installed: tools/dev torch installs it")
        ended = self.on_both(lambda number: [
            self.torch, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number), "--master-addr",
            self.master, "--master-port", str(PORT), "--no-python", "--nproc-per-node", "2", self.first])
        self.meet(ended, rf"torchrun, at {self.master}:{PORT + 1} by MASTER_ADDR and MASTER_PORT\+1, unauth", 4)

    def at_comm_id(self, command, launcher, ranks):
        """With NCCL_COMM_ID the ranks meet; without, they say that it must be set."""
        there = f"{self.master}:{PORT}"
        self.meet(self.once(command, NCCL_COMM_ID=there, RONDO_PSK_FILE=self.key),
                  f"{launcher}, at {there} by NCCL_COMM_ID, with a secret", ranks)
        for variables, words in (({}, "set NCCL_COMM_ID=ADDRESS:PORT for all of them"),
                                 ({"NCCL_COMM_ID": "127.0.0.1:1"}, "NCCL_COMM_ID=127.0.0.1:1 is every host by itself")):
            statuses, out, err = self.once(command, **variables)
            self.assertNotIn(0, statuses)
            self.assertIn(words, out + err)

    def test_open_mpi(self):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("mpirun.openmpi is not installed")
        places = ",".join(host.address + ":2" for host in self.hosts)
        variables = [word for name in ("NCCL_COMM_ID", "RONDO_PSK_FILE", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
                                       "RONDO_TIMEOUT") for word in ("-x", name)]
        command = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.agent, "-H", places, "-n",
                   "3", "--mca", "orte_warn_on_missing_env", "0", *variables, self.first]
        self.at_comm_id(command, "Open MPI's mpirun", 3)

    def test_mpich(self):
        if not shutil.which("mpirun.mpich"):
            self.skipTest("mpirun.mpich is not installed")
        places = ",".join(host.address for host in self.hosts)
        command = ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", self.agent, "-iface", fixture.INTERFACE,
                   "-hosts", places, "-n", "3", self.first]
        self.at_comm_id(command, "MPICH's mpirun", 3)

    def test_srun(self):
        if why := slurm.missing():
            self.skipTest(why)
        with slurm.Cluster(self.hosts) as cluster:
            configuration = "SLURM_CONF=" + cluster.environment["SLURM_CONF"]
            self.at_comm_id(["env", configuration, "srun", "-N", "2", "-n", "4", self.first], "srun", 4)


if __name__ == "__main__":
    Jobs.take_arguments(sys.argv)
    unittest.main()
