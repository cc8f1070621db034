"""Executable specification of plans, links and the verifier.

A plan is data: strands of steps over ranges of blocks.  `verify` runs the plans of all ranks symbolically, over
links with finite credits and with lending, and raises PlanError at the first broken rule.  What it proves for one
order of events holds for every order and for any larger number of credits; runtime/plan/verify.h says why.
It leaves out bytes, types, time and failures.  compare.py feeds this model and the C++ verifier the same plans.
"""
from __future__ import annotations
import random
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

HERE = -1                                  # in a step's `frm` list: the place of the local operand (its source range)

class PlanError(Exception):
    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind = kind

# ---------------------------------------------------------------- the vocabulary

@dataclass(frozen=True)
class Range:
    """`count` consecutive blocks of one space: "in" (never a target), "out" or "scratch"."""
    space: str
    first: int
    count: int = 1

def IN(first, count=1): return Range("in", first, count)
def OUT(first, count=1): return Range("out", first, count)
def SCRATCH(first, count=1): return Range("scratch", first, count)

#            operation             receives  reduces  stores  sends
OPERATIONS = {"send":                  (0, 0, 0, 1),
              "lend":                  (0, 0, 0, 1),    # target range: where the borrower may store its reply
              "recv_copy":             (1, 0, 1, 0),
              "recv_reduce":           (1, 1, 1, 0),
              "recv_reduce_send":      (1, 1, 0, 1),
              "recv_reduce_copy_send": (1, 1, 1, 1),
              "recv_copy_send":        (1, 0, 1, 1),
              "copy":                  (0, 0, 1, 0),
              "copy_send":             (0, 0, 1, 1),
              "wait":                  (0, 0, 0, 0)}    # until `to` released all that this strand lent to it

@dataclass(frozen=True)
class Step:
    """One step.  `frm` lists the operands in the order of reduction: peers, and HERE for the source range.  `finish`
    applies the post-operator to the result before it is stored or sent.  `reply` also stores the result into the reply
    ranges of the messages it received, before it releases them."""
    operation: str
    frm: tuple = ()
    to: tuple = ()
    source: Range = None
    target: Range = None
    finish: bool = False
    reply: bool = False

    @property
    def peers(self): return [p for p in self.frm if p != HERE]

def step(operation, *, frm=(), to=(), **rest):
    listed = lambda x: (x,) if isinstance(x, int) else tuple(x)
    return Step(operation, listed(frm), listed(to), **rest)

@dataclass(frozen=True)
class Strand:
    steps: tuple
    lane: int = 0                          # its links are (from, to, lane)

@dataclass(frozen=True)
class Plan:                                # of one rank
    strands: tuple
    scratch: int = 0                       # blocks; one copy, reused by every tile

@dataclass(frozen=True)
class Collective:
    """What a plan must compute: sizes of `in` and `out` in blocks, the in-place rule, the expected result."""
    name: str
    n: int
    blocks: int = 1                        # of all_reduce, reduce, broadcast; the others have one block a rank
    root: int = 0
    peer: int = 0                          # the receiver of send_recv

    @property
    def reduces(self): return self.name in ("all_reduce", "reduce", "reduce_scatter")

    def rule(self, r):
        """For rank r: blocks of `in`; of `out`; where both begin in one buffer in place, or None; what a block of `out`
        must hold: contributing rank (None: all), block of that rank's `in`."""
        n, b, root, at = self.n, self.blocks, self.root, r == self.root
        return {"all_reduce":     (b, b, (0, 0), lambda k: (None, k)),
                "reduce":         (b, b * at, (0, 0), lambda k: (None, k)),
                "reduce_scatter": (n, 1, (0, r), lambda k: (None, r)),
                "broadcast":      (b * at, b, (0, 0), lambda k: (root, k)),
                "all_gather":     (1, n, (r, 0), lambda k: (k, 0)),
                "gather":         (1, n * at, (r, 0), lambda k: (k, 0)),
                "scatter":        (n * at, 1, (0, r), lambda k: (root, r)),
                "all_to_all":     (n, n, None, lambda k: (k, r)),
                "send_recv":      (1 * at, 1 * (r == self.peer), None, lambda k: (root, 0))}[self.name]

# ---------------------------------------------------------------- values: hash-consed trees with ordered operands

