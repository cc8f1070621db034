"""Ways to train on several ranks, side by side: none, dp, ps, ddp of rondo-train, and PyTorch's DDP over Gloo.

Usage: compare_dp.py [--ranks 2] [--hosts 2,3,4] [--rate 1gbit] [--model resnet50] [--image 64] [--batch 32]
[--max-steps 10] [--rounds 3] [--build build] [--modes one,none,dp,ps,ddp,gloo] [--also "TITLE: FLAGS"]...
[--exposed ROUNDS] [--tune FLAGS] [--svg FILE].  Without --hosts: ranks of one host, through shared memory (Gloo:
loopback).  With it: one rank a host, hosts made of namespaces (needs root), each link shaped both ways.  All modes in
turns, each round anew; the same model, synthetic images, one thread a rank.  `one` is one rank with the whole machine
to itself; `none` the ranks without any exchange; --also adds a row: ddp with further flags of rondo-train.

Figures are medians over the rounds.  `of none` is the speed divided by that of `none` in the same round, with the least
and the largest of the rounds.  Exposed is the wait behind backward that the report of rondo-train tells; for Gloo, a
step less one under no_sync().  --exposed: for ddp and ps the same difference, and the exchange alone, as
`rondo-train --measure-exposed ROUNDS` gives them.  --tune: instead of all that, what `rondo-train --tune FLAGS` finds
there.  A link's bytes are those of all steps but the first, both ways.

Formulas, for G bytes of gradients, n hosts and links of R bytes/s each way.  ddp: 4 (n-1)/n G on each link, in
2 (n-1)/n G / R.  ps: n G on the server's link (n-1 gradients in, and one set of parameters out, which then goes along
a chain), in n G / R.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.append(os.path.join(ROOT, "tools", "hosts"))
import hosts as fixture  # noqa: E402
from bars import draw_bars  # noqa: E402

MODES = ("one", "none", "dp", "ps", "ddp", "gloo")
PATIENCE_S = 900
TITLES = {"one": "1 rank", "none": "no exchange", "dp": "dp: a replica a thread", "ps": "ps: parameter server",
          "ddp": "ddp: Rondo", "gloo": "ddp: PyTorch over Gloo"}
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


class Figures:
    """What one run of one mode gave."""

    def __init__(self, step_ms, images_per_s, exposed=None):
        self.step_ms = step_ms
        self.images_per_s = images_per_s
        self.exposed = exposed      # share of the step in which computation waits for communication
        self.lopsided = None        # the largest rank's peak of resident bytes above the smallest's
        self.gradient_bytes = None
        self.difference_ms = None   # of a step and one without exchange
        self.alone_ms = None        # the exchange, and nothing else
        self.hidden = None
        self.link_bytes = None      # of a step, both ways, on the busiest host's link


def read_report(path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    figures = Figures(1000 * report["step_s"], report["images_per_second"], report["exposed_share"])
    peaks = [rank["memory"]["peak_rss_bytes"] for rank in report["ranks"]]
    if len(peaks) > 1 and min(peaks) > 0:  # replicas in threads share one process
        figures.lopsided = max(peaks) - min(peaks)
    figures.gradient_bytes = report["gradient_bytes"] or None
    if report["exchange"]:
        figures.difference_ms = 1000 * report["exchange"]["exposed_s"]
        figures.alone_ms = 1000 * report["exchange"]["alone_s"]
        figures.hidden = report["exchange"]["hidden_share"]
    return figures


def read_gloo(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    figures = Figures(result["step_ms"], result["images_per_s"], result["exposed_ms"] / result["step_ms"])
    figures.difference_ms = result["exposed_ms"]
    return figures


def python_of_torch():
    return os.path.join(ROOT, "build-torch", "bin", "python")


def command_of(mode, options, ranks, report, steps):
    """A rank's command line."""
    model = ["--model", options.model, "--stem", "imagenet", "--width", str(options.width), "--num-classes", "1000",
             "--image", str(options.image), "--batch", str(options.batch), "--max-steps", str(steps)]
    if mode == "gloo":
        script = os.path.join(ROOT, "tools", "trainer", "compare", "torch_ddp.py")
        return [python_of_torch(), script, *model, "--json", report]
    parallel = {"one": "none"}.get(mode, mode if mode in MODES else "ddp")
    more = ["--replicas", str(ranks)] if mode == "dp" else list(options.flags.get(mode, []))
    if options.exposed and parallel in ("ddp", "ps"):
        more += ["--measure-exposed", str(options.exposed)]
    return [os.path.join(options.build, "tools", "rondo-train"), *model, "--data", "synthetic", "--parallel", parallel,
            *more, "--threads", "1", "--report", report]


