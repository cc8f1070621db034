#!/usr/bin/env python3
"""Checks what a machine can check of the house's form: direction of includes, sizes, openings, words, documents.

`tidy.py [--root FOLDER]` prints one line a violation, `file:line: rule: sentence`, and ends with status 1 if there
was one.  Warnings (functions too long, names in the wrong case) are printed and do not fail.  It reads the tracked
files and those that git does not ignore; without git, every file but build folders.  `test_tidy.py` proves that each
rule can fail.  What the rules mean: docs/style.md and docs/architecture.md.
"""
import argparse
import os
import re
import subprocess
import sys

import directions

SOURCE = (".h", ".cpp", ".c", ".py", ".sh")
CXX = (".h", ".cpp", ".c")
TOP_LEVEL = {"meson.build", "meson_options.txt", "runtime", "transports", "kernels", "tools", "tests", "perf", "docs",
             "LICENSE", "README.md", "CONTRIBUTING.md"}
LINE_MAX = 120
FILE_MAX = 600
FUNCTION_MAX = 70
OPENING_MIN = 20  # characters of an opening that says something

# Macros: assertions, the public C header's constants, and switches that libraries read before they are included.
MACRO_FILES = {"runtime/nccl.h", "runtime/rondo.h"}
MACRO_NAMES = re.compile(r"RONDO_(ASSERT\w*|CHECK\w*)$|(HWY|ASIO|CLI11|SPDLOG|FMT|CATCH|JSON)_\w+$|_GNU_SOURCE$")

# Words that have another name here.  NCCL's own words stay where its interface demands them.
WORDS = {
    "chunk": "slice, tile or block",
    "src": "source",
    "dst": "target",
    "buf": "buffer",
}
WORD_FREE = {"runtime/nccl.h", "runtime/rondo.h", "runtime/base/env.cpp"}
WORD_ROOMS = ("runtime/", "transports/", "kernels/", "tools/")


class Report:
    """Collects violations and warnings."""

    def __init__(self):
        self.violations = []
        self.warnings = []

    def fail(self, path, line, rule, sentence):
        self.violations.append(f"{path}:{line}: {rule}: {sentence}")

    def warn(self, path, line, rule, sentence):
        self.warnings.append(f"{path}:{line}: warning: {rule}: {sentence}")


def files_of(root):
    """(files to check, top-level entries that the repository holds)."""
    def git(*arguments):
        command = ["git", "-C", root, "ls-files", "-z", *arguments]
        output = subprocess.run(command, check=True, capture_output=True).stdout
        return [name for name in output.decode().split("\0") if name]
    try:
        tracked = git()
        every = git("--cached", "--others", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError):
        tracked = every = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not re.match(r"build|\.git$|__pycache__$", name)]
            every += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    every = sorted({name for name in every if os.path.isfile(os.path.join(root, name))})
    return every, sorted({name.split("/")[0] for name in tracked})


def is_script(path, text):
    return text.startswith("#!") or path.endswith((".py", ".sh"))


