"""`rondo plan` as a user meets it: tables, proofs, costs, drawings, JSON, and sentences for wrong requests.

Usage: test_command.py RONDO
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

RONDO = sys.argv.pop(1)
SHIPPED = {"all_reduce": ["ring", "star", "one_shot", "two_shot", "one_shot_pull", "two_shot_pull", "chain", "tree",
                          "recursive_doubling", "halving_doubling", "hierarchical"],
           "reduce_scatter": ["ring", "direct", "halving_doubling", "pat"],
           "all_gather": ["ring", "direct", "halving_doubling", "pat"],
           "broadcast": ["chain", "binomial", "direct"], "reduce": ["chain", "binomial", "two_shot"],
           "gather": ["direct", "binomial"], "scatter": ["direct", "binomial"], "all_to_all": ["direct", "bruck"],
           "send_recv": ["send", "lend"]}


def plan(*arguments):
    return subprocess.run([RONDO, "plan", *arguments], capture_output=True, text=True)


class Command(unittest.TestCase):
    def test_every_schedule_is_printed_proved_costed_and_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            for names in [(kind, name) for kind, those in SHIPPED.items() for name in those]:
                for ranks in ("1", "2", "5"):
                    with self.subTest(names=names, ranks=ranks):
                        path = os.path.join(folder, "plan.svg")
                        done = plan(*names, "-n", ranks, "--verify", "--cost", "--bytes", "1M", "--svg", path)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        for rank in range(int(ranks)):
                            self.assertIn(f"\nrank {rank}", done.stdout)
                        self.assertIn("\nproved in ", done.stdout)
                        self.assertIn("\n> " + names[1], done.stdout)
                        self.assertEqual(xml.parse(path).getroot().tag, "{http://www.w3.org/2000/svg}svg")
        known = plan("all_reduce", "none", "-n", "2").stderr
        self.assertEqual(sorted(line.strip() for line in known.splitlines() if line.startswith("  ")),
                         sorted(f"{kind} {name}" for kind, those in SHIPPED.items() for name in those))

    def test_the_pictures_of_the_documents_are_current(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "docs", "pictures")
        with tempfile.TemporaryDirectory() as made:
            for kind, those in SHIPPED.items():
                for name in those:
                    with self.subTest(kind=kind, name=name):
                        shape = ["--hosts", "2,2"] if name == "hierarchical" else ["-n", "4"]
                        path = os.path.join(made, f"plan_{kind}_{name}.svg")
                        plan(kind, name, *shape, "--svg", path)
                        with open(path) as new, open(os.path.join(folder, os.path.basename(path))) as old:
                            self.assertEqual(new.read(), old.read(), "run docs/pictures/schedules.py")

    def test_json(self):
        done = plan("all_reduce", "ring", "--hosts", "2,2", "--json", "--verify", "--cost")
        answer = json.loads(done.stdout)
        self.assertEqual([len(p["strands"][0]["steps"]) for p in answer["plans"]], [7] * 4)
        self.assertEqual(answer["verdict"]["fault"], "none")
        self.assertEqual(sorted(c["algorithm"] for c in answer["costs"]), sorted(SHIPPED["all_reduce"]))

    def test_the_root_and_the_hosts_matter(self):
        self.assertIn("in[0]", plan("broadcast", "chain", "-n", "3", "--root", "2").stdout.split("rank 2")[1])
        costs = [json.loads(plan("all_reduce", "ring", "-n", "4", *hosts, "--json", "--cost").stdout)["costs"]
                 for hosts in ([], ["--hosts", "2,2", "--other-host", "50,0.1"])]
        ring = [next(c["seconds"] for c in rows if c["algorithm"] == "ring") for rows in costs]
        self.assertGreater(ring[1], 3 * ring[0])

    def test_wrong_requests_are_refused_with_a_sentence(self):
        for arguments, says in ((["all_reduce", "rng", "-n", "4"], "all_reduce ring"),
                                (["all_reduce", "pat", "-n", "4"], "no plan for `all_reduce pat`"),
                                (["all_reduce", "ring"], "how many ranks"),
                                ([], "there are:"),
                                (["all_reduce", "ring", "-n", "0"], "--ranks"),
                                (["all_reduce", "ring", "-n", "3", "--hosts", "2,2"], "adds up to 4"),
                                (["broadcast", "chain", "-n", "3", "--root", "3"], "0..2"),
                                (["all_reduce", "ring", "-n", "2", "--bytes", "many"], "bytes")):
            with self.subTest(arguments=arguments):
                done = plan(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(says, done.stderr)
        done = plan("all_reduce", "ring", "-n", "2", "--svg", "/nonexistent/plan.svg")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write /nonexistent/plan.svg", done.stderr)


if __name__ == "__main__":
    unittest.main()
