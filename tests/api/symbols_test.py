#!/usr/bin/env python3
"""What the libraries export and need: exactly NCCL's names of symbols.txt, weak, with strong twins; the C and C++
runtime and nothing else; and that a program which wants every symbol at once can load them."""
import ctypes
import os
import re
import subprocess
import sys
import unittest

NEEDED = re.compile(r"lib(c|m|stdc\+\+|gcc_s)\.so\.\d+$|ld-linux-[\w-]+\.so\.\d+$")
SANITIZERS = re.compile(r"lib(asan|tsan|ubsan|lsan)\.so")
RONDO, NCCL = sys.argv[1:3]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "symbols.txt"), encoding="utf-8") as file:
    NAMES = file.read().split()


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    """name -> (kind, address) of the dynamic symbols that a library defines."""
    rows = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    return {name.split("@")[0]: (kind, address) for address, kind, name in rows}


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))


class Symbols(unittest.TestCase):
    def test_names(self):
        for library, own in ((NCCL, False), (RONDO, True)):
            symbols = exported(library)
            nccl = {name for name in symbols if not name.startswith("rondo")}
            self.assertEqual(nccl, set(NAMES) | {"p" + name for name in NAMES}, library)
            self.assertEqual(bool(set(symbols) - nccl), own, library)
            for name in NAMES:
                self.assertEqual(symbols[name][0], "W", name)
                self.assertEqual(symbols["p" + name][0], "T", name)
                self.assertEqual(symbols[name][1], symbols["p" + name][1], name)

    def test_needed(self):
        for library in (RONDO, NCCL):
            for name in needed(library):
                self.assertTrue(NEEDED.match(name) or SANITIZERS.match(name), f"{library} needs {name}")

    def test_soname(self):
        self.assertIn("[libnccl.so.2]", run("readelf", "-d", NCCL))

    def test_load_at_once(self):
        if any(SANITIZERS.match(name) for name in needed(NCCL)):
            self.skipTest("a sanitizer must be loaded before Python")
        library = ctypes.CDLL(NCCL, mode=os.RTLD_NOW)
        version = ctypes.c_int()
        self.assertEqual(library.ncclGetVersion(ctypes.byref(version)), 0)
        self.assertEqual(version.value, int(os.environ.get("RONDO_NCCL_VERSION", "22809")))
        for name in NAMES:
            self.assertTrue(getattr(library, name))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
