#!/usr/bin/env python3
"""Counts what several `meson test` runs did and prints one last line: `N passed, N failed, N skipped`.

Arguments are Meson's testlog.json files, one JSON object a line for each test program.  Where a program's own summary
says how many cases it ran (Catch2, Python's unittest) the cases count, else the program counts as one.  A program that
failed, crashed or was killed for its time counts at least one failure, whatever its summary says; the end of its output
is printed once more, for who reads only the last lines.  A skip is listed with its reason.  Ends with status 1 if
anything failed or nothing ran.
"""
import argparse
import json
import re
import sys


def cases(text):
    """(passed, failed, skipped) by the program's own summary, or None where it printed none."""
    if found := re.findall(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", text, re.M):
        return sum(map(int, found)), 0, 0
    if found := re.findall(r"^test cases:\s*(\d+)\b(.*)$", text, re.M):
        total = sum(int(count) for count, _ in found)
        failed = sum(map(int, re.findall(r"(\d+) failed", " ".join(rest for _, rest in found))))
        return total - failed, failed, 0
    if found := re.search(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(.*)$", text, re.M):
        bad = sum(map(int, re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", found[2])))
        skipped = sum(map(int, re.findall(r"skipped=(\d+)", found[2])))
        return int(found[1]) - bad - skipped, bad, skipped
    return None


def reasons(record):
    """Why cases of a program were skipped: the lines that say so, else its last line."""
    text = record.get("stdout", "") + record.get("stderr", "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line for line in lines if re.search(r"skip", line, re.I)][:8] or lines[-1:] or ["no reason given"]


def last_words(record, lines_max=60):
    """The end of a program's output, indented."""
    lines = (record.get("stdout", "") + record.get("stderr", "")).splitlines()
    left_out = [f"({len(lines) - lines_max} lines before)"] if len(lines) > lines_max else []
    return "\n".join("  " + line for line in left_out + lines[-lines_max:])


def count(record):
    """(passed, failed, skipped) of one line of a testlog.json."""
    result = record["result"]
    if result == "SKIP":
        return 0, 0, 1
    passed, failed, skipped = cases(record.get("stdout", "") + "\n" + record.get("stderr", "")) or (0, 0, 0)
    if result in ("OK", "EXPECTEDFAIL"):
        return (passed, 0, skipped) if passed + skipped else (1, 0, 0)
    return passed, max(failed, 1), skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broken", default="", help="what could not run at all, each counted as one failure")
    parser.add_argument("logs", nargs="*")
    arguments = parser.parse_args()
    total = [0, 0, 0]
    for build in arguments.broken.split():
        print(f"failed: {build} could not be built or run")
        total[1] += 1
    for log in arguments.logs:
        folder = log.split("/")[0]
        with open(log, encoding="utf-8", errors="replace") as file:
            records = [json.loads(line) for line in file if line.strip()]
        for record in records:
            counts = count(record)
            total = [sum(pair) for pair in zip(total, counts)]
            if counts[1]:
                print(f"failed: {record['name']} in {folder}/ ({record['result']})")
                print(last_words(record))
            if counts[2]:
                for reason in reasons(record):
                    print(f"skipped: {record['name']} in {folder}/: {reason}")
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
