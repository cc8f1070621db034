"""perf/peers: from canned times to table and plot; peers that fail or hang; and Rondo's own driver, run to the end.

Usage: test_peers.py BUILD.  No peer need be installed, and none is run.
"""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "perf", "peers"))
import compare  # noqa: E402
import contenders  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402

BUILD = ""
SVG = "{http://www.w3.org/2000/svg}"
# One size where the tuned peer is fastest, one where another is; Rondo is once slower and once faster.
CANNED = {
    ("all_reduce", 2, "hot", 8, "Open MPI 4"): [0.5, 0.3, 0.4],
    ("all_reduce", 2, "hot", 8, "Rondo plain"): [0.1, 0.2, 0.9],
    ("all_reduce", 2, "hot", 8, "Open MPI 4 tuned"): [0.25, 0.25, 0.25],
    ("all_reduce", 2, "hot", 2 << 20, "Open MPI 4"): [300.0, 100.0, 200.0],
    ("all_reduce", 2, "hot", 2 << 20, "Rondo plain"): [400.0, 400.0, 1.0],
    ("all_reduce", 2, "hot", 2 << 20, "Open MPI 4 tuned"): [400.0, 900.0, 800.0],
    ("pingpong", 4, "fresh", 1000, "Rondo plain"): [1.0],
}


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_fastest_peer_of_each_size_is_named_and_divides(self):
        self.assertEqual(report.table(CANNED)[2:], [
            "| all_reduce | 2 | hot | 8 B | Open MPI 4 tuned | 0.25 | 0.40 | 0.25 | 0.20 | 0.80 |",
            "| all_reduce | 2 | hot | 2 MiB | Open MPI 4 | 200.00 | 200.00 | 800.00 | 400.00 | 2.00 |",
            "| pingpong | 4 | fresh | 1000 B | - | - | - | - | 1.00 | - |"])

    def test_a_brief_table_shows_of_the_peers_the_fastest(self):
        lines = report.table(CANNED, brief=True)
        self.assertEqual(lines[2], "| all_reduce | 2 | hot | 8 B | Open MPI 4 tuned | 0.25 | 0.20 | 0.80 |")
        self.assertEqual(len({line.count("|") for line in lines}), 1)

    def test_times_come_back_from_csv_and_files_add_up(self):
        path = os.path.join(self.folder, "times.csv")
        report.write_csv(path, CANNED)
        self.assertEqual(report.read_csv([path]), CANNED)
        twice = report.read_csv([path, path])
        self.assertEqual(twice["all_reduce", 2, "hot", 8, "Open MPI 4"], [0.5, 0.3, 0.4] * 2)

    def test_another_file_is_refused(self):
        path = os.path.join(self.folder, "other.csv")
        with open(path, "w") as file:
            file.write("size,count\n8,2\n")
        with self.assertRaisesRegex(ValueError, "not what --csv writes"):
            report.read_csv([path])

    def test_the_plot_has_a_line_a_contender_and_lower_is_faster(self):
        root = ET.fromstring(report.svg(CANNED))
        lines = {line.find(SVG + "title").text: [float(point.split(",")[1]) for point in line.get("points").split()]
                 for line in root.iter(SVG + "polyline")}
        self.assertEqual(set(lines), {"Open MPI 4", "Open MPI 4 tuned", "Rondo plain"})
        small, large = lines["Rondo plain"]
        self.assertGreater(small, large)  # y grows downwards: 0.8 of the fastest lies below 2.0
        self.assertEqual(lines["Open MPI 4"][1], lines["Open MPI 4 tuned"][0])  # both the fastest: 1.0

    def test_earlier_files_are_drawn_without_measuring(self):
        paths = [os.path.join(self.folder, name) for name in ("a.csv", "b.csv", "b.svg")]
        report.write_csv(paths[0], CANNED)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            compare.main(["--from", paths[0], "--csv", paths[1], "--svg", paths[2]])
        self.assertEqual(out.getvalue().splitlines(), report.table(CANNED))
        self.assertEqual(report.read_csv([paths[1]]), CANNED)
        ET.parse(paths[2])

    def test_words_that_name_nothing_are_refused_before_anything_runs(self):
        for option, word in (("--modes", "both"), ("--settings", "best"), ("--memory", "malloc"), ("--peers", "mpi"),
                             ("--collectives", "allreduce")):
            with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit):
                compare.main([option, word])
            self.assertIn(f": {word} (there are: ", err.getvalue())