class Node(NamedTuple):
    stage: str                             # raw (an element of `in`), partial, final
    element: tuple                         # which element it belongs to: (run, tile, cell)
    ranks: int                             # contributors, as bits
    fold: int                              # k if it is the left fold over ranks 0..k-1, else 0

class Trees:
    def __init__(self):
        self.ids, self.nodes, self.shape = {}, [], []

    def intern(self, shape, node):
        if shape not in self.ids:
            self.ids[shape] = len(self.nodes)
            self.nodes.append(node)
            self.shape.append(shape)
        return self.ids[shape]

    def leaf(self, rank, element):
        return self.intern(("leaf", rank, element), Node("raw", element, 1 << rank, int(rank == 0)))

    def pre(self, x):
        node = self.nodes[x]
        if node.stage != "raw":
            raise PlanError("stale", "`in` was overwritten before it was read")
        return self.intern(("pre", x), Node("partial", node.element, node.ranks, node.fold))

    def sum(self, a, b):
        if (a, b) in self.ids:
            return self.ids[a, b]
        x, y = self.nodes[a], self.nodes[b]
        if x.stage != "partial" or y.stage != "partial":
            raise PlanError("stage", f"reduces a {x.stage} with a {y.stage} value")
        if x.element != y.element:
            raise PlanError("misplaced", f"reduces element {x.element} with {y.element}")
        if x.ranks & y.ranks:
            raise PlanError("doubled", f"contributors {x.ranks:b} and {y.ranks:b} overlap")
        fold = x.fold + 1 if x.fold and y.ranks == 1 << x.fold else 0
        return self.intern((a, b), Node("partial", x.element, x.ranks | y.ranks, fold))

    def post(self, x):
        node = self.nodes[x]
        if node.stage != "partial":
            raise PlanError("stage", f"finishes a {node.stage} value")
        return self.intern(("post", x), Node("final", node.element, node.ranks, node.fold))

# ---------------------------------------------------------------- the running world

@dataclass
class Run:
    """One call: a collective and the plan of every rank that takes part."""
    collective: Collective
    plans: dict                            # by rank; a rank without one takes no part

@dataclass
class Cell:
    value: int = None
    write: tuple = None                    # (actor, clock) of the last store
    reads: dict = field(default_factory=dict)     # actor -> clock, since that store

@dataclass
class Message:
    clocks: tuple
    slice: int
    count: int
    values: list = None                    # copied, or
    lent: list = None                      # cells to read in place,
    raw: bool = False                      #   which hold the lender's `in`: the borrower applies the pre-operator
    reply: list = None                     # cells for the reply: stored by the borrower if lent, else by `wait`
    into_out: bool = False                 #   which are in `out`
    answer: bool = False                   # the reply to a lend that was declined
    released: tuple = None                 # (borrower, its clock)

@dataclass
class Actor:                               # one strand of one rank in one run
    id: int
    rank: int
    run: int
    strand: Strand
    name: str
    clocks: list
    at: list = field(default_factory=lambda: [0, 0, 0])        # tile, step, slice
    lent: dict = field(default_factory=dict)

class Report(NamedTuple):
    results: dict                          # (run, rank) -> tree of every cell of `out`, tile by tile
    left_fold: bool                        # every reduction is ((0 + 1) + 2) + ...
    trees: Trees