def check_text(report, path, lines):
    """Rules for every text file: blanks, places of one machine, notes to oneself."""
    in_tests = path.startswith("tests/")
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            report.fail(path, number, "blank", "trailing white space")
        if "\t" in line:
            report.fail(path, number, "blank", "a tab; indent with spaces")
        if re.search(r"(^|[^\w.$/}-])/(work|farm|home|root)/", line):
            report.fail(path, number, "machine", "a path of one machine")
        if not in_tests and re.search(r"(^|[^\w.$/}-])/tmp/", line):
            report.fail(path, number, "machine", "a fixed path under /" + "tmp; ask for a temporary folder")
        if re.search(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", line):
            report.fail(path, number, "unfinished", "a note to oneself: do it, or file an issue")


def check_imports(report, path, lines):
    """Python of other rooms takes nothing from tests/: what both need is in tools/."""
    for number, line in enumerate(lines, 1):
        if not path.startswith("tests/") and re.search(r"\bsys\.path\b.*\btests\b|^\s*(from|import) tests\b", line):
            report.fail(path, number, "direction", "nothing includes tests")


def opening(path, lines):
    """The text of the comment that opens a file, or an empty string."""
    rest = [line for line in lines if line.strip()]
    if rest and rest[0].startswith("#!"):
        rest = rest[1:]
    if not rest:
        return ""
    text = "\n".join(rest)
    if path.endswith(CXX):
        found = re.match(r"/\*(.*?)\*/", text, re.S) or re.match(r"((?://[^\n]*\n?)+)", text)
    elif text.startswith('"""'):
        found = re.match(r'"""(.*?)"""', text, re.S)
    else:
        found = re.match(r"((?:#[^\n]*\n?)+)", text)
    return re.sub(r"[/#*\s]+", " ", found[1]).strip() if found else ""


def check_source(report, path, lines):
    """Rules for source: sizes and the opening paragraph."""
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX:
            report.fail(path, number, "length", f"{len(line)} columns; at most {LINE_MAX}")
    if len(lines) > FILE_MAX:
        report.fail(path, len(lines), "length", f"{len(lines)} lines; at most {FILE_MAX}: one idea a file")
    if len(opening(path, lines)) < OPENING_MIN:
        report.fail(path, 1, "opening", "does not open with a paragraph that says what the file is")


def check_functions(report, path, lines):
    """Warns about long functions.  The layout that .clang-format gives makes them visible without a parser."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            if re.match(r" ?[^\s/#}].*\(.*\{$|  [^\s/#}].*\(.*\) (const |noexcept |override |final )*\{$", line) and \
                    not re.match(r"\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|do|else)\b", line):
                start = (number, len(line) - len(line.lstrip()))
        elif re.match(r" {%d}\}" % start[1], line):
            if number - start[0] > FUNCTION_MAX:
                report.warn(path, start[0], "length", f"a function of {number - start[0]} lines; about {FUNCTION_MAX}")
            start = None


def check_words(report, path, lines):
    """Words of the glossary, macros, and the case of names, in C and C++."""
    for number, line in enumerate(lines, 1):
        if (found := re.match(r"\s*#\s*define\s+(\w+)", line)) and path not in MACRO_FILES:
            if not path.startswith("tests/") and not MACRO_NAMES.match(found[1]):
                report.fail(path, number, "macro", f"{found[1]}: macros are for assertions only")
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        if path.startswith(WORD_ROOMS) and path not in WORD_FREE:
            for word in re.findall(r"[A-Za-z]+", code.replace("_", " ")):
                if word.lower().rstrip("s") in WORDS or word.lower() in WORDS:
                    better = WORDS.get(word.lower()) or WORDS[word.lower().rstrip("s")]
                    report.fail(path, number, "word", f"'{word}' is called {better} here")
        code = code.split("//")[0]
        if path.startswith(("runtime/", "transports/", "kernels/")) and \
                re.match(r"\s*static (const )?std::(string|vector|map|set|list|function|\w+_ptr)\b[^&(]*[={;]", code):
            report.fail(path, number, "static", "destroyed at exit while threads run: make it a reference to a new one")
        if re.match(r"\s*(class|struct|enum class|enum)\s+(alignas\(.*?\)\s*)?[a-z]\w*\s*[:{]", code) and \
                path not in MACRO_FILES and not re.search(r"\b(p?nccl|rondo|hash\b|less\b|formatter\b)", code):
            report.warn(path, number, "case", "types are TitleCase")


def check_top_level(report, entries):
    for name in entries:
        if name not in TOP_LEVEL and not name.startswith("."):
            report.fail(name, 1, "rooms", "not an entry of the top level; the rooms are in docs/architecture.md")


def check_documents(report, root, files, texts):
    """Documents name verbs and files that exist, and README's C program is the tested one."""
    verbs = set(re.findall(r"^verb_([a-z-]+)\(\)", texts.get("tools/dev", ""), re.M))
    for path in files:
        if not (path.endswith(".md") or path == ".ci/run"):
            continue
        for number, line in enumerate(texts[path].splitlines(), 1):
            for verb in re.findall(r"tools/dev ([a-z]+(?:-[a-z]+)*)\b", line):
                if verb not in verbs:
                    report.fail(path, number, "documents", f"`tools/dev {verb}` does not exist")
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line):
                if not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
                    report.fail(path, number, "documents", f"links to {target}, which does not exist")
    program = re.search(r"```c\n(.*?)```", texts.get("README.md", ""), re.S)
    if program and "docs/examples/first.c" in texts:
        example = texts["docs/examples/first.c"]
        if program[1].strip() not in example:
            report.fail("README.md", 1, "documents", "its C program is not the one of docs/examples/first.c")


def check(root):
    """Runs every rule on the repository at `root`; a Report."""
    report = Report()
    files, top_level = files_of(root)
    texts = {}
    for path in files:
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                texts[path] = file.read()
        except UnicodeDecodeError:
            report.fail(path, 1, "text", "not UTF-8 text: only source belongs here")
    for path, text in texts.items():
        lines = text.splitlines()
        if path == "LICENSE":
            continue
        if not path.endswith(".svg"):
            check_text(report, path, lines)
        if path.endswith(SOURCE) or is_script(path, text):
            check_source(report, path, lines)
        if path.endswith(".py"):
            check_imports(report, path, lines)
        if path.endswith("meson.build"):
            for number, line in enumerate(lines, 1):
                if len(line) > LINE_MAX:
                    report.fail(path, number, "length", f"{len(line)} columns; at most {LINE_MAX}")
        if path.endswith(CXX):
            check_functions(report, path, lines)
            check_words(report, path, lines)
            for number, sentence in directions.violations(path, lines, set(files)):
                report.fail(path, number, "direction", sentence)
    check_top_level(report, top_level)
    check_documents(report, root, [path for path in files if path in texts], texts)
    return report


def main():
    parser = argparse.ArgumentParser(description="Checks the form of the repository.")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    report = check(os.path.normpath(parser.parse_args().root))
    print("\n".join(report.warnings + report.violations + [f"{len(report.violations)} violations, "
                                                            f"{len(report.warnings)} warnings"]))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
