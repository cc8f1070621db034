"""`rondo doctor` finds what is broken, names the ranks that differ, and is content where all is well.

Usage: test_doctor.py RONDO.  No speed is asserted.
"""
import json
import os
import subprocess
import sys
import unittest

RONDO = ""
PATIENCE_S = 100


def doctor(*command, **variables):
    """Runs a command that prints the doctor's JSON; (status, what it printed)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "RONDO_"))}
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                         check=False, env={**environment, **variables})
    try:
        return run.returncode, json.loads(run.stdout)
    except json.JSONDecodeError:
        raise AssertionError(f"no JSON: {run.stdout[-300:]!r} {run.stderr[-600:]!r}") from None


def here(*prefix, **variables):
    return doctor(*prefix, RONDO, "doctor", "--json", **variables)


def job(ranks, script="exec $RONDO doctor --json", **variables):
    return doctor(RONDO, "run", "-n", str(ranks), "--", "sh", "-c", script, RONDO=RONDO, **variables)


def found(report, level, subject):
    return [f for f in report["findings"] if f["level"] == level and f["subject"] == subject]


class Here(unittest.TestCase):
    def test_a_host_in_order(self):
        status, report = here()
        self.assertEqual((status, report["problems"]), (0, 0), report["findings"])
        self.assertTrue(found(report, "ok", "shared memory"))
        self.assertEqual(len(report["facts"]), 1)
        self.assertIn("lo", report["facts"][0]["interfaces"])

    def test_too_few_open_files(self):
        script = 'ulimit -n 40; if [ $RANK != 0 ]; then exec >/dev/null 2>&1; fi; exec $RONDO doctor --json'
        status, report = job(16, script, RONDO_TIMEOUT="3")
        self.assertEqual(status, 1)
        (finding,) = found(report, "problem", "limits")
        self.assertIn("40 open files", finding["what"])
        self.assertIn("takes 72,", finding["cause"])  # 9, 9 lines of 2, 15 peers of 3
        self.assertEqual("ulimit -n 144, before the launcher starts", finding["fix"])

    def test_variables_that_mean_nothing(self):
        status, report = here(NCCL_ALGOO="ring")
        self.assertEqual(status, 1)
        (finding,) = found(report, "problem", "variables")
        self.assertIn("NCCL_ALGO", finding["what"])

    def test_text(self):
        run = subprocess.run([RONDO, "doctor"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout.splitlines()[-1], r"^0 problems, \d+ notes$")

    def test_wrong_flags(self):
        run = subprocess.run([RONDO, "doctor", "--fix-it"], capture_output=True, text=True, timeout=PATIENCE_S,
                             check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--fix-it", run.stderr)


class Job(unittest.TestCase):
    def test_ranks_that_are_alike(self):
        status, report = job(3)
        self.assertEqual((status, report["problems"]), (0, 0), report["findings"])
        self.assertEqual([pair["ranks"] for pair in report["pairs"]], [[0, 1], [0, 2], [1, 2]])
        for pair in report["pairs"]:
            self.assertGreater(pair["latency_us"], 0)
            self.assertGreater(pair["GB_per_s"], 0)
        self.assertEqual({finding["of"] for finding in report["findings"]},
                         {f"ranks 0-2 on host {report['facts'][0]['host']}", "the job"})
        (joined,) = found(report, "ok", "job")
        self.assertIn("3 ranks found each other", joined["what"])

    def test_ranks_of_more_than_there_are_processors(self):
        _, report = job(os.cpu_count() + 1)
        (finding,) = found(report, "note", "processors")
        self.assertIn("share", finding["what"])

    def test_a_variable_that_differs(self):
        script = 'if [ $RANK = 1 ]; then export NCCL_DEBUG=WARN; fi; exec $RONDO doctor --json'
        status, report = job(3, script)
        self.assertEqual(report["problems"], 1)
        (finding,) = found(report, "problem", "job")
        self.assertEqual(finding["what"], "NCCL_DEBUG differs: (unset) on ranks 0, 2; WARN on rank 1")
        self.assertNotEqual(status, 0)

    def test_a_rank_that_does_not_come(self):
        script = 'if [ $RANK = 1 ]; then exec sleep 4; fi; exec $RONDO doctor --json'
        status, report = job(2, script, RONDO_TIMEOUT="2")
        self.assertNotEqual(status, 0)
        (finding,) = found(report, "problem", "job")
        self.assertIn("rank 1", finding["what"])


if __name__ == "__main__":
    RONDO = sys.argv.pop(1)
    unittest.main()
