"""Feeds this model and the C++ verifier the same plans and mutants and compares what they say.

Usage: compare.py VERDICTS, the path of the program tests/plan/verdicts.cpp.  Verdicts must agree in kind, and where
both accept, in the tree of every result.  Each mutant is a schedule with one or two random faults.  The shipped
schedules must also be, step for step, those of schedules.py.  Last, rules of the model are broken on purpose: the
comparison must notice each, so it would notice the same defect of the verifier.
"""
import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

from model import HERE, OPERATIONS, Node, Plan, PlanError, Trees, World, verify
from schedules import SCHEDULES, build, build_hierarchical, hierarchical, send_recv

LENDS = {"all": lambda link: True, "none": lambda link: False, "some": lambda link: (7 * link[0] + link[1]) % 3 > 0}
HOSTS = [[[0, 2, 4], [1, 3]], [[0], [1, 2]], [[0, 1], [2], [3, 4, 5]], [[0, 1, 2]], [[0, 5], [1, 4, 6], [2, 3, 7, 8]]]
MUTANTS_A_SCHEDULE = 36
SHIPPED = {("all_reduce", "ring"): "ring all-reduce", ("all_reduce", "star"): "star all-reduce",
           ("all_reduce", "one_shot"): "one-shot slots", ("all_reduce", "one_shot_pull"): "one-shot pull",
           ("all_reduce", "two_shot"): "two-shot push", ("all_reduce", "two_shot_pull"): "two-shot pull",
           ("all_reduce", "chain"): "chain all-reduce", ("all_reduce", "tree"): "double tree all-reduce",
           ("all_reduce", "recursive_doubling"): "recursive doubling",
           ("all_reduce", "halving_doubling"): "halving-doubling",
           ("reduce_scatter", "ring"): "ring reduce-scatter", ("reduce_scatter", "direct"): "direct reduce-scatter",
           ("reduce_scatter", "halving_doubling"): "halving-doubling reduce-scatter",
           ("reduce_scatter", "pat"): "pat reduce-scatter",
           ("all_gather", "ring"): "ring all-gather", ("all_gather", "direct"): "direct all-gather",
           ("all_gather", "halving_doubling"): "halving-doubling all-gather", ("all_gather", "pat"): "pat all-gather",
           ("broadcast", "chain"): "chain broadcast", ("broadcast", "binomial"): "binomial broadcast",
           ("broadcast", "direct"): "direct broadcast",
           ("reduce", "chain"): "chain reduce", ("reduce", "binomial"): "binomial reduce",
           ("reduce", "two_shot"): "two-shot reduce",
           ("gather", "direct"): "direct gather", ("gather", "binomial"): "binomial gather",
           ("scatter", "direct"): "direct scatter", ("scatter", "binomial"): "binomial scatter",
           ("all_to_all", "direct"): "direct all-to-all", ("all_to_all", "bruck"): "bruck all-to-all"}


# ---------------------------------------------------------------- plans as JSON (tools/plan/plan_json.h)

def step_json(s):
    fields = {"operation": s.operation, "from": list(s.frm), "to": list(s.to), "finish": s.finish, "reply": s.reply,
              "source": s.source and [s.source.space, s.source.first, s.source.count],
              "target": s.target and [s.target.space, s.target.first, s.target.count]}
    return {k: v for k, v in fields.items() if v}


def plan_json(plan):
    return {"scratch": plan.scratch, "strands": [{"lane": s.lane, "steps": [step_json(x) for x in s.steps]}
                                                 for s in plan.strands]}


def run_json(run):
    c = run.collective
    return {"collective": c.name, "n": c.n, "blocks": c.blocks, "root": c.root, "peer": c.peer,
            "plans": {str(r): plan_json(p) for r, p in run.plans.items()}}


# ---------------------------------------------------------------- cases

def modes(run, schedule=None):
    for in_place in ((), tuple(run.plans)) if run.collective.rule(0)[2] else ((),):
        for lends in ("all", "none", "some") if schedule and schedule.lends else ("all",):
            yield dict(in_place=in_place, lends=lends)


