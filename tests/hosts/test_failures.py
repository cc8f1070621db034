"""What ranks of other hosts hear when a rank is killed, is late, or a host's link goes down, at work and idle; when
they cannot meet; and `rondo doctor` over hosts.

Usage: test_failures.py RONDO ALL_REDUCE_PERF LIBRARY.  No time is asserted but that everyone ends.
"""
import json
import os
import re
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[1:1] = [os.path.join(TESTS, "run"), os.path.join(os.path.dirname(TESTS), "tools", "hosts")]

import hosts as fixture  # noqa: E402
from jobs import clean  # noqa: E402

PLACEMENT = [0, 1, 0, 1]
PATIENCE_S = 100

rondo = all_reduce = library = ""

# A broadcast of COUNT floats, a pause, another one.  A pause below 0: until the communicator fails.
RANK = """
import ctypes, sys, time
path, count, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rondo = ctypes.CDLL(path)
rondo.ncclGetLastError.restype = ctypes.c_char_p
comm, state, data = ctypes.c_void_p(), ctypes.c_int(), (ctypes.c_float * count)()
def expect_success(result):
    if result:
        sys.exit(rondo.ncclGetLastError(None).decode())
def broadcast():
    expect_success(rondo.ncclBroadcast(data, data, ctypes.c_size_t(count), 7, 0, comm, None))
    print("done", flush=True)
expect_success(rondo.rondoCommInitFromEnv(ctypes.byref(comm)))
broadcast()
if pause_s < 0:
    while not state.value:
        time.sleep(0.02)
        rondo.ncclCommGetAsyncError(comm, ctypes.byref(state))
    print("failed", flush=True)
time.sleep(max(pause_s, 0))
broadcast()
rondo.ncclCommDestroy(comm)
"""