class Here:
    """All ranks on this host."""

    def __init__(self, options):
        self.options = options

    def start(self, command, ranks):
        """What the ranks print."""
        launcher = [os.path.join(self.options.build, "tools", "rondo"), "run", "-n", str(ranks), "--master-port",
                    str(self.options.port), "--timeout", str(PATIENCE_S), "--"]
        done = subprocess.run(launcher + command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(launcher + command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, mode, folder):
        ranks = 1 if mode in ("one", "dp") else self.options.ranks
        report = os.path.join(folder, "report.json")
        self.start(command_of(mode, self.options, self.options.ranks, report, self.options.max_steps), ranks)
        return read_gloo(report) if mode == "gloo" else read_report(report)

    def tune(self):
        command = command_of("ddp", self.options, self.options.ranks, "", 0)
        return self.start([*command, "--tune", *shlex.split(self.options.tune)], self.options.ranks)


def link_bytes(host):
    """Bytes that have gone over the host's link, both ways."""
    folder = f"/sys/class/net/{fixture.INTERFACE}/statistics/"
    # /sys shows the namespace it was mounted in: a fresh mount shows the host's own.
    script = f"mount -t sysfs none /sys && cat {folder}rx_bytes {folder}tx_bytes"
    done = host.run("unshare", "--mount", "sh", "-ec", script)
    return sum(map(int, done.stdout.split()))


class OnHosts:
    """One rank a host."""

    def __init__(self, options, hosts):
        self.options = options
        self.hosts = hosts
        self.first_step_bytes = {}  # by mode: of a run of one step, on each link

    def start(self, command, ranks):
        """What rank 0 prints."""
        results = fixture.run_ranks(self.hosts, list(range(ranks)), command, port=self.options.port,
                                    variables={"GLOO_SOCKET_IFNAME": fixture.INTERFACE})
        for status, out, error in results:
            if status:
                sys.exit(out + error)
        return results[0][1]

    def train(self, mode, folder, steps):
        """The report's path, and what each host's link has carried meanwhile."""
        ranks = 1 if mode == "one" else len(self.hosts)
        report = os.path.join(folder, "report.json")
        before = [link_bytes(host) for host in self.hosts]
        self.start(command_of(mode, self.options, ranks, report, steps), ranks)
        return report, [link_bytes(host) - b for host, b in zip(self.hosts, before)]

    def tune(self):
        command = command_of("ddp", self.options, len(self.hosts), "", 0)
        return self.start([*command, "--tune", *shlex.split(self.options.tune)], len(self.hosts))

    def run(self, mode, folder):
        counted = not self.options.exposed and self.options.max_steps > 1  # else further steps move bytes
        if counted and mode not in self.first_step_bytes:
            self.first_step_bytes[mode] = self.train(mode, folder, 1)[1]
        report, carried = self.train(mode, folder, self.options.max_steps)
        figures = read_gloo(report) if mode == "gloo" else read_report(report)
        if counted:  # Gloo makes as many steps again, which exchange nothing
            figures.link_bytes = max(whole - first for whole, first in zip(carried, self.first_step_bytes[mode]))
            figures.link_bytes /= self.options.max_steps - 1
        return figures


def median(runs, field):
    values = [getattr(run, field) for run in runs]
    return statistics.median(values) if all(value is not None for value in values) else None


def in_turn(runs_of, mode, other):
    """The speed of a mode, of another's in the same round: "median (least to largest)"."""
    shares = [run.images_per_s / beside.images_per_s for run, beside in zip(runs_of[mode], runs_of[other])]
    return f"{statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"


def formulas(mode, hosts, gradient_bytes, rate):
    """(bytes on the busiest link, seconds of the exchange), or None where there is none."""
    if mode in ("one", "none") or gradient_bytes is None:
        return None
    if mode == "ps":
        return hosts * gradient_bytes, hosts * gradient_bytes / rate
    return 4 * (hosts - 1) / hosts * gradient_bytes, 2 * (hosts - 1) / hosts * gradient_bytes / rate


def columns(runs_of, hosts, options):
    """[(title, {mode: cell})]; columns without a cell are left out later."""
    def column(title, cell):
        return title, {mode: cell(mode, runs) for mode, runs in runs_of.items()}

    def number(field, form, factor=1):
        def cell(_, runs):
            value = median(runs, field)
            return "" if value is None else format(factor * value, form)
        return cell

    one = median(runs_of["one"], "images_per_s") if "one" in runs_of else None
    gradients = next((runs[0].gradient_bytes for runs in runs_of.values() if runs[0].gradient_bytes), None)

    def formula(index, form, factor):
        def cell(mode, _):
            values = formulas(mode, hosts, gradients, rate_of(options.rate)) if hosts and mode in MODES else None
            return "" if values is None else format(factor * values[index], form)
        return cell

    return [column("step, ms", number("step_ms", ".0f")), column("images/s", number("images_per_s", ".1f")),
            column("times 1 rank", lambda _, runs: f"{median(runs, 'images_per_s') / one:.2f}" if one else ""),
            column("of none, in turn",
                   lambda mode, _: in_turn(runs_of, mode, "none") if "none" in runs_of and mode != "none" else ""),
            column("exposed, % of the step", number("exposed", ".1f", 100)),
            column("exposed by difference, ms", number("difference_ms", ".0f")),
            column("exchange alone, ms", number("alone_ms", ".0f")),
            column("alone, formula", formula(1, ".0f", 1e3)),
            column("hidden, %", number("hidden", ".0f", 100)),
            column("largest rank's memory above the smallest's, MB", number("lopsided", ".0f", 1e-6)),
            column("busiest link, MB a step", number("link_bytes", ".1f", 1e-6)),
            column("link, formula", formula(0, ".1f", 1e-6))]


def rate_of(text):
    """Bytes a second of tc's "1gbit"."""
    return float(text[:-4]) * UNITS[text[-4:]] / 8


def print_table(title, runs_of, hosts, options):
    """One row a mode."""
    shown = [(name, cells) for name, cells in columns(runs_of, hosts, options) if any(cells.values())]
    print(f"\n{title}\n\n| mode | " + " | ".join(name for name, _ in shown) + " |\n|---|" + "---:|" * len(shown))
    for mode in runs_of:
        print(f"| {TITLES.get(mode, mode)} | " + " | ".join(cells[mode] for _, cells in shown) + " |", flush=True)


def compare(options, place, modes, title, groups, hosts=0):
    """Measures, prints, and keeps the runs by `title`."""
    if options.tune is not None:
        print(f"\n{title}\n\n{place.tune()}", end="")
        return
    runs_of = {mode: [] for mode in modes}
    for _ in range(options.rounds):
        for mode in modes:
            with tempfile.TemporaryDirectory() as folder:
                runs_of[mode].append(place.run(mode, folder))
    groups[title] = runs_of
    print_table(f"{options.model}, {options.image} px, batch {options.batch} a rank, {title}", runs_of, hosts, options)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", default="", help="numbers of hosts, one rank each, as 2,3,4")
    parser.add_argument("--rate", default="1gbit", help="of each host's link: kbit, mbit or gbit")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--width", type=int, default=64, help="channels of the stem")
    parser.add_argument("--image", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--also", action="append", default=[], metavar="TITLE: FLAGS", help="ddp with further flags")
    parser.add_argument("--exposed", type=int, default=0, metavar="ROUNDS", help="rondo-train's --measure-exposed")
    parser.add_argument("--tune", metavar="FLAGS", help="only what rondo-train --tune finds ('': with its usual flags)")
    parser.add_argument("--port", type=int, default=29710)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--svg", default="")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.modes = options.modes.split(",")
    for mode in options.modes:
        if mode not in MODES:
            parser.error(f"no mode {mode}; there are {', '.join(MODES)}")
    if options.rate[-4:] not in UNITS:
        parser.error(f"no rate {options.rate}: write 1gbit, 500mbit")
    options.flags = {}
    for row in options.also:
        title, colon, flags = row.rpartition(": ")
        if not colon:
            parser.error(f"--also '{row}': write TITLE: FLAGS")
        options.flags[title.strip()] = shlex.split(flags)
    options.modes += options.flags
    return options


def main():
    options = read_options()
    groups = {}
    if not options.hosts:
        compare(options, Here(options), options.modes, f"{options.ranks} ranks of one host", groups)
    elif why := fixture.why_not():
        sys.exit(why)
    for count in map(int, options.hosts.split(",") if options.hosts else []):
        modes = [mode for mode in options.modes if mode != "dp"]  # which is one process
        with fixture.Hosts(count, own_pids=False) as hosts:
            for host in hosts:
                host.shape(options.rate)
            compare(options, OnHosts(options, hosts), modes, f"{count} hosts, links of {options.rate}", groups, count)
    if options.svg and groups:
        bars = {title: {TITLES.get(mode, mode): median(runs, "images_per_s") for mode, runs in runs_of.items()}
                for title, runs_of in groups.items()}
        draw_bars(options.svg, "images/s, all ranks", bars)


if __name__ == "__main__":
    main()
