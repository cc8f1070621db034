#!/usr/bin/env python3
"""Proves that every rule of tidy.py can fail: canaries, each of which must be reported, and a clean file that must not.

Also checks the two small programs behind tools/dev that read others' output, and that the pictures are current.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import tidy

HERE = os.path.dirname(os.path.abspath(__file__))
DEV = os.path.join(HERE, "..", "..", "tools", "dev.d")
PICTURES = os.path.join(HERE, "..", "..", "docs", "pictures")
OPEN = "// A file that opens with a paragraph which says what it is.\n"

# file, content, a piece of the line that tidy must print
CANARIES = [
    ("runtime/plan/a.cpp", OPEN + '#include "transport.h"\n', "direction: plan may not include runtime/transport.h"),
    ("runtime/plan/b.cpp", OPEN + "#include <sys/mman.h>\n", "direction: sys/mman.h: plans use only"),
    ("runtime/base/a.cpp", OPEN + '#include "plan/plan.h"\n', "direction: base may not include runtime/plan/plan.h"),
    ("transports/shm/a.cpp", OPEN + '#include "plan/plan.h"\n', "direction: shm may not include"),
    ("transports/simulated/a.cpp", OPEN + '#include "transports/shm/shm.h"\n', "direction: simulated may not include"),
    ("kernels/a.cpp", OPEN + '#include "transport.h"\n', "direction: kernels may not include"),
    ("runtime/executor.cpp", OPEN + '#include "communicator.h"\n', "direction: executor may not include"),
    ("runtime/communicator.cpp", OPEN + '#include "transports/shm/shm.h"\n',
     "direction: communicator may not include"),
    ("runtime/api.cpp", OPEN + '#include "executor.h"\n', "direction: api may not include"),
    ("perf/a.cpp", OPEN + '#include "plan/plan.h"\n', "direction: perf may not include"),
    ("tools/rondo/a.cpp", OPEN + '#include "base/env.h"\n', "direction: tools may not include"),
    ("tools/run/a.cpp", OPEN + '#include "plan/plan.h"\n', "direction: run tool may not include"),
    ("runtime/queue.cpp", OPEN + '#include "tests/helper.h"\n', "direction: tests/helper.h: nothing includes tests"),
    ("tools/a.py", '"""A tool of this repository."""\nsys.path.append(os.path.join(ROOT, "tests", "a"))\n',
     "direction: nothing includes tests"),
    ("runtime/group.cpp", OPEN + "#include <cuda_runtime.h>\n", "direction: cuda_runtime.h: CUDA and verbs"),
    ("tools/trainer/data/a.cpp", OPEN + "#include <ATen/ATen.h>\n", "direction: ATen/ATen.h: only the trainer"),
    ("runtime/lost.cpp", OPEN, "direction: belongs to no part"),
    ("runtime/api_a.cpp", OPEN + '#include "nowhere.h"\n', "direction: nowhere.h is no file"),
    ("kernels/long.cpp", OPEN + "// " + "x" * 118 + "\n", "length: 121 columns"),
    ("kernels/file.cpp", OPEN + "\n" * 600, "length: 601 lines"),
    ("kernels/function.cpp", OPEN + "void f() {\n" + "  g();\n" * 71 + "}\n", "warning: length: a function of 72"),
    ("kernels/opening.cpp", "#include <string>\n", "opening: does not open"),
    ("kernels/short.cpp", "// Kernels.\n", "opening: does not open"),
    ("tests/opening.py", "#!/usr/bin/env python3\nimport os\n", "opening: does not open"),
    ("kernels/blank.cpp", OPEN + "int x; \n", "blank: trailing"),
    ("kernels/tab.cpp", OPEN + "\tint x;\n", "blank: a tab"),
    ("docs/path.md", "See /wo" + "rk/main.\n", "machine: a path of one machine"),
    ("runtime/api_b.cpp", OPEN + 'const char* p = "/t' + 'mp/socket";\n', "machine: a fixed path"),
    ("kernels/note.cpp", OPEN + "// TO" + "DO: later\n", "unfinished: a note"),
    ("kernels/macro.cpp", OPEN + "#define TWICE(x) ((x) + (x))\n", "macro: TWICE"),
    ("kernels/word.cpp", OPEN + "int chunk_bytes;\n", "word: 'chunk' is called"),
    ("kernels/static.cpp", OPEN + "  static const std::vector<int> table = {1};\n", "static: destroyed at exit"),
    ("kernels/case.cpp", OPEN + "struct wrong_case {};\n", "warning: case: types"),
    ("plans/a.md", "A room that does not exist.\n", "rooms: not an entry"),
    ("docs/verb.md", "Run `tools/dev dance`.\n", "documents: `tools/dev dance` does not exist"),
    ("docs/link.md", "See [there](nowhere.md).\n", "documents: links to nowhere.md"),
    ("README.md", "```c\nint main(void) { return 1; }\n```\n", "documents: its C program is not the one"),
]
CLEAN = {
    "runtime/plan/plan.h": OPEN + '#include <vector>\n#include "base/types.h"\n',
    "runtime/base/types.h": OPEN + "#include <cstdint>\n",
    "runtime/transport.h": OPEN + '#include "base/types.h"\n',
    "runtime/communicator.h": OPEN,
    "runtime/executor.h": OPEN + '#include "plan/plan.h"\n#include "transport.h"\n',
    "runtime/base/env.h": OPEN,
    "transports/shm/shm.h": OPEN + '#include "transport.h"\n',
    "tests/helper.h": OPEN + '#include "communicator.h"\n#define HELP 1\n',
    "tools/dev": "#!/usr/bin/env bash\n# A command that opens with a paragraph.\nverb_test() {\n  true\n}\n"
                 "verb_test-all() {\n  true\n}\n",
    "docs/examples/first.c": "/* A program that opens with a comment of its own. */\nint main(void) { return 0; }\n",
    "docs/good.md": "Run `tools/dev test` or `tools/dev test-all`, see [the plan](../runtime/plan/plan.h).\n",
}


def write(root, files):
    for path, text in files.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


def git(root, *arguments):
    subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True)


class Tidy(unittest.TestCase):
    def report(self, files):
        with tempfile.TemporaryDirectory() as root:
            write(root, {**CLEAN, **files})
            git(root, "init", "-q")
            git(root, "add", "-A")
            return tidy.check(root)

    def test_clean_files_pass(self):
        report = self.report({})
        self.assertEqual(report.violations + report.warnings, [])

    def test_every_canary_is_reported(self):
        report = self.report({path: text for path, text, _ in CANARIES})
        lines = report.violations + report.warnings
        for path, _, expected in CANARIES:
            place = path.split("/")[0] if expected.startswith("rooms") else path
            with self.subTest(canary=path):
                self.assertTrue(any(line.startswith(place + ":") and expected in line for line in lines),
                                f"{path}: nothing said '{expected}'; said: " +
                                "; ".join(line for line in lines if line.startswith(place)))

    def test_a_strangers_file_does_not_fail(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, CLEAN)
            git(root, "init", "-q")
            git(root, "add", "-A")
            write(root, {"notes.txt": "mine\n"})
            self.assertEqual(tidy.check(root).violations, [])


class CountTests(unittest.TestCase):
    def count(self, *records):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("".join(json.dumps({"name": "t", **record}) + "\n" for record in records))
            file.flush()
            run = subprocess.run([sys.executable, os.path.join(DEV, "count_tests.py"), file.name],
                                 capture_output=True, text=True, check=False)
        return run.stdout.splitlines()[-1], run.returncode, run.stdout

    def test_counts_cases(self):
        catch = {"result": "OK", "stdout": "=====\nAll tests passed (5 assertions in 3 test cases)\n\n"}
        unit = {"result": "OK", "stderr": "Ran 4 tests in 0.1s\n\nOK (skipped=1)\n", "stdout": "skipped: no MPI\n"}
        plain = {"result": "OK", "stdout": ""}
        self.assertEqual(self.count(catch, unit, plain)[:2], ("7 passed, 0 failed, 1 skipped", 0))
        self.assertIn("no MPI", self.count(unit)[2])

    def test_a_failure_fails(self):
        text = "test cases: 5 | 3 passed | 2 failed\nassertions: 9 | 7 passed | 2 failed\n"
        self.assertEqual(self.count({"result": "FAIL", "stdout": text})[:2], ("3 passed, 2 failed, 0 skipped", 1))
        killed = {"result": "TIMEOUT", "stdout": "All tests passed (5 assertions in 3 test cases)\n"}
        self.assertEqual(self.count(killed)[:2], ("3 passed, 1 failed, 0 skipped", 1))

    def test_the_end_of_a_failed_programs_words_comes_again(self):
        record = {"result": "FAIL", "stdout": "first\n" + "more\n" * 98, "stderr": "what went wrong\n"}
        words = self.count(record, {"result": "OK", "stdout": "all is well\n"})[2]
        self.assertIn("  (40 lines before)\n  more\n", words)
        self.assertIn("  what went wrong\n", words)
        for absent in ("first", "all is well"):
            self.assertNotIn(absent, words)

    def test_nothing_run_fails(self):
        self.assertEqual(self.count()[:2], ("0 passed, 0 failed, 0 skipped", 1))
        self.assertEqual(self.count({"result": "SKIP", "stdout": "skipped: no GPU\n"})[:2],
                         ("0 passed, 0 failed, 1 skipped", 1))


class DemoLine(unittest.TestCase):
    TABLE = """# nccl-tests
