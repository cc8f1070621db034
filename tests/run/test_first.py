"""The README's first program is the one of docs/examples, compiles as C11, and runs on 4 ranks.

Usage: test_first.py RONDO LIBRARY SANITIZE.  The library is the built librondo.so; SANITIZE is what it was built with
("none", "address,undefined", ...), which a program must be too.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import program

RONDO = LIBRARY = SANITIZE = ""


def read(*path):
    with open(os.path.join(program.ROOT, *path)) as file:
        return file.read()


class First(unittest.TestCase):
    def test_the_readme_shows_it(self):
        block = re.search(r"^```c\n(.*?)^```", read("README.md"), re.M | re.S)
        self.assertEqual(block.group(1), read("docs", "examples", "first.c"))

    def test_it_compiles_and_all_ranks_print_the_sum(self):
        with tempfile.TemporaryDirectory() as work:
            first = program.compile_first(LIBRARY, SANITIZE, work)
            result = subprocess.run([RONDO, "run", "-n", "4", "--", first], capture_output=True, text=True,
                                    timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(sorted(result.stdout.splitlines()), program.sums(4))


if __name__ == "__main__":
    SANITIZE = sys.argv.pop(3)
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    RONDO = os.path.abspath(sys.argv.pop(1))
    unittest.main()
