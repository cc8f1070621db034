#!/usr/bin/env python3
"""Draws the pictures of docs/architecture.md: rooms.svg (who may include whom) and ring.svg (ring all-reduce).

Run it after changing it; a test checks that the pictures beside it are what it draws.  Plans of any size are drawn by
`rondo plan --svg` instead.
"""
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
INK, FAINT, PAPER = "#1f2933", "#7b8794", "#ffffff"
HUES = ("#2f6fb3", "#c2571a", "#2e8540", "#8a4fa3")  # blocks a b c d


class Picture:
    """Collects SVG elements."""

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="Helvetica, Arial, sans-serif">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{FAINT}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        ]

    def text(self, x, y, words, size=13, fill=INK, anchor="middle", weight="normal"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{words}</text>')

    def box(self, x, y, width, height, fill, stroke=INK):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" '
                          f'stroke="{stroke}"/>')

    def bar(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>')

    def arrow(self, *points, dash=False):
        path = " L".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{FAINT}" stroke-width="1.5" marker-end="url(#tip)"'
                          + (' stroke-dasharray="4 3"' if dash else "") + "/>")

    def save(self):
        return "\n".join(self.parts + ["</svg>", ""])


def rooms():
    """The rooms, users on top, what everybody uses below; an arrow reads "includes"."""
    picture = Picture(860, 560, "The rooms of Rondo and the direction of includes")

    def room(x, y, width, height, name, words, fill):
        picture.box(x, y, width, height, fill)
        picture.text(x + width / 2, y + 21, name, 14, weight="bold")
        for number, line in enumerate(words):
            picture.text(x + width / 2, y + 39 + 15 * number, line, 11.5, FAINT if fill == PAPER else INK)

    user, border, core, interface, concrete = "#eef2f7", "#dbe7f5", "#cfe6d4", "#fdf0d0", "#f6dccb"
    room(40, 20, 200, 52, "your program", ["also PyTorch, by NCCL's names"], user)
    room(270, 20, 150, 52, "perf/", ["measures"], user)
    room(440, 20, 160, 52, "tools/", ["rondo run, plan, info"], user)
    room(40, 112, 560, 36, "nccl.h, rondo.h", [], border)
    room(40, 184, 560, 52, "api, group, queue", ["the border: checks, catches, translates"], border)
    room(40, 272, 250, 52, "assembly", ["alone names transports and kernels"], core)
    room(350, 272, 250, 52, "communicator", ["links, plan cache, call order, failure"], core)
    room(350, 360, 130, 62, "executor", ["the only loop", "that moves data"], core)
    room(490, 360, 110, 62, "control", ["set-up, deaths,", "never user data"], core)
    room(350, 458, 250, 38, "plan/, transport.h, reducer.h", [], interface)
    room(40, 360, 120, 62, "transports/", ["shm, tcp, simulated", "(verbs later)"], concrete)
    room(180, 360, 110, 62, "kernels/", ["SIMD reducers"], concrete)
    room(40, 516, 560, 30, "base/", [], interface)
    for x in (140, 345, 520):
        picture.arrow((x, 72), (x, 110))
    picture.arrow((320, 184), (320, 150))
    picture.arrow((165, 236), (165, 270))
    picture.arrow((475, 236), (475, 270))
    picture.arrow((290, 298), (348, 298))
    picture.arrow((100, 324), (100, 358))
    picture.arrow((235, 324), (235, 358))
    picture.arrow((415, 324), (415, 358))
    picture.arrow((550, 324), (550, 358))
    picture.arrow((415, 422), (415, 456))
    picture.arrow((550, 422), (550, 456))
    picture.arrow((100, 422), (100, 470), (348, 470))
    picture.arrow((235, 422), (235, 484), (348, 484))
    picture.arrow((475, 496), (475, 514))
    notes = ["An arrow reads: includes.", "",
             "plan/ sees only the standard", "library and base/.", "",
             "transports/ and kernels/ see", "neither plan/ nor each other:", "only the interface they fill.", "",
             "perf/ and tools/ see only the", "public headers.  Exceptions are", "named in tests/tidy/directions.py:",
             "the plan tool and the benchmarks", "of links and reducers.", "",
             "Nothing includes tests/."]
    for number, line in enumerate(notes):
        picture.text(630, 40 + 16 * number, line, 12.5, anchor="start", weight="normal" if number else "bold")
    return picture.save()


def ring():
    """Four ranks, four blocks.  A square is a block at a rank; its filling, how many ranks' parts are in the sum."""
    ranks, cell, gap = 4, 26, 4
    picture = Picture(960, 520, "Ring all-reduce over four ranks")
    picture.text(120, 34, "The ring", 15, weight="bold")
    middle, radius = (120, 140), 66
    places = [(middle[0] + radius * math.sin(k * math.pi / 2), middle[1] - radius * math.cos(k * math.pi / 2))
              for k in range(ranks)]
    for k, (x, y) in enumerate(places):
        to = places[(k + 1) % ranks]
        length = math.dist((x, y), to)
        unit = ((to[0] - x) / length, (to[1] - y) / length)
        picture.arrow((x + 25 * unit[0], y + 25 * unit[1]), (to[0] - 25 * unit[0], to[1] - 25 * unit[1]))
    for k, (x, y) in enumerate(places):
        picture.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="22" fill="{PAPER}" stroke="{INK}"/>')
        picture.text(x, y + 5, f"{k}", 15, weight="bold")
    words = ["A rank talks to two neighbours.", "Each link carries 2(n-1)/n of the", "buffer, whatever n is.", "",
             "A square is a block at a rank.", "Its filling: how many of the four", "ranks' parts its sum holds.", "",
             "Outlined: sent in the next step.", "", "Partial sums travel; they are",
             "not stored.  Only complete blocks", "enter the result, so all ranks", "hold equal bits."]
    for number, line in enumerate(words):
        picture.text(20, 262 + 18 * number, line, 12.5, anchor="start")

    left, top, row, column = 400, 54, 66, 142
    held = [[1] * ranks for _ in range(ranks)]  # held[rank][block]: parts in the newest sum of the block at the rank
    for rank in range(ranks):
        picture.text(left + column * rank + 2 * (cell + gap) - 2, 34, f"rank {rank}", 14, weight="bold")
    steps = 2 * (ranks - 1)
    labels = ["at first"] + [f"after step {k}" for k in range(1, steps + 1)]
    for number, label in enumerate(labels):
        y = top + row * number
        picture.text(270, y + 17, label, 13, anchor="start")
        if number == 0 or number == ranks - 1:
            picture.text(270, y + 42, "reduce-scatter" if number == 0 else "all-gather", 12, FAINT, "start")
        sends = {}
        if number < steps:  # the block that each rank sends next
            sends = {rank: (rank - number - 1) % ranks if number < ranks - 1 else (rank - (number - ranks + 1)) % ranks
                     for rank in range(ranks)}
        for rank in range(ranks):
            for block in range(ranks):
                x = left + column * rank + block * (cell + gap)
                full = cell * held[rank][block] / ranks
                picture.bar(x, y, cell, cell, "#eef1f4")
                picture.bar(x, y + cell - full, cell, full, HUES[block])
                if sends.get(rank) == block:
                    picture.parts.append(f'<rect x="{x - 2}" y="{y - 2}" width="{cell + 4}" height="{cell + 4}" '
                                         f'fill="none" stroke="{INK}" stroke-width="2.5"/>')
                picture.text(x + cell / 2, y + cell / 2 + 5, "abcd"[block], 13, PAPER if full > cell / 2 else INK,
                             weight="bold")
        for rank, block in sends.items():
            x = left + column * rank + block * (cell + gap) + cell / 2
            to = (rank + 1) % ranks
            target = left + column * to + block * (cell + gap) + cell / 2
            if to:
                picture.arrow((x, y + cell + 3), (target - 4, y + row - 3))
            else:  # back to rank 0, out at the right and in at the left
                edge = left + column * ranks - 12
                picture.arrow((x, y + cell + 3), (edge, y + cell + 3 + (edge - x) * 0.3), dash=True)
                picture.arrow((left - 30, y + row - 20), (target - 4, y + row - 3), dash=True)
        following = [list(blocks) for blocks in held]
        for rank, block in sends.items():
            to = (rank + 1) % ranks
            following[to][block] = held[rank][block] + 1 if number < ranks - 1 else ranks
        held = following
    assert all(parts == ranks for blocks in held for parts in blocks)
    return picture.save()


PICTURES = {"rooms.svg": rooms, "ring.svg": ring}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            file.write(draw())