#  Rank  0 Group  0 Pid 1
#  Rank  1 Group  0 Pid 2
           8             2     float     sum      -1     0.31    0.03    0.03       0     0.28    0.03    0.03       0
     2097152        524288     float     sum      -1    96.40   21.75   21.75       0    90.10   23.28   23.28       0
# Out of bounds values : 0 OK
"""

    def demo(self, text):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            return subprocess.run([sys.executable, os.path.join(DEV, "demo_line.py"), file.name],
                                  capture_output=True, text=True, check=False)

    def test_says_what_was_measured(self):
        run = self.demo(self.TABLE)
        self.assertEqual(run.returncode, 0)
        for piece in ("2 processes", "8 B in 0.28 us", "23.28 GB/s", "2 MiB", "0 wrong"):
            self.assertIn(piece, run.stdout)

    def test_wrong_values_and_no_table_fail(self):
        self.assertEqual(self.demo(self.TABLE.replace("0.03       0\n", "0.03       7\n")).returncode, 1)
        self.assertEqual(self.demo("nothing\n").returncode, 1)


class Pictures(unittest.TestCase):
    def test_are_what_the_script_draws(self):
        sys.path.insert(0, PICTURES)
        import draw
        for name, picture in draw.PICTURES.items():
            with open(os.path.join(PICTURES, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), picture(), f"run docs/pictures/draw.py: {name} is not current")


if __name__ == "__main__":
    unittest.main()
