"""The README's first program, compiled against the built library."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def compile_first(library, sanitize, folder):
    """The path of the program in `folder`.  `sanitize`: what the library was built with, or "none"."""
    flags = [] if sanitize == "none" else ["-fsanitize=" + sanitize]
    source, program = os.path.join(ROOT, "docs", "examples", "first.c"), os.path.join(folder, "first")
    home = os.path.dirname(library)
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags, "-I" + os.path.join(ROOT, "runtime"),
                    source, "-o", program, "-L" + home, "-lrondo", "-Wl,-rpath," + home], check=True)
    return program


def sums(ranks):
    """What the ranks print, sorted."""
    total = ranks * (ranks - 1) // 2
    return [f"rank {rank} of {ranks}: the sum is {total}" for rank in range(ranks)]
