"""The first program of the README (of docs/examples, while the README has none) compiles as C11 and runs on 4 ranks.

Usage: test_first.py RONDO LIBRARY SANITIZE.  The library is the built librondo.so; SANITIZE is what it was built with
("none", "address,undefined", ...), which a program must be too.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RONDO = LIBRARY = ""
FLAGS = []


def first_program():
    readme = os.path.join(ROOT, "README.md")
    if os.path.exists(readme):
        with open(readme) as file:
            block = re.search(r"^```c\n(.*?)^```", file.read(), re.M | re.S)
        if block:
            return block.group(1)
    with open(os.path.join(ROOT, "docs", "examples", "first.c")) as file:
        return file.read()


class First(unittest.TestCase):
    def test_it_compiles_and_all_ranks_print_the_sum(self):
        folder = os.path.dirname(LIBRARY)
        with tempfile.TemporaryDirectory() as work:
            source, program = os.path.join(work, "first.c"), os.path.join(work, "first")
            with open(source, "w") as file:
                file.write(first_program())
            headers = os.path.join(ROOT, "runtime")
            subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", *FLAGS, "-I" + headers, source, "-o",
                            program, "-L" + folder, "-lrondo", "-Wl,-rpath," + folder], check=True)
            result = subprocess.run([RONDO, "run", "-n", "4", "--", program], capture_output=True, text=True,
                                    timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(sorted(result.stdout.splitlines()), [f"rank {r} of 4: the sum is 6" for r in range(4)])


if __name__ == "__main__":
    sanitize = sys.argv.pop(3)
    FLAGS = [] if sanitize == "none" else ["-fsanitize=" + sanitize]
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    RONDO = os.path.abspath(sys.argv.pop(1))
    unittest.main()
