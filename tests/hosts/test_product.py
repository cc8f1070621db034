"""Every collective over several hosts: collectives and algorithms x placements x transports x address families x
process numbers, each a job of a performance program that checks every element.

Usage: test_product.py RONDO PERF [--whole [K/N]].  K/N: every Nth of the jobs, K from 0 on.  Without --whole: every
collective and algorithm at every placement, each with one of the other combinations in turn; and one of the placements
by NCCL_HOSTID on this host.  Each host has two more interfaces, of networks that are its
own, under addresses that the other has, too.
"""
import itertools
import os
import re
import subprocess
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[1:1] = [os.path.join(TESTS, "run"), os.path.join(os.path.dirname(TESTS), "tools", "hosts")]

import hosts as fixture  # noqa: E402
from jobs import clean  # noqa: E402

PLACEMENTS = {"1+2": [0, 1, 1], "2+3": [0, 0, 1, 1, 1], "7+8": [0] * 7 + [1] * 8, "ABABA": [0, 1, 0, 1, 0]}
ALGORITHMS = {
    "all_reduce": ["", "ring", "tree", "hierarchical", "recursive_doubling", "halving_doubling", "two_shot", "chain"],
    "all_gather": ["", "ring", "halving_doubling", "pat"], "reduce_scatter": ["", "ring", "halving_doubling", "pat"],
    "broadcast": ["", "chain"], "reduce": ["", "chain"], "gather": ["", "direct"], "scatter": ["", "direct"],
    "alltoall": ["", "bruck"], "alltoallv": [""], "sendrecv": [""],
}
WORK = [(collective, algorithm) for collective, names in ALGORITHMS.items() for algorithm in names]
TRANSPORTS = ["", "tcp"]
FAMILIES = ["AF_INET", "AF_INET6"]
PIDS = ["of the machine", "of each host", "of each rank"]
OTHERS = list(itertools.product(TRANSPORTS, FAMILIES, PIDS))
VIA = re.compile(r"rank (\d+) <-> rank (\d+) \(.*\) via (\w+):")
PATIENCE_S = 200

rondo = perf = ""
whole = False
part, parts = 0, 1


def sample(work, placement, others):
    """Which of `others` a test without --whole takes: over all work, every placement meets each of them."""
    return others[(7 * work + 5 * placement) % len(others)]


def ours(number):
    """Whether a job is of the part that was asked for."""
    return number % parts == part


class Product(unittest.TestCase):
    def check(self, name, placement, transport, results):
        """Status 0 everywhere, three sizes right on rank 0, and each pair linked as its hosts demand."""
        for rank, (status, _, err) in enumerate(results):
            self.assertEqual(status, 0, f"{name}, rank {rank}: {err[-600:]}")
        rows = [line.split() for line in results[0][1].splitlines() if re.match(r" +\d", line)]
        self.assertEqual(len(rows), 3, f"{name}: {results[0][1]}")
        self.assertTrue(all(row[-5] == "0" and row[-1] in ("0", "N/A") for row in rows), f"{name}: {rows}")
        links = {match for _, _, err in results for match in VIA.findall(err)}
        self.assertTrue(links, name)
        for first, second, via in links:
            together = placement[int(first)] == placement[int(second)] and not transport
            self.assertEqual(via, "shm" if together else "tcp", f"{name}: ranks {first} and {second}")

    def variables(self, algorithm, transport, **more):
        wanted = {"NCCL_ALGO": algorithm, "RONDO_TRANSPORT": transport}
        return clean(**{name: value for name, value in wanted.items() if value}, **more)

    def command(self, collective):
        return [os.path.join(perf, collective + "_perf"), "-b", "1K", "-e", "256K", "-f", "16", "-n", "1", "-w", "1"]

    def test_over_hosts(self):
        if why := fixture.why_not():
            self.skipTest(why)
        done = 0
        for own_pids in (False, True):
            with fixture.Hosts(2, own_pids) as hosts:
                for host in hosts:
                    host.add_interface("alone0", "10.99.0.1/24")
                    host.add_interface("alone1", "fd99::1/64")
                done += self.over(hosts, own_pids)
        print(f"over hosts: {done} of {len(WORK) * len(PLACEMENTS) * len(OTHERS)} jobs")

    def over(self, hosts, own_pids):
        jobs = number = 0
        for (w, work), (p, place) in itertools.product(enumerate(WORK), enumerate(PLACEMENTS)):
            for others in OTHERS:
                transport, family, pids = others
                if own_pids != (pids == PIDS[1]) or not (whole or others == sample(w, p, OTHERS)):
                    continue
                number += 1
                if not ours(number):
                    continue
                prefix = ["unshare", "--pid", "--fork", "--kill-child"] if pids == PIDS[2] else []
                results = fixture.run_ranks(hosts, PLACEMENTS[place], prefix + self.command(work[0]),
                                            self.variables(work[1], transport, NCCL_SOCKET_FAMILY=family))
                self.check(" ".join(work + (place,) + others), PLACEMENTS[place], transport, results)
                jobs += 1
        return jobs

    def test_over_hosts_that_have_ipv6_alone(self):
        if why := fixture.why_not():
            self.skipTest(why)
        if not ours(0):
            self.skipTest("part 0 has it")
        for families, master in ((["6"], "address_6"), (["local 6"], "local_6"), (["6", "local 6"], "local_6")):
            with fixture.Hosts(2, families=families) as hosts:
                for work in (("all_reduce", ""), ("sendrecv", "")) if not whole else WORK:
                    results = fixture.run_ranks(hosts, PLACEMENTS["1+2"], self.command(work[0]), self.variables(
                        work[1], "", MASTER_ADDR=getattr(hosts[0], master)))
                    self.check(f"{work} over {families}", PLACEMENTS["1+2"], "", results)

    def test_by_hostid(self):
        jobs = done = 0
        cells = list(itertools.product(PLACEMENTS, TRANSPORTS))
        script = 'names=$1; shift; export NCCL_HOSTID=$(echo $names | cut -d" " -f$((RANK + 1))); exec "$@"'
        for w, work in enumerate(WORK):
            for place, transport in cells if whole else [sample(w, 0, cells)]:
                if not ours(jobs := jobs + 1):
                    continue
                placement = PLACEMENTS[place]
                names = " ".join(f"host{host}" for host in placement)
                run = subprocess.run([rondo, "run", "-n", str(len(placement)), "--", "sh", "-c", script, "sh", names,
                                      *self.command(work[0])], capture_output=True, text=True, timeout=PATIENCE_S,
                                     check=False, stdin=subprocess.DEVNULL, env=self.variables(work[1], transport))
                self.check(f"{work} {place} {transport} by NCCL_HOSTID", placement, transport,
                           [(run.returncode, run.stdout, run.stderr)])
                done += 1
        print(f"by NCCL_HOSTID: {done} of {len(WORK) * len(cells)} jobs")


if __name__ == "__main__":
    whole = "--whole" in sys.argv
    rondo, perf = (os.path.abspath(argument) for argument in sys.argv[1:3])
    if whole and "/" in sys.argv[-1]:
        part, parts = map(int, sys.argv[-1].split("/"))
    del sys.argv[1:]
    unittest.main()
