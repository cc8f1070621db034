#!/usr/bin/env python3
"""Prints one line that says what a run of all_reduce_perf measured, taken from the table it printed.

The argument is a file that holds the output.  Ends with status 1 if there is no table in it or a value was wrong.
"""
import re
import sys


def human(size):
    """8 -> '8 B', 2097152 -> '2 MiB'."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or size % 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def processor():
    """The name of the processor, and how many of them this process may use."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.M)
    return f"{len(names)} x {names[0]}" if names else "a processor without a name"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    row = re.compile(r"\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s")
    rows = [line.split() for line in text.splitlines() if row.match(line)]
    ranks = len(re.findall(r"^#\s+Rank\s+\d+", text, re.M))
    if not rows:
        print("the run printed no table")
        return 1
    # size count type redop root, then time algbw busbw wrong out of place, then the same in place.
    first = rows[0]
    peak = max(rows, key=lambda row: float(row[11]))
    wrong = sum(int(row[8]) + int(row[12]) for row in rows)
    print(f"Measured: {first[2]} {first[3]} all-reduce over {ranks} processes through shared memory, in place: "
          f"{human(int(first[0]))} in {float(first[9]):g} us, at most {float(peak[11]):g} GB/s bus bandwidth "
          f"(at {human(int(peak[0]))}), {wrong} wrong values; {processor()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
