"""The performance programs as users run them: tables, files, statuses, complaints; and canaries for their checks.

Usage: test_perf.py RONDO PROGRAM FAULTY.  The programs are beside PROGRAM, FAULTY is the library of faulty.c.  Nothing
is asserted of the times and bandwidths that are shown.
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

RONDO = FOLDER = FAULTY = ""
PATIENCE_S = 300
SHORT = ["-b", "8", "-e", "4K", "-f", "8", "-n", "2"]


def program(name):
    return os.path.join(FOLDER, name)


def start(command, environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "RONDO_"))}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                          env={**inherited, **environment})


def alone(name, *flags, **environment):
    return start([program(name), *flags], environment)


def ranks(number, name, *flags, **environment):
    return start([RONDO, "run", "-n", str(number), "--", program(name), *flags], environment)


def rows(result):
    return [line.split() for line in result.stdout.splitlines() if line and not line.startswith("#")]


class Case(unittest.TestCase):
    def right(self, result, count, in_place=True):
        """The status is 0, and there are `count` rows without a wrong element; in place only where that can be."""
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        table = rows(result)
        self.assertEqual(len(table), count, result.stdout)
        for row in table:
            self.assertEqual(len(row), 13, row)
            self.assertEqual((row[8], row[12]), ("0", "0" if in_place else "N/A"), row)
        self.assertIn("# Out of bounds values : 0 OK", result.stdout)
        self.assertRegex(result.stdout, r"# Avg bus bandwidth    : [\d.e+-]+ \n")
        return table


class Tables(Case):
    def test_two_processes(self):
        result = ranks(2, "all_reduce_perf", "-b", "8", "-e", "1M", "-f", "4", "-n", "3")
        table = self.right(result, 9)
        self.assertEqual([int(row[0]) for row in table], [8 * 4**i for i in range(9)])
        self.assertEqual([int(row[1]) for row in table], [2 * 4**i for i in range(9)])
        self.assertEqual({tuple(row[2:5]) for row in table}, {("float", "sum", "-1")})
        line = r"^#  Rank  \d Group  0 Pid +\d+ on .+ device  \d \[.+\]"
        self.assertEqual(len(re.findall(line, result.stdout, re.M)), 2)
        self.assertIn("# Ranks that differ    : 0 OK", result.stdout)

    def test_every_program_in_processes_threads_and_groups(self):
        for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter",
                     "alltoall", "alltoallv", "sendrecv", "hypercube"):
            in_place = name not in ("alltoall", "alltoallv", "sendrecv")
            several = 4 if name == "hypercube" else 3
            with self.subTest(name):
                name += "_perf"
                self.right(ranks(several, name, *SHORT), 4, in_place)
                self.right(alone(name, *SHORT, "-t", str(several)), 4, in_place)
                self.right(alone(name, *SHORT, "-g", "2"), 4, in_place)
                self.right(alone(name, *SHORT), 4, in_place)

    def test_several_ranks_in_each_of_several_processes(self):
        result = ranks(2, "all_reduce_perf", *SHORT, "-t", "2", "-g", "2", "-p", "1")
        self.right(result, 4)
        self.assertEqual(len(re.findall("^#  Rank", result.stdout, re.M)), 8)

    def test_every_type_and_operator(self):
        for number in (2, 3):
            table = self.right(ranks(number, "all_reduce_perf", "-b", "4K", "-e", "4K", "-n", "1", "-d", "all", "-o",
                                     "all"), 72)
            self.assertEqual(len({(row[2], row[3]) for row in table}), 72)
        self.right(ranks(2, "reduce_scatter_perf", "-b", "4K", "-e", "4K", "-n", "1", "-d", "all", "-o", "all"), 72)

    def test_every_root(self):
        for name in ("reduce_perf", "gather_perf", "scatter_perf"):
            self.right(ranks(3, name, "-b", "1K", "-e", "1K", "-n", "1", "-r", "all"), 3)
        table = self.right(ranks(3, "broadcast_perf", "-b", "1K", "-e", "1K", "-n", "1", "-r", "all"), 3)
        self.assertEqual([(row[3], row[4]) for row in table], [("none", str(root)) for root in range(3)])

    def test_sizes(self):
        table = self.right(ranks(2, "all_reduce_perf", "-b", "0", "-e", "1.5K", "-i", "512", "-n", "1"), 4)
        self.assertEqual([int(row[0]) for row in table], [0, 512, 1024, 1536])
        table = self.right(ranks(3, "all_gather_perf", "-b", "100", "-e", "1000", "-i", "300", "-n", "1"), 4)
        self.assertEqual([int(row[0]) for row in table], [96, 384, 672, 960])  # shares are of 16 bytes

    def test_the_variants_of_a_measurement(self):
        for flags in (["--fresh", "1"], ["--memory", "alloc"], ["-m", "3"], ["-u", "1"], ["-w", "0"], ["-a", "3"],
                      ["--fresh", "1", "--memory", "alloc", "-a", "0"], ["-c", "2"]):
            with self.subTest(flags):
                self.right(ranks(2, "all_reduce_perf", *SHORT, *flags), 4)
        self.right(ranks(2, "all_reduce_perf", *SHORT, "-N", "2"), 8)
        result = ranks(2, "all_reduce_perf", *SHORT, "-c", "0")
        self.assertEqual({(row[8], row[12]) for row in rows(result)}, {("N/A", "N/A")})
        self.assertEqual({len(row) for row in rows(ranks(2, "all_reduce_perf", *SHORT, "-I", "1"))}, {21})
        self.assertEqual({len(row) for row in rows(ranks(2, "all_reduce_perf", *SHORT, "-S", "1"))}, {15})

    def test_flags_about_devices_are_taken_and_said_to_do_nothing(self):
        result = ranks(2, "all_reduce_perf", *SHORT, "-G", "4", "-z", "1", "-R", "2")
        self.right(result, 4)
        self.assertEqual(result.stdout.count("has no effect on host memory"), 3)


class Files(Case):
    def test_one_table_an_algorithm(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.csv")
            result = ranks(2, "all_reduce_perf", *SHORT, "--algo", "ring,tree,star", "--csv", path)
            self.right(result, 12)
            self.assertEqual(re.findall("^# Algorithm: (.*)$", result.stdout, re.M), ["ring", "tree", "star"])
            self.assertEqual(sorted(os.listdir(folder)), ["x-ring.csv", "x-star.csv", "x-tree.csv"])
        result = ranks(2, "all_reduce_perf", *SHORT, "--algo", "snail")
        self.assertEqual(result.returncode, 1)
        self.assertIn("snail", result.stderr)

    def test_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.csv")
            self.right(ranks(2, "all_reduce_perf", *SHORT, "--csv", path), 4)
            with open(path, newline="") as file:
                table = list(csv.DictReader(file))
        self.assertEqual([(row["size"], row["in_place"]) for row in table],
                         [(str(size), half) for size in (8, 64, 512, 4096) for half in "01"])
        self.assertEqual({(row["type"], row["redop"], row["root"], row["wrong"]) for row in table},
                         {("float", "sum", "-1", "0")})
        self.assertTrue(all(float(row["time_us"]) > 0 and float(row["busbw"]) >= 0 for row in table))

    def test_json_has_results_and_no_secrets_and_overwrites_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            for name in (path, path + ".0", path + ".1"):
                result = ranks(2, "all_reduce_perf", *SHORT, "-J", path, "-I", "1", NCCL_DEBUG="WARN", PASSWORD="hush")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"# Writing JSON output to {name}\n", result.stdout)
                with open(name) as file:
                    text = file.read()
        self.assertNotIn("hush", text)
        self.assertNotIn("SECRET", text)
        document = json.loads(text)
        self.assertEqual(document["version"], 3)
        self.assertIn("NCCL_DEBUG=WARN", document["env"])
        self.assertEqual([entry["size"] for entry in document["results"]], [8, 64, 512, 4096])
        for entry in document["results"]:
            for half in ("out_of_place", "in_place"):
                self.assertEqual(entry[half]["nwrong"], 0)
                self.assertGreater(entry[half]["time"], 0)
                self.assertEqual(len(entry[half + "_per_iter"]["times_us"]), 2)
        self.assertEqual([device["rank"] for device in document["config"]["devices"]], [0, 1])
        self.assertEqual(document["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertEqual(document["average_bus_bandwidth"]["okay"], "unchecked")

    def test_files_that_cannot_be_written(self):
        for flag in ("--csv", "-J"):
            result = ranks(2, "all_reduce_perf", *SHORT, flag, "/no/such/folder/file")
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"cannot write {flag} /no/such/folder/file: No such file or directory", result.stderr)

    def test_what_does_not_arrive_is_told(self):
        for redirection, words in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
            result = start(["sh", "-c", f'exec "$@" {redirection}', "sh", program("all_reduce_perf"), *SHORT], {})
            self.assertEqual(result.returncode, 1, redirection)
            self.assertIn("cannot write the standard output: " + words, result.stderr)
        for flag in ("--csv", "-J"):
            result = alone("all_reduce_perf", "-t", "2", *SHORT, flag, "/dev/full")
            self.assertEqual(result.returncode, 1, flag)
            self.assertIn(f"cannot write {flag} /dev/full: No space left on device", result.stderr)


class Verdicts(Case):
    def test_a_bandwidth_demanded(self):
        result = ranks(2, "all_reduce_perf", *SHORT, "--min-busbw", "1e-9")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"Avg bus bandwidth    : [\d.e+-]+ OK\n")
        result = ranks(2, "all_reduce_perf", *SHORT, "--min-busbw", "1e9")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"Avg bus bandwidth    : [\d.e+-]+ FAILED\n")
        self.assertEqual(ranks(2, "all_reduce_perf", *SHORT, NCCL_TESTS_MIN_BW="1e9").returncode, 1)

    def faulty(self, fault, *flags, number=2):
        options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"  # it need not be loaded first
        return ranks(number, "all_reduce_perf", "-b", "4K", "-e", "4K", "-n", "1", *flags, LD_PRELOAD=FAULTY,
                     FAULT=fault, ASAN_OPTIONS=options)

    def test_faults_are_seen(self):
        self.assertEqual(self.faulty("none").returncode, 0)
        result = self.faulty("wrong")
        self.assertEqual(result.returncode, 1)
        self.assertEqual((rows(result)[0][8], rows(result)[0][12]), ("2", "2"))  # one element on each rank
        for fault in ("beyond", "before"):
            result = self.faulty(fault)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stdout, r"Out of bounds values : [1-9]\d* FAILED")
        result = self.faulty("send")
        self.assertEqual(result.returncode, 1)
        self.assertNotEqual(rows(result)[0][8], "0")

    def test_different_bits_are_seen_even_where_both_are_near_enough(self):
        result = self.faulty("differs", "-o", "avg", number=3)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"Ranks that differ    : [1-9]\d* FAILED")

    def test_a_call_that_fails(self):
        result = self.faulty("fails")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"all_reduce_perf: rank \d: ncclAllReduce failed: ")


class Mistakes(Case):
    def complaint(self, *flags, name="all_reduce_perf", number=2):
        """What is said about a wrong command line: once, with status 2."""
        result = ranks(number, name, *flags)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        lines = [line for line in result.stderr.splitlines() if not line.startswith("rondo run: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith(name + ": "))
        return lines[0]

    def test_the_closest_flag_is_named(self):
        sentence = "'--minbyte' is no flag of this program; did you mean '--minbytes'?"
        self.assertIn(sentence, self.complaint("--minbyte", "8"))
        self.assertIn("did you mean '--fresh'", self.complaint("--frsh=1"))
        self.assertNotIn("did you mean", self.complaint("--nonsense"))

    def test_the_closest_value_is_named(self):
        self.assertIn("'flot' is no type; did you mean 'float'?", self.complaint("-d", "flot"))
        self.assertIn("'summ' is no operator; did you mean 'sum'?", self.complaint("-o", "summ"))

    def test_wrong_values(self):
        for flags in (["-b", "8Q"], ["-b", "-8"], ["-b", ""], ["-n", "0"], ["-n", "many"], ["-t", "0"], ["-f", "x"],
                      ["--memory", "gpu"], ["-a", "4"], ["-r", "first"], ["-b", "64M"], ["-i", "0", "-b", "8"], ["-n"],
                      ["--min-busbw", "x"]):
            with self.subTest(flags):
                self.assertIn(len(self.complaint(*flags)), range(31, 200))

    def test_a_root_that_is_no_rank(self):
        result = ranks(2, "broadcast_perf", *SHORT, "-r", "7")
        self.assertEqual(result.returncode, 1)
        self.assertIn("-r 7: there are only 2 ranks", result.stderr)

    def test_a_hypercube_of_three(self):
        result = ranks(3, "hypercube_perf", *SHORT)
        self.assertEqual(result.returncode, 1)
        self.assertIn("a hypercube needs 1, 2, 4, 8 ... ranks; these are 3", result.stderr)

    def test_help(self):
        result = alone("all_reduce_perf", "--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--min-busbw", result.stdout)


if __name__ == "__main__":
    FAULTY = os.path.abspath(sys.argv.pop(3))
    FOLDER = os.path.dirname(os.path.abspath(sys.argv.pop(2)))
    RONDO = os.path.abspath(sys.argv.pop(1))
    unittest.main()
