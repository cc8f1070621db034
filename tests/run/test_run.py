"""The launcher with real processes: what ranks are given, what their endings make of the job, and that none is left.

Usage: test_run.py RONDO.  Ranks are small shell and Python programs; nothing is asserted of how long anything took.
"""
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RONDO = ""
PATIENCE_S = 120


def run(*arguments, **options):
    return subprocess.run([RONDO, "run", *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                          stdin=options.pop("stdin", subprocess.DEVNULL) if "input" not in options else None, **options)


def shell(ranks, script, *flags, **options):
    return run("-n", str(ranks), *flags, "--", "sh", "-c", script, **options)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def last_line(result):
    return result.stderr.splitlines()[-1]


def gone(pid):
    """Whether a process has ended (a zombie that nobody reaps has ended too)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Started:
    """A job in the background.  Each rank and each child of a rank writes its pid as a file into a folder."""

    def __init__(self, ranks, script, *flags):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([RONDO, "run", "-n", str(ranks), *flags, "--env", "DIR=" + self.folder.name,
                                         "--", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)

    def pids(self, count):
        """The pids written, once there are `count`."""
        assert until(lambda: len(os.listdir(self.folder.name)) >= count)
        return [int(name) for name in os.listdir(self.folder.name)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.folder.cleanup()


class Environment(unittest.TestCase):
    def test_ranks_get_torchruns_variables_and_the_rendezvous(self):
        names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RONDO_JOB_NAME",
                 "RONDO_JOB_SECRET"]
        result = shell(3, "echo " + " ".join("$" + name for name in names))
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = sorted(line.split() for line in result.stdout.splitlines())
        self.assertEqual([line[:5] for line in lines], [[str(r), str(r), "3", "3", "127.0.0.1"] for r in range(3)])
        self.assertEqual(len({tuple(line[5:]) for line in lines}), 1)
        port, _, secret = lines[0][5:]
        self.assertTrue(0 < int(port) < 65536)
        self.assertRegex(secret, "^[0-9a-f]{64}$")

    def test_a_host_without_ipv4_has_a_master_too(self):
        script = f"ip link set lo up && ip addr del 127.0.0.1/8 dev lo && ip route flush table local && " \
                 f"{RONDO} run -n 2 -- sh -c 'echo $MASTER_ADDR $MASTER_PORT'"
        result = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True,
                                timeout=PATIENCE_S)
        if "unshare failed" in result.stderr:
            self.skipTest("this system does not permit network namespaces of its own (unshare)")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^(::1 \d+\n){2}$")

    def test_the_number_of_ranks_as_mpirun_takes_it(self):
        self.assertEqual(run("-np", "2", "--", "echo", "-np").stdout, "-np\n-np\n")

    def test_each_job_has_its_own_name_and_secret(self):
        script = "echo $RONDO_JOB_NAME $RONDO_JOB_SECRET"
        one, two = (shell(1, script).stdout.split() for _ in range(2))
        self.assertNotEqual(one[0], two[0])
        self.assertNotEqual(one[1], two[1])

    def test_env_sets_variables_and_wins(self):
        result = shell(2, "echo $A:$B:$MASTER_PORT", "--env", "A=1", "--env", "B=x=y", "--env", "MASTER_PORT=77")
        self.assertEqual(result.stdout.split(), ["1:x=y:77"] * 2)

    def test_the_arguments_pass_unchanged(self):
        result = run("-n", "1", "--", "printf", "%s|", "-n", "--", "a b", "", "--env")
        self.assertEqual(result.stdout, "-n|--|a b||--env|")

    def test_only_rank_0_reads_the_standard_input(self):
        result = shell(3, 'echo "$RANK:$(cat)"', input="hello")
        self.assertEqual(sorted(result.stdout.split()), ["0:hello", "1:", "2:"])

    def test_what_is_typed_reaches_rank_0(self):
        master, slave = pty.openpty()
        with subprocess.Popen([RONDO, "run", "-n", "2", "--", "sh", "-c", 'echo "$RANK:$(cat)"'], stdin=slave,
                              stdout=subprocess.PIPE, text=True) as job:
            os.close(slave)
            os.write(master, b"typed\n\x04")
            self.assertEqual(sorted(job.stdout.read().split()), ["0:typed", "1:"])
        os.close(master)

    def test_signals_are_not_left_blocked_or_ignored(self):
        result = shell(1, "grep -E 'SigBlk|SigIgn' /proc/self/status")
        blocked, ignored = (int(line.split()[1], 16) for line in result.stdout.splitlines())
        self.assertEqual(blocked, 0)
        self.assertFalse(ignored & (1 << (signal.SIGTTIN - 1)))


class Binding(unittest.TestCase):
    usable = sorted(os.sched_getaffinity(0))

    def processors(self, ranks, *flags):
        # One write a rank: with PYTHONUNBUFFERED print() makes two, and lines of ranks mix.
        program = "import os; os.write(1, (','.join(map(str, sorted(os.sched_getaffinity(0)))) + '\\n').encode())"
        result = run("-n", str(ranks), *flags, "--", sys.executable, "-c", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        return sorted([int(word) for word in line.split(",")] for line in result.stdout.split())

    def test_each_rank_has_its_own_where_there_are_enough(self):
        ranks = min(len(self.usable), 8)
        bound = self.processors(ranks)
        self.assertTrue(all(len(one) == 1 and one[0] in self.usable for one in bound))
        self.assertEqual(len({one[0] for one in bound}), ranks)

    def test_none_where_there_are_not_or_when_told(self):
        self.assertEqual(self.processors(1, "--bind", "none"), [self.usable])
        more = len(self.usable) + 1
        if more <= 64:
            self.assertEqual(self.processors(more), [self.usable] * more)
            bound = self.processors(more, "--bind", "core")
            self.assertEqual(len({tuple(one) for one in bound}), len(self.usable))


class Endings(unittest.TestCase):
    def test_all_well(self):
        result = shell(3, "exit 0")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_first_failing_rank_decides(self):
        result = shell(3, "[ $RANK = 1 ] && exit 7; trap 'exit 9' TERM; sleep 60 & wait")
        self.assertEqual(result.returncode, 7)
        first, last = result.stderr.splitlines()
        self.assertRegex(first, r"^rondo run: rank 1 \(pid \d+\) exited with status 7; ending the other ranks$")
        self.assertRegex(last, r"^rondo run: rank 1 of 3 \(pid \d+\) failed first, after \d+(\.\d)? s: it exited with "
                               "status 7; of the others 2 failed$")

    def test_a_killed_rank_gives_128_plus_the_signal(self):
        result = shell(2, "[ $RANK = 1 ] && kill -SEGV $$; sleep 60")
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV)
        self.assertRegex(last_line(result), r"rank 1 of 2 .* it was killed by signal 11 \(Segmentation fault\); of the "
                                            "others 1 was ended by rondo run$")

    def test_a_rank_alone_gets_one_line(self):
        result = shell(1, "exit 3")
        line = r"^rondo run: rank 0 of 1 \(pid \d+\) failed, after .* it exited with status 3\n$"
        self.assertRegex(result.stderr, line)

    def test_the_account_is_the_last_line_whatever_else_is_written(self):
        result = shell(3, "[ $RANK = 2 ] && exit 4; trap 'echo the end >&2; exit 0' TERM; sleep 60 & wait")
        self.assertEqual(result.stderr.count("the end"), 2)
        self.assertRegex(last_line(result), "rank 2 of 3 .* exited with status 4; of the others 2 ended well$")

    def test_a_rank_that_ignores_sigterm_is_killed(self):
        result = shell(2, "[ $RANK = 0 ] && exit 5; trap '' TERM; while :; do sleep 0.1; done")
        self.assertEqual(result.returncode, 5)

    def test_the_others_have_time_to_end_in_good_order(self):
        with tempfile.TemporaryDirectory() as folder:
            result = shell(2, "if [ $RANK = 0 ]; then until [ -e $DIR/on ]; do sleep 0.05; done; exit 5; fi; "
                              ": > $DIR/on; sleep 0.3; echo saved", "--env", "DIR=" + folder)
        self.assertEqual((result.returncode, result.stdout), (5, "saved\n"))

    def test_a_rank_that_ends_well_early_stops_nobody(self):
        result = shell(2, "[ $RANK = 0 ] && exit 0; sleep 0.3; echo done")
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"))

    def test_what_a_rank_left_running_ends_with_the_job(self):
        with Started(2, "sleep 60 & echo > $DIR/$!") as job:
            self.assertEqual(job.process.wait(PATIENCE_S), 0)
            self.assertTrue(until(lambda: all(gone(pid) for pid in job.pids(2))))


class Output(unittest.TestCase):
    def test_lines_are_marked_with_the_rank(self):
        result = shell(3, "echo one; echo; printf 'no end'; echo wrong >&2", "--tag-output")
        self.assertEqual(sorted(result.stdout.splitlines()),
                         sorted(f"[{r}] {line}" for r in range(3) for line in ("one", "", "no end")))
        self.assertEqual(sorted(result.stderr.splitlines()), [f"[{r}] wrong" for r in range(3)])

    def test_lines_of_ranks_do_not_mix(self):
        program = "import os, sys\nfor _ in range(300): os.write(1, b'x' * 99); os.write(1, b'y' * 100 + b'\\n')"
        result = run("-n", "4", "--tag-output", "--", sys.executable, "-c", program)
        whole = "x" * 99 + "y" * 100
        self.assertEqual(sorted(result.stdout.splitlines()), [f"[{r}] {whole}" for r in range(4) for _ in range(300)])

    def test_a_long_line_is_broken_and_nothing_is_lost(self):
        result = run("-n", "1", "--tag-output", "--", sys.executable, "-c", "print('z' * 1000000)")
        self.assertEqual("".join(line[4:] for line in result.stdout.splitlines()), "z" * 1000000)
        self.assertGreater(result.stdout.count("\n"), 1)

    def test_files_instead_of_the_terminal_or_beside_it(self):
        for flags in ([], ["--tag-output"]):
            with self.subTest(flags), tempfile.TemporaryDirectory() as folder:
                inner = os.path.join(folder, "new", "folder")
                result = shell(2, "echo out $RANK; echo err $RANK >&2", "--output-dir", inner, *flags)
                self.assertEqual(sorted(result.stdout.splitlines()), ["[0] out 0", "[1] out 1"] if flags else [])
                self.assertEqual(sorted(result.stderr.splitlines()), ["[0] err 0", "[1] err 1"] if flags else [])
                texts = {name: read(inner, name) for name in os.listdir(inner)}
                self.assertEqual(texts, {f"rank-{r}.{end}": f"{end} {r}\n" for r in range(2) for end in ("out", "err")})

    def test_a_folder_that_cannot_be_made(self):
        with tempfile.NamedTemporaryFile() as file:
            result = shell(1, "true", "--output-dir", file.name + "/folder")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--output-dir", result.stderr)

    def test_a_reader_that_goes_away_ends_the_rank_like_any_writer(self):
        with subprocess.Popen([RONDO, "run", "-n", "1", "--tag-output", "--", "yes"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            self.assertEqual(job.stdout.readline(), "[0] y\n")
            job.stdout.close()
            self.assertEqual(job.wait(PATIENCE_S), 128 + signal.SIGPIPE)

    def test_what_cannot_be_passed_on_is_told(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([RONDO, "run", "-n", "1", "--tag-output", "--", "echo", "lost"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("could not be passed on: No space left on device", last_line(result))

    def test_what_a_child_holds_open_does_not_hold_the_job(self):
        result = shell(1, "sleep 60 & echo done", "--tag-output")
        self.assertEqual((result.returncode, result.stdout), (0, "[0] done\n"))


class Attempts(unittest.TestCase):
    def test_a_timeout_ends_the_job(self):
        result = shell(3, "sleep 60", "--timeout", "0.5")
        self.assertEqual(result.returncode, 124)
        self.assertEqual(result.stderr,
                         "rondo run: timed out after 0.5 s (--timeout): ranks 0, 1, 2 of 3 had not ended\n")

    def test_a_job_in_time(self):
        result = shell(2, "exit 0", "--timeout", "100")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_failed_job_is_started_again(self):
        script = ("echo $RONDO_RESTART_COUNT $RONDO_JOB_SECRET; "
                  "[ $RANK = 1 ] && [ $RONDO_RESTART_COUNT -lt 2 ] && exit 6")
        with tempfile.TemporaryDirectory() as folder:
            result = shell(2, script + "; exit 0", "--restart", "5", "--output-dir", folder)
            lines = [line.split() for line in read(folder, "rank-0.out").splitlines()]
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line[0] for line in lines], ["0", "1", "2"])
        self.assertEqual(len({line[1] for line in lines}), 3)
        self.assertEqual(result.stderr.count("exited with status 6"), result.stderr.count("rank 1"))
        self.assertEqual(last_line(result), "rondo run: starting the job again: attempt 3 of 6")

    def test_attempts_end(self):
        result = shell(1, "exit 8", "--restart", "2")
        self.assertEqual((result.returncode, result.stderr.count("starting the job again")), (8, 2))
        self.assertIn("exited with status 8", last_line(result))

    def test_a_signal_or_a_program_that_cannot_run_ends_it_for_good(self):
        with Started(1, "echo > $DIR/$$; exec sleep 60", "--restart", "3") as job:
            job.pids(1)
            job.process.send_signal(signal.SIGTERM)
            self.assertEqual(job.process.wait(PATIENCE_S), 128 + signal.SIGTERM)
            self.assertIn("killed by signal 15 (Terminated), passed on by rondo run", job.process.stderr.read())
        self.assertEqual(run("-n", "1", "--restart", "3", "--", "./no-such-program").stderr.count("\n"), 1)


class Hosts(unittest.TestCase):
    def test_each_host_has_its_ranks_of_the_job(self):
        names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RONDO_JOB_NAME",
                 "RONDO_JOB_SECRET"]
        lines = []
        for host in range(2):
            result = shell(2, "echo " + " ".join("$" + name for name in names), "--nnodes", "2", "--node-rank",
                           str(host), "--master-addr", "192.0.2.1", "--master-port", "4000",
                           env={**os.environ, "RONDO_JOB_SECRET": "mine"})
            lines += sorted(result.stdout.splitlines())
        rest = "4 2 192.0.2.1 4000 rondo-run-4000 mine"
        self.assertEqual(lines, [f"{rank} {rank % 2} {rest}" for rank in range(4)])

    def test_contradictions(self):
        whole = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "192.0.2.1", "--master-port", "4000"]
        for flags, word in ((["--node-rank", "0"], "--nnodes"), (["--master-addr", "::1"], "--nnodes"),
                            (whole[:2], "--node-rank"), (whole[:4], "--master-addr"), (whole[:6], "--master-port"),
                            (whole[:3] + ["2"] + whole[4:], "--node-rank 2 is none of"),
                            (whole + ["--restart", "1"], "--restart"), (["--master-port", "65536"], "--master-port"),
                            (["--nnodes", "65536"] + whole[2:], "65536 ranks")):
            with self.subTest(flags):
                result = run("-n", "2", *flags, "--", "true")
                self.assertEqual(result.returncode, 2)
                self.assertIn(word, result.stderr)


class Signals(unittest.TestCase):
    def test_they_are_forwarded_and_give_the_status(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), Started(3, "echo > $DIR/$$; exec sleep 60") as job:
                job.pids(3)
                time.sleep(0.05)  # the shells are becoming sleeps
                job.process.send_signal(number)
                self.assertEqual(job.process.wait(PATIENCE_S), 128 + number)

    def test_ranks_that_handle_them_end_as_they_like(self):
        with Started(2, "trap 'exit 0' TERM; echo > $DIR/$$; while :; do sleep 0.05; done") as job:
            job.pids(2)
            job.process.send_signal(signal.SIGTERM)
            self.assertEqual(job.process.wait(PATIENCE_S), 0)

    def test_nobody_survives_a_launcher_that_is_killed(self):
        # The ranks and the ranks' children, which do not even notice that their parents died.
        with Started(2, "trap '' HUP TERM INT; sleep 60 & echo > $DIR/$!; echo > $DIR/$$; wait; sleep 60") as job:
            pids = job.pids(4)
            job.process.kill()
            self.assertEqual(job.process.wait(PATIENCE_S), -signal.SIGKILL)
            self.assertTrue(until(lambda: all(gone(pid) for pid in pids)))


class Mistakes(unittest.TestCase):
    def test_usage(self):
        for arguments in (["-n", "0", "--", "true"], ["-n", "four", "--", "true"], ["-n", "-1", "--", "true"],
                          ["-n", "99999999999", "--", "true"], ["--", "true"], ["-n", "2"],
                          ["-n", "2", "--bind", "socket", "--", "true"], ["-n", "2", "--env", "NOVALUE", "--", "true"],
                          ["-n", "2", "--rank", "--", "true"], ["-n", "2", "--timeout", "-1", "--", "true"],
                          ["-n", "2", "--timeout", "soon", "--", "true"], ["-n", "2", "--restart", "-1", "--", "true"],
                          ["-n", "2", "--restart", "--", "true"]):
            with self.subTest(arguments):
                result = run(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertGreater(len(result.stderr), 10)

    def test_a_mistyped_option_is_named(self):
        self.assertIn("--bond", run("-n", "2", "--bond", "core", "--", "true").stderr)

    def test_a_program_that_is_not_there(self):
        for name in ("no-such-program", "./no-such-program", ""):
            result = run("-n", "2", "--", name)
            self.assertEqual(result.returncode, 127)
            self.assertIn(f"'{name}' was not found", result.stderr)

    def test_a_program_that_cannot_be_executed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program")
            with open(path, "w") as file:
                file.write("neither a script nor a program\n")
            os.chmod(path, 0o644)
            self.assertEqual(run("-n", "2", "--", folder).returncode, 126)
            result = run("-n", "2", "--", path)
            self.assertEqual(result.returncode, 126)
            self.assertIn("not marked executable", result.stderr)
            os.chmod(path, 0o755)
            result = run("-n", "2", "--", path)
            self.assertEqual(result.returncode, 126)
            self.assertIn("cannot be executed", result.stderr)


class Words(unittest.TestCase):
    """The command itself, without a job."""

    def rondo(self, *arguments, **options):
        return subprocess.run([RONDO, *arguments], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False,
                              **{"stdout": subprocess.PIPE, **options})

    def test_a_sub_command_that_there_is_not(self):
        result = self.rondo("rnu", "-n", "2", "--", "true")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("'rnu' is no sub-command; did you mean run?", result.stderr)
        result = self.rondo("nonsense")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "'nonsense' is no sub-command.  There are: .*doctor")

    def test_version_and_help(self):
        result = self.rondo("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^Rondo \d+\.\d+\.\d+\n$")
        self.assertEqual(self.rondo("help", "run").stdout, self.rondo("run", "--help").stdout)
        self.assertIn("doctor", self.rondo("help").stdout)

    def test_output_that_does_not_arrive(self):
        with open("/dev/full", "w") as full:
            result = self.rondo("info", stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write the standard output: No space left on device", result.stderr)


if __name__ == "__main__":
    RONDO = os.path.abspath(sys.argv.pop(1))
    unittest.main()