def proofs():
    """Every schedule as it should be, with enough credits and with too few."""
    for name, s in SCHEDULES.items():
        for n in (2, 3, 4, 5, 8):
            for slices in (1, 2, 3):
                run = build(name, n, (n // 2, n - 1, 0)[(n + slices) % 3])
                claim = s.credits(slices, n)
                for mode in modes(run, s):
                    for credits in {claim, claim + 1, max(1, claim - 1)}:
                        yield name, [run], dict(credits=credits, slices=slices, tiles=2, **mode)
    for hosts in HOSTS:
        run = build_hierarchical(hosts)
        for mode in modes(run):
            for credits in (2, 3):
                yield "hierarchical", [run], dict(credits=credits, slices=2, tiles=2, **mode)
    runs = [build("ring all-reduce", 4), send_recv(4, 0, 1), build("double tree all-reduce", 4), send_recv(4, 1, 0),
            send_recv(4, 2, 2), build("two-shot push", 4), build("direct all-to-all", 4)]
    for credits in (1, 2, 3):
        for lends in LENDS:
            yield "runs", runs, dict(credits=credits, slices=2, tiles=2, in_place=(), lends=lends)


def mutants(draw):
    for name, s in SCHEDULES.items():
        for k in range(MUTANTS_A_SCHEDULE):
            n = draw.choice((3, 4, 5))
            run = build(name, n, draw.randrange(n))
            right = dict(run.plans)
            for _ in range(1 + (k % 4 == 0)):          # some have two faults
                mutate(run, draw)
            if run.plans == right:
                continue
            for mode in modes(run, s):
                credits = s.credits(2, n) + draw.choice((0, 1))
                yield name + " mutant", [run], dict(credits=credits, slices=2, tiles=2, **mode)


def moved(r, draw):
    change = draw.choice(("first", "first", "count", "space"))
    if change == "space":
        return replace(r, space=draw.choice(("in", "out", "scratch")))
    return replace(r, **{change: getattr(r, change) + draw.choice((-1, 1))})


def mutate(run, draw):
    rank = draw.choice(list(run.plans))
    plan, n = run.plans[rank], run.collective.n
    which = draw.randrange(len(plan.strands))
    steps, lane = list(plan.strands[which].steps), plan.strands[which].lane
    if not steps:
        return
    i = draw.randrange(len(steps))
    s = steps[i]
    what = draw.choice(("drop", "double", "swap", "operation", "from", "to", "one peer", "order", "source", "target",
                        "finish", "reply", "lend", "lane", "scratch", "spill"))
    other = lambda p: p if p == HERE else draw.randrange(-1, n + 1)
    if what == "drop": del steps[i]
    elif what == "double": steps.insert(i, s)
    elif what == "swap": steps[i:i + 2] = reversed(steps[i:i + 2])
    elif what == "operation": steps[i] = replace(s, operation=draw.choice(sorted(OPERATIONS)))
    elif what == "from": steps[i] = replace(s, frm=tuple(p if p == HERE else (p + 1) % n for p in s.frm))
    elif what == "to": steps[i] = replace(s, to=tuple((q + 1) % n for q in s.to))
    elif what == "one peer": steps[i] = replace(s, frm=tuple(map(other, s.frm)), to=tuple(map(other, s.to)))
    elif what == "order": steps[i] = replace(s, frm=s.frm[::-1])
    elif what in ("source", "target") and getattr(s, what):
        steps[i] = replace(s, **{what: moved(getattr(s, what), draw)})
    elif what == "finish": steps[i] = replace(s, finish=not s.finish)
    elif what == "reply": steps[i] = replace(s, reply=not s.reply)
    elif what == "lend" and s.operation in ("lend", "send"):
        steps[i] = replace(s, operation={"send": "lend"}.get(s.operation, "send"))
    elif what == "lane": lane += draw.choice((-1, 1))
    strands = list(plan.strands)
    strands[which] = replace(strands[which], steps=tuple(steps), lane=lane)
    if what == "spill" and len(steps) > 1:             # half of the strand goes to a second one
        strands[which:which + 1] = [replace(strands[which], steps=tuple(steps[:i])),
                                    replace(strands[which], steps=tuple(steps[i:]))]
    run.plans[rank] = Plan(tuple(strands), plan.scratch - (what == "scratch"))


# ---------------------------------------------------------------- what the model says

def expression(trees, i):
    shape = trees.shape[i]
    if shape[0] == "leaf":
        return f"x{shape[1]}"
    if shape[0] in ("pre", "post"):
        return expression(trees, shape[1])
    return f"({expression(trees, shape[0])} + {expression(trees, shape[1])})"


def opinion(runs, credits, slices, tiles, in_place, lends):
    try:
        report = verify(runs, credits, slices, tiles, in_place, LENDS[lends])
    except PlanError as e:
        return {"fault": e.kind, "text": str(e)}
    results = {f"{run} {rank}": [expression(report.trees, i) for i in cells]
               for (run, rank), cells in report.results.items()}
    return {"fault": "none", "left_fold": report.left_fold, "results": {k: v for k, v in results.items() if v}}


def ask(program, questions):
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    finished = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(answers) == len(questions), (len(answers), len(questions))
    return answers


def ask_verdicts(program, cases):
    return ask(program, [{"runs": [run_json(r) for r in runs], **how} for _, runs, how in cases])


def differences(cases, answers):
    wrong = []
    for (name, runs, how), theirs in zip(cases, answers):
        ours = opinion(runs, **how)
        if any(ours[key] != theirs[key] for key in ours if key != "text"):
            wrong.append(f"{name} {how}\n  model: {ours.get('text', 'accepts')}\n  C++: {theirs['text'] or 'accepts'}"
                         f"\n  {json.dumps([run_json(r) for r in runs])[:2000]}")
    return wrong


def compare_schedules(program):
    """The shipped schedules, step for step; none is left out."""
    asked, right = [{}], []
    for (collective, algorithm), name in SHIPPED.items():
        for n in range(2, 10):
            for root in (0, n - 1):
                for rank in range(n):
                    asked.append({"collective": collective, "algorithm": algorithm, "hosts": [0] * n, "root": root,
                                  "rank": rank})
                    right.append(plan_json(SCHEDULES[name].plan(n, rank, root)))
    for hosts in HOSTS:
        numbers = [next(h for h, host in enumerate(hosts) if r in host) for r in range(sum(map(len, hosts)))]
        for rank in range(len(numbers)):
            asked.append({"collective": "all_reduce", "algorithm": "hierarchical", "hosts": numbers, "root": 0,
                          "rank": rank})
            right.append(plan_json(hierarchical(hosts, rank)))
    shipped, *answers = ask(program, asked)
    wrong = [f"{question}: another plan" for question, answer, plan in zip(asked[1:], answers, right)
             if answer != plan]
    covered = {*SHIPPED, ("all_reduce", "hierarchical")}
    return wrong + [f"{key} is not compared" for key in {*map(tuple, shipped)} ^ covered]


# ---------------------------------------------------------------- canaries

def ignore(*_, **__): pass


def sum_of_sets(trees, a, b):
    """A sum that knows its contributors, but not its association."""
    x, y = trees.nodes[a], trees.nodes[b]
    node = Node("partial", x.element, x.ranks | y.ranks, 0)
    return trees.intern(("set", node), node)


BROKEN = {"race": (World, "ordered", ignore), "partial in out": (World, "into_out", ignore),
          "misplaced": (World, "check", ignore), "stage": (Trees, "sum", sum_of_sets),
          "unequal": (Trees, "sum", sum_of_sets)}


def fault_of(runs, how):
    try:
        verify(runs, **how | {"lends": LENDS[how["lends"]]})
    except PlanError as e:
        return e.kind
    return "none"


def unnoticed(cases, answers):
    """Breaks one rule of the model at a time, and lists those that the comparison does not notice."""
    for fault, (owner, rule, broken) in BROKEN.items():
        right = getattr(owner, rule)
        rejected = [(runs, how) for (_, runs, how), answer in zip(cases, answers) if answer["fault"] == fault]
        setattr(owner, rule, broken)
        noticed = any(fault_of(runs, how) != fault for runs, how in rejected)
        setattr(owner, rule, right)
        if not noticed:
            yield f"nobody notices that rule `{fault}` is broken ({len(rejected)} cases)"


def main():
    program = sys.argv[1]
    wrong = compare_schedules(program)
    cases = list(proofs())
    answers = ask_verdicts(program, cases)
    print("schedules:", dict(Counter(a["fault"] for a in answers)))
    wrong += differences(cases, answers)
    cases = list(mutants(random.Random(20)))
    answers = ask_verdicts(program, cases)
    faults = Counter(a["fault"] for a in answers)
    print(f"mutants: {faults.total() - faults['none']} of {faults.total()} rejected:", dict(faults))
    wrong += differences(cases, answers)
    wrong += unnoticed(cases, answers)
    for text in wrong[:10]:
        print("DIFFERS", text)
    if wrong or faults.total() < 1500 or faults["none"] * 4 > faults.total() or len(faults) < 14:
        sys.exit(f"{len(wrong)} verdicts differ; {len(faults)} kinds of {faults.total()} mutants")


if __name__ == "__main__":
    main()