class World:
    def __init__(self, runs, credits, slices=2, tiles=2, in_place=(), lends=lambda link: True, order=None, seed=None):
        self.runs = runs if isinstance(runs, list) else [runs]
        self.credits, self.slices, self.tiles, self.in_place, self.lends = credits, slices, tiles, set(in_place), lends
        self.random = random.Random(seed) if seed is not None else None
        self.trees, self.cells, self.links, self.ends, self.actors = Trees(), {}, {}, {}, []
        for rank in range(max(run.collective.n for run in self.runs)):
            first = (order or {}).get(rank, [])                                # this rank's call order
            for index in [*first, *(i for i in range(len(self.runs)) if i not in first)]:
                plan = self.runs[index].plans.get(rank, Plan(()))
                for s, strand in enumerate(plan.strands):
                    name = f"run {index} rank {rank} strand {s}"
                    self.actors.append(Actor(len(self.actors), rank, index, strand, name, []))
                    self.admit(self.actors[-1])
        for a in self.actors:
            a.clocks = [0] * len(self.actors)

    # ---- what can be said of a step without running it
    def admit(self, a):
        rule, scratch = self.runs[a.run].collective.rule(a.rank), self.runs[a.run].plans[a.rank].scratch
        sizes = {"in": rule[0], "out": rule[1], "scratch": scratch}
        for index, s in enumerate(a.strand.steps):
            receives, reduces, stores, sends = OPERATIONS[s.operation]
            lend, wait = s.operation == "lend", s.operation == "wait"
            def need(ok, kind, text):
                if not ok:
                    raise PlanError(kind, f"{a.name}: {text} in {s}")
            need(a.strand.lane >= 0, "form", "no such lane")
            need(bool(s.peers) == bool(receives), "form", "peers to receive from")
            need(bool(s.to) == bool(sends or wait), "form", "peers to send to")
            need((s.source is not None) == (HERE in s.frm if receives else not wait), "form", "source range")
            need((s.target is not None) == bool(stores) or lend, "form", "target range")
            need(not (s.source and s.target) or s.source.count == s.target.count, "form", "source and target differ")
            need(not receives or (len(s.frm) > 1) == bool(reduces), "form", "operands")
            need(len(set(s.frm)) == len(s.frm) and len(set(s.to)) == len(s.to), "form", "a peer twice")
            need(all(0 <= p < self.runs[a.run].collective.n for p in (*s.peers, *s.to)), "form", "outside the world")
            need(not s.finish or self.runs[a.run].collective.reduces and not wait, "form", "nothing to finish")
            need(not s.reply or receives and not sends, "form", "a reply answers messages and sends nothing")
            need(not (lend and s.target) or set(s.to) <= {q for t in a.strand.steps[index:] if t.operation == "wait"
                                                          for q in t.to}, "lending", "a reply that nobody awaits")
            for r in (s.source, s.target):
                need(r is None or (r.count > 0 and 0 <= r.first and r.first + r.count <= sizes[r.space]), "range",
                     "outside its space")
            need(s.target is None or s.target.space != "in", "write to in", "target")
            if s.source and s.target and not lend:
                x, y = ({self.where(a, r, c) for c in range(r.first * self.slices, (r.first + r.count) * self.slices)}
                        for r in (s.source, s.target))
                need(x == y or not x & y, "overlap", "source and target overlap")
            inward, outward = lambda p: (p, a.rank, a.strand.lane), lambda q: (a.rank, q, a.strand.lane)
            uses = [(inward(p), "recv") for p in s.peers] + [(outward(q), "send") for q in s.to if not wait]
            if s.reply:                                             # to a declined lend: a message back
                uses += [(outward(p), "send") for p in s.peers if not self.lends(inward(p))]
            if lend and s.target:
                uses += [(inward(q), "recv") for q in s.to if not self.lends(outward(q))]
            for link, side in uses:
                queue = self.ends.setdefault((link, side), deque())
                if not queue or queue[-1][0] is not a:
                    need(all(b.run != a.run for b, _ in queue), "strand", f"two strands on one end of {link}")
                    queue.append([a, 0])
                queue[-1][1] += self.slices * self.tiles
                self.links.setdefault(link, deque())

    # ---- memory
    def where(self, a, r, cell): return self.place(a.run, a.rank, r, cell, a.at[0])

    def place(self, run, rank, r, cell, tile):
        """The identity of a cell: in place, `in` and `out` are one buffer."""
        if r.space == "scratch":
            return run, rank, "scratch", 0, cell
        base = self.bases(run, rank)[r.space == "out"]
        return run, rank, "user", tile, base * self.slices + cell

    def bases(self, run, rank):
        return rank in self.in_place and self.runs[run].collective.rule(rank)[2] or (0, 1 << 20)

    def cut(self, a, r):
        """The cells of the current slice: a range of L blocks is cut into equal slices, each of L cells."""
        first = r.first * self.slices + a.at[2] * r.count
        return [self.where(a, r, first + j) for j in range(r.count)]

    def cell(self, key):
        if key not in self.cells:
            run, rank, space, tile, address = key
            index = address - self.bases(run, rank)[0] * self.slices
            inside = space == "user" and 0 <= index < self.runs[run].collective.rule(rank)[0] * self.slices
            self.cells[key] = Cell(self.trees.leaf(rank, (run, tile, index)) if inside else None)
        return self.cells[key]

    def ordered(self, a, other, key, what):
        actor, clock = other
        if actor != a.id and a.clocks[actor] < clock:
            raise PlanError("race", f"{a.name} {what} {key}, unordered with {self.actors[actor].name}")

    def read(self, a, key):
        c = self.cell(key)
        if c.write:
            self.ordered(a, c.write, key, "reads")
        if c.value is None:
            raise PlanError("stale", f"{a.name} reads {key}, never written")
        c.reads[a.id] = a.clocks[a.id]
        return c.value

    def store(self, a, key, value):
        c = self.cell(key)
        for other in list(c.reads.items()) + ([c.write] if c.write else []):
            self.ordered(a, other, key, "stores to")
        c.value, c.write, c.reads = value, (a.id, a.clocks[a.id]), {}

    # ---- one slice of one step
    def mine(self, a, link, side):
        return self.ends[link, side][0][0] is a                     # earlier calls have finished with this end

    def used(self, link, side):
        queue = self.ends[link, side]
        queue[0][1] -= 1
        if queue[0][1] == 0:
            queue.popleft()

    def advance(self, a):
        """Executes the next slice if it can; says whether it did."""
        if a.at[0] == self.tiles or not a.strand.steps:
            return False
        s, lane = a.strand.steps[a.at[1]], a.strand.lane
        if s.operation == "wait":
            return self.settle(a, s)
        incoming = {p: (p, a.rank, lane) for p in s.peers}
        if not all(self.mine(a, l, "recv") and self.links[l] for l in incoming.values()):
            return False
        heads = {p: self.links[l][0] for p, l in incoming.items()}
        if s.reply and any(m.reply is None for m in heads.values()):
            raise PlanError("lending", f"{a.name}: replies to a message that offered no range")
        answers = {p: (a.rank, p, lane) for p, m in heads.items() if s.reply and m.lent is None}
        outgoing = {q: (a.rank, q, lane) for q in s.to}
        if not all(self.mine(a, l, "send") and len(self.links[l]) < self.credits
                   for l in [*outgoing.values(), *answers.values()]):
            return False
        for m in heads.values():
            a.clocks = list(map(max, a.clocks, m.clocks))           # messages order; waiting for credits does not
        a.clocks[a.id] += 1
        reduces, lends = self.runs[a.run].collective.reduces, s.operation == "lend"
        values = None if lends and all(map(self.lends, outgoing.values())) else self.result(a, s, heads, reduces)
        if s.target and not lends:
            self.into_out(a, s, values, reduces and s.target.space == "out")
            if not self.is_there(a, s, reduces):
                for key, v in zip(self.cut(a, s.target), values):
                    self.store(a, key, v)
        for p, m in heads.items():
            self.into_out(a, s, values, s.reply and reduces and m.into_out)
            if s.reply and m.lent:
                for key, v in zip(m.reply, values):
                    self.store(a, key, v)
            m.released = a.id, a.clocks[a.id]
            self.links[incoming[p]].popleft()
            self.used(incoming[p], "recv")
        for q, link in [*outgoing.items(), *answers.items()]:
            m = Message(tuple(a.clocks), a.at[2], self.count(s, heads), values, answer=link in answers.values())
            if lends:
                if self.lends(link):
                    m.values, m.lent, m.raw = None, self.cut(a, s.source), reduces and s.source.space == "in"
                m.reply = self.cut(a, s.target) if s.target else None
                m.into_out = bool(s.target) and s.target.space == "out"
                if m.lent or m.reply:
                    a.lent.setdefault(q, deque()).append(m)
            self.links[link].append(m)
            self.used(link, "send")
        return self.next(a)

    def into_out(self, a, s, values, enters):
        if enters and any(self.trees.nodes[v].stage != "final" for v in values):
            raise PlanError("partial in out", f"{a.name}: {s}")

    def is_there(self, a, s, reduces):
        """In place, what a step copies as it is may be where it belongs: then nothing is stored."""
        as_it_is = not s.frm and s.source and not s.finish and not (reduces and s.source.space == "in")
        return as_it_is and self.cut(a, s.source) == self.cut(a, s.target)

    @staticmethod
    def count(s, heads): return (s.source or s.target or next(iter(heads.values()))).count

    def result(self, a, s, heads, reduces):
        operands = []
        for p in s.frm or (HERE,):
            if p == HERE:
                cells, raw = self.cut(a, s.source), reduces and s.source.space == "in"
            else:
                m = heads[p]
                if (m.slice, m.count, m.answer) != (a.at[2], self.count(s, heads), False):
                    raise PlanError("unmatched", f"{a.name}: {s} got slice {m.slice} of {m.count} blocks from {p}")
                cells, raw = m.lent, m.raw
            values = m.values if cells is None else [self.read(a, key) for key in cells]
            operands.append([self.trees.pre(v) for v in values] if raw else values)
        result = operands[0]
        for other in operands[1:]:
            result = [self.trees.sum(x, y) for x, y in zip(result, other)]
        return [self.trees.post(v) for v in result] if s.finish else result

    def settle(self, a, s):
        """`wait` orders the lent cells and nothing else, so that a lend that was declined changes no proof."""
        done = False
        for q in s.to:
            lent, link = a.lent.get(q, ()), (q, a.rank, a.strand.lane)
            while lent:
                m = lent[0]
                a.clocks[a.id] += 1
                if m.lent is None:                                  # declined: the reply is a message
                    if not (self.mine(a, link, "recv") and self.links[link]):
                        return done
                    reply = self.links[link].popleft()
                    if not reply.answer or (reply.slice, reply.count) != (m.slice, len(m.reply)):
                        raise PlanError("unmatched", f"{a.name} waits for a reply and got another message")
                    for key, v in zip(m.reply, reply.values):
                        self.store(a, key, v)
                    self.used(link, "recv")
                elif m.released is None:
                    return done
                else:
                    borrower, clock = m.released
                    for c in map(self.cell, m.lent):
                        if c.reads.get(borrower, clock + 1) <= clock:
                            del c.reads[borrower]
                    for c in map(self.cell, m.reply or ()):
                        if c.write == (borrower, clock):
                            c.write = a.id, a.clocks[a.id]
                lent.popleft()
                done = True
        a.at[2] = self.slices - 1                                   # once a step, not once a slice
        return self.next(a)

    def next(self, a):
        a.at[2] += 1
        if a.at[2] == self.slices:
            a.at[1:] = a.at[1] + 1, 0
        if a.at[1] == len(a.strand.steps):
            a.at[:] = a.at[0] + 1, 0, 0
        return True

    # ---- all of it
    def go(self):
        live = True
        while live:
            live = False
            actors = self.actors if not self.random else self.random.sample(self.actors, len(self.actors))
            for a in actors:
                most = self.random.randint(1, 4) if self.random else 1 << 30
                while most and self.advance(a):
                    live, most = True, most - 1
        stuck = [a for a in self.actors if a.at[0] < self.tiles and a.strand.steps]
        if stuck:
            raise PlanError("deadlock", "; ".join(f"{a.name} at {a.strand.steps[a.at[1]]}" for a in stuck[:4]))
        if any(self.links.values()):
            raise PlanError("unmatched", f"left on {[l for l, q in self.links.items() if q][:4]}")
        return self.judge()

    def judge(self):
        results, folds = {}, True
        for run, rank in ((i, r) for i, run in enumerate(self.runs) for r in range(run.collective.n)):
            c, name = self.runs[run].collective, f"run {run} rank {rank}"
            _, size, _, expected = c.rule(rank)
            found = results[run, rank] = []
            for tile in range(self.tiles):
                for i in range(size * self.slices):
                    found.append(self.cell(self.place(run, rank, OUT(0), i, tile)).value)
                    source, block = expected(i // self.slices)
                    self.check(name, c, found[-1], source, (run, tile, block * self.slices + i % self.slices))
                    folds = folds and (not c.reduces or self.trees.nodes[found[-1]].fold == c.n)
            if c.name == "all_reduce" and found != results[run, 0]:
                raise PlanError("unequal", f"{name} holds other trees than the first rank")
        return Report(results, folds, self.trees)

    def check(self, name, c, tree, source, element):
        if tree is None:
            raise PlanError("missing", f"{name} never stored {element}")
        node = self.trees.nodes[tree]
        right = node.stage == "final" if c.reduces else tree == self.trees.leaf(source, element)
        if node.element != element or not right:
            raise PlanError("misplaced", f"{name} holds {self.trees.shape[tree]} for {element}")
        if c.reduces and node.ranks != (1 << c.n) - 1:
            raise PlanError("missing", f"{name}: contributors {node.ranks:b} of {element}")

def verify(runs, credits, *args, **rest):
    """Proves `runs` (one Run, or a list in call order) or raises PlanError.  `in_place`: the ranks whose buffers alias;
    `lends(link)`; `order`: the call order of ranks that differ; `seed`: a random order of events."""
    return World(runs, credits, *args, **rest).go()