class Runs(unittest.TestCase):
    def test_the_first_command_s_times_are_read_and_other_words_skipped(self):
        says = ["sh", "-c", "echo a warning of some library; echo all_reduce 8 $TIME 0.1 0.9"]
        times = compare.times_of([(says, {"TIME": "0.5"}), (["true"], {})], 60)
        self.assertEqual(times, {("all_reduce", 8): 0.5})

    def test_a_failing_command_voids_the_run(self):
        for commands in ([(["sh", "-c", "echo all_reduce 8 1 1 1; exit 3"], {})],
                         [(["sh", "-c", "echo all_reduce 8 1 1 1"], {}), (["sh", "-c", "exit 3"], {})]):
            with self.assertRaisesRegex(compare.Failed, "status 3"):
                compare.times_of(commands, 60)

    def test_silence_voids_the_run(self):
        with self.assertRaisesRegex(compare.Failed, "no times"):
            compare.times_of([(["true"], {})], 60)

    def test_a_hanging_peer_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "child")
            hanging = ["sh", "-c", f"sleep 600 & echo $! > {path}; wait"]
            with self.assertRaisesRegex(compare.Failed, "did not end in 1 s"):
                compare.times_of([(hanging, {})], 1)
            with open(path) as file:
                child = file.read().strip()
        self.assertIn(self.state(child), ("", "Z"))

    def test_an_ended_comparison_ends_its_contenders(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "child")
            program = ("import signal, sys; sys.path.insert(0, sys.argv[1]); import compare; "
                       "compare.stop_on_signals(); compare.times_of([(['sh', '-c', sys.argv[2]], {})], 600)")
            process = subprocess.Popen([sys.executable, "-B", "-c", program, os.path.dirname(compare.__file__),
                                        f"echo $$ > {path}; echo started >&2; exec sleep 600"],
                                       stderr=subprocess.PIPE, text=True)
            self.assertEqual(process.stderr.readline(), "started\n")
            process.terminate()
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 143)
            with open(path) as file:
                child = file.read().strip()
        self.assertIn(self.state(child), ("", "Z"))

    @staticmethod
    def state(process):
        """One letter; empty: there is none."""
        return subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True,
                              check=False).stdout.strip()[:1]

    def test_a_void_contender_is_left_out_and_the_others_go_on(self):
        def start(place, ranks, mode, collectives):
            return [(["sh", "-c", f"echo {collectives} 8 {ranks} 1 1"], {})]
        starters = {"Bad": ((), lambda *_: [(["false"], {})]), "Good": ((), start), "Other": (("reduce",), start)}
        arguments = compare.arguments_of(["--rounds", "2", "--ranks", "2,3", "--modes", "hot"])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            results = compare.measure(arguments, starters, "")
        self.assertEqual(results, {("all_reduce", 2, "hot", 8, "Good"): [2.0, 2.0],
                                   ("all_reduce", 3, "hot", 8, "Good"): [3.0, 3.0]})
        self.assertEqual(said.getvalue().count("Bad, 2 ranks, hot: ended with status 1: left out"), 1)

    def test_every_peer_s_commands_can_be_made(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        places_of = [places.Here(BUILD, folder.name, transport, bound) for transport in ("shm", "tcp")
                     for bound in (True, False)]
        for peer in contenders.PEERS.values():
            if peer.family == "gloo":
                continue
            for place in places_of:
                (command, _), = place.mpi(peer, peer.tuned, 4, ["driver", "work"])
                self.assertEqual(command[-2:], ["driver", "work"])
                self.assertTrue(set(peer.tuned) <= set(command) and "4" in command, command)

    def test_more_ranks_than_cores_keep_to_a_core_each_in_turn(self):
        cores = sorted(os.sched_getaffinity(0))
        show = ["sh", "-c", "taskset -cp $$ | sed 's/.*: //'"]
        with tempfile.TemporaryDirectory() as folder:
            place = places.Here(BUILD, folder, "shm", True)
            (command, _), = place.mpi(contenders.PEERS["openmpi"], (), len(cores) + 1, show)
            held = command[-len(show) - 1:]
            for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"):
                for rank in range(len(cores) + 1):
                    said = subprocess.run(held, env={"PATH": os.environ["PATH"], name: str(rank)}, capture_output=True,
                                          text=True, check=True).stdout
                    self.assertEqual(said, f"{cores[rank % len(cores)]}\n")
            (command, _), = place.rondo(len(cores) + 1, show)
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            self.assertEqual(sorted(map(int, said.split())), sorted([*cores, cores[0]]))

    def test_rondo_s_driver_measures_every_collective(self):
        program = os.path.join(os.path.dirname(compare.__file__), "compare.py")
        command = [sys.executable, "-B", program, "--build", BUILD, "--peers", "none", "--rounds", "1", "--ranks", "2",
                   "--modes", "fresh", "--sizes", "524288", "--collectives", report.COLLECTIVES, "--memory", "alloc"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line.split(" | ")[0] for line in result.stdout.splitlines()[2:]]
        self.assertEqual(rows, ["| " + name for name in report.COLLECTIVES.split(",")], result.stderr)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
