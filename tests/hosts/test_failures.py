"""What ranks of other hosts hear when a rank is killed or a host's link goes down; and `rondo doctor` over hosts.

Usage: test_failures.py RONDO ALL_REDUCE_PERF.  No time is asserted but that everyone ends.
"""
import json
import os
import re
import sys
import unittest

sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "run"))

import hosts as fixture  # noqa: E402
from jobs import clean  # noqa: E402

PLACEMENT = [0, 1, 0, 1]
PATIENCE_S = 100

rondo = all_reduce = ""


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
    rondo, all_reduce = (os.path.abspath(argument) for argument in sys.argv[1:3])
    del sys.argv[1:]
    unittest.main()
