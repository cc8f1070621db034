#!/usr/bin/env python3
"""Draws every schedule's plan, and the table of the cost model, by `rondo plan`, for docs/algorithms.md.

Usage: schedules.py RONDO.  Writes plan_*.svg and fastest.svg beside itself, and replaces the part of algorithms.md
behind the line that says so.  Run it after changing a schedule, the drawing or the cost model.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, os.pardir, "algorithms.md")
MARK = "<!-- What follows is written by docs/pictures/schedules.py -->\n"
PLANS = {"all_reduce": ["one_shot", "one_shot_pull", "two_shot", "two_shot_pull", "ring", "tree", "recursive_doubling",
                        "halving_doubling", "hierarchical", "chain", "star"],
         "reduce_scatter": ["direct", "ring", "halving_doubling", "pat"],
         "all_gather": ["direct", "ring", "halving_doubling", "pat"],
         "broadcast": ["direct", "binomial", "chain"], "reduce": ["binomial", "two_shot", "chain"],
         "gather": ["direct", "binomial"], "scatter": ["direct", "binomial"], "all_to_all": ["direct", "bruck"],
         "send_recv": ["send", "lend"]}


def main():
    rondo = sys.argv[1]
    for collective, names in PLANS.items():
        for name in names:
            shape = ["--hosts", "2,2"] if name == "hierarchical" else ["-n", "4"]
            picture = os.path.join(HERE, f"plan_{collective}_{name}.svg")
            subprocess.run([rondo, "plan", collective, name, *shape, "--svg", picture], check=True,
                           stdout=subprocess.DEVNULL)
    if "--plans-only" in sys.argv:
        return
    table = subprocess.run([rondo, "plan", "--table", "--svg", os.path.join(HERE, "fastest.svg")], check=True,
                           capture_output=True, text=True).stdout
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write(text[:text.index(MARK) + len(MARK)] + "\n" + table)


if __name__ == "__main__":
    main()