class Failures(unittest.TestCase):
    def setUp(self):
        if why := fixture.why_not():
            self.skipTest(why)
        namespaces = fixture.Hosts(2)
        self.hosts = namespaces.__enter__()
        self.addCleanup(namespaces.__exit__)

    def reducing(self, size, **variables):
        """Ranks in an endless loop of all-reduces, at work."""
        ranks = fixture.start_ranks(self.hosts, PLACEMENT, [all_reduce, "-b", size, "-e", size, "-n", "20", "-N", "0"],
                                    clean(**variables))
        for rank in ranks:
            self.addCleanup(self.end, rank)
        for line in ranks[0].stdout:
            if re.match(r" +\d", line):
                return ranks
        self.fail(ranks[0].stderr.read())

    @staticmethod
    def end(rank):
        fixture.stop(rank)
        rank.stdout.close()
        rank.stderr.close()

    def told(self, rank, words):
        _, err = rank.communicate(timeout=PATIENCE_S)
        self.assertEqual(rank.returncode, 1, err)
        self.assertRegex(err, words)
        return err

    def test_a_killed_rank_is_named_on_the_other_host(self):
        ranks = self.reducing("1M", RONDO_TIMEOUT="60")
        fixture.stop(ranks[3])
        for survivor in ranks[:3]:
            self.told(survivor, r"remote error.*rank 3 \(host host1, pid \d+\) died")

    def test_a_link_that_goes_down_is_told_on_both_hosts(self):
        for size in ("8", "1M"):
            with self.subTest(size):
                ranks = self.reducing(size, RONDO_TIMEOUT="4")
                self.hosts[1].link(False)
                for rank, process in enumerate(ranks):
                    other = 1 - PLACEMENT[rank]
                    err = self.told(process, rf"rank [{other}{other + 2}] \(host host{other}, pid \d+\)")
                    self.assertIn("nothing came for 4 seconds (RONDO_TIMEOUT)", err.splitlines()[-1])
                self.hosts[1].link(True)

    def start(self, count, pauses, **variables):
        """RANK on each place, which pauses so long; all have got one broadcast."""
        ranks = fixture.start_ranks(self.hosts, PLACEMENT[:len(pauses)],
                                    ["sh", "-c", 'set -- ' + " ".join(map(str, pauses)) + '; shift $RANK; '
                                     f'exec {sys.executable} -c "$SCRIPT" {library} {count} $1'],
                                    clean(SCRIPT=RANK, **variables))
        for rank in ranks:
            self.addCleanup(self.end, rank)
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "done\n", rank.stderr.read() if rank.poll() else "")
        return ranks

    def check_host_is_named(self, rank, err):
        """The other host's ranks are dead, by the kernel's word and not for want of patience."""
        self.assertNotIn("RONDO_TIMEOUT)", err)
        other = 1 - PLACEMENT[rank]
        self.assertRegex(err.splitlines()[-1], rf"rank [{other}{other + 2}] \(host host{other}, pid \d+\) died "
                                               r"\((Connection timed out|No route to host|Network is unreachable)\)")

    def test_a_host_that_is_gone_is_told_while_ranks_work(self):
        for size in ("8", "1M"):
            with self.subTest(size):
                ranks = self.reducing(size, RONDO_TIMEOUT="90", RONDO_HOST_TIMEOUT="2")
                self.hosts[1].link(False)
                try:
                    for rank, process in enumerate(ranks):
                        self.check_host_is_named(rank, self.told(process, "remote error"))
                finally:
                    self.hosts[1].link(True)

    def test_a_host_that_is_gone_is_told_while_ranks_are_idle(self):
        ranks = self.start(1000, [-1] * 4, RONDO_TIMEOUT="90", RONDO_HOST_TIMEOUT="2")
        self.hosts[1].link(False)
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=PATIENCE_S)
            self.assertEqual((process.returncode, out), (1, "failed\n"), err)
            self.check_host_is_named(rank, err)

    def test_a_rank_that_is_late_is_not_dead(self):
        """For longer than RONDO_HOST_TIMEOUT it leaves unread what fills its socket."""
        for rank in self.start(8 << 20, [0, 5], RONDO_TIMEOUT="60", RONDO_HOST_TIMEOUT="2"):
            out, err = rank.communicate(timeout=PATIENCE_S)
            self.assertEqual((rank.returncode, out), (0, "done\n"), err)

    def test_a_meeting_that_cannot_be_is_told_at_once(self):
        four, six = self.hosts[0].address, self.hosts[0].address_6
        for variables, words in (
                ({"MASTER_ADDR": four, "NCCL_SOCKET_FAMILY": "AF_INET6"},
                 f"MASTER_ADDR={four} is of AF_INET, but NCCL_SOCKET_FAMILY=AF_INET6 allows only AF_INET6"),
                ({"MASTER_ADDR": six, "NCCL_SOCKET_FAMILY": "AF_INET"},
                 f"MASTER_ADDR={six} is of AF_INET6, but NCCL_SOCKET_FAMILY=AF_INET allows only AF_INET"),
                ({"NCCL_COMM_ID": f"[{six}]:4000", "NCCL_SOCKET_FAMILY": "AF_INET"},
                 f"NCCL_COMM_ID={six} is of AF_INET6, but NCCL_SOCKET_FAMILY=AF_INET"),
                ({"NCCL_COMM_ID": f"{four}:4000", "NCCL_SOCKET_FAMILY": "AF_INET6"},
                 f"NCCL_COMM_ID={four} is of AF_INET, but NCCL_SOCKET_FAMILY=AF_INET6")):
            self.refused(self.hosts, variables, words)
        with fixture.Hosts(2, families=["4"]) as hosts:
            lacks = "this host has no interface to others with an address of AF_INET6; those that are up: lo"
            self.refused(hosts, {"MASTER_ADDR": six}, lacks)
            self.refused(hosts, {"MASTER_ADDR": "host0", "NCCL_SOCKET_FAMILY": "AF_INET6"}, lacks, ranks=[0, 2])

    def refused(self, hosts, variables, words, ranks=range(4)):
        results = fixture.run_ranks(hosts, PLACEMENT, [all_reduce, "-b", "8", "-e", "8"],
                                    clean(**{"RONDO_TIMEOUT": "30", **variables}))
        for rank in ranks:
            status, _, err = results[rank]
            self.assertEqual(status, 1, err)
            self.assertIn(words, err)
            self.assertNotIn("timed out", err)

    def test_shared_memory_does_not_reach_the_other_host(self):
        for status, _, err in fixture.run_ranks(self.hosts, PLACEMENT, [all_reduce, "-b", "8", "-e", "8"],
                                                clean(RONDO_TRANSPORT="shm", RONDO_TIMEOUT="60")):
            self.assertEqual(status, 1)
            self.assertRegex(err, "RONDO_TRANSPORT.*host[01]|host[01].*RONDO_TRANSPORT")

    def test_the_doctor_measures_pairs_within_and_between_hosts(self):
        results = fixture.run_ranks(self.hosts, PLACEMENT, [rondo, "doctor", "--json"], clean(RONDO_TIMEOUT="60"))
        report = json.loads(results[0][1])
        self.assertEqual([status for status, _, _ in results], [0] * 4, report["findings"])
        self.assertEqual([fact["host"] for fact in report["facts"]], [f"host{host}" for host in PLACEMENT])
        self.assertEqual([pair["ranks"] for pair in report["pairs"]],
                         [[a, b] for a in range(4) for b in range(a + 1, 4)])
        for pair in report["pairs"]:
            self.assertGreater(pair["latency_us"], 0)
            self.assertGreater(pair["GB_per_s"], 0)
        pairs = " ".join(finding["what"] for finding in report["findings"] if finding["subject"] == "pairs")
        self.assertRegex(pairs, "2 pairs")
        self.assertRegex(pairs, "4 pairs")


if __name__ == "__main__":
    rondo, all_reduce, library = (os.path.abspath(argument) for argument in sys.argv[1:4])
    del sys.argv[1:]
    unittest.main()
