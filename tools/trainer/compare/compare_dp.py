"""Ways to train on several ranks, side by side: none, dp, ps, ddp of rondo-train, and PyTorch's DDP over Gloo.

Usage: compare_dp.py [--ranks 2] [--hosts 2,3,4] [--rate 1gbit] [--model resnet50] [--image 64] [--batch 32]
[--max-steps 10] [--rounds 3] [--build build] [--modes one,none,dp,ps,ddp,gloo] [--svg FILE].  Without --hosts: ranks of
one host, through shared memory (Gloo: loopback).  With it: one rank a host, hosts made of namespaces (needs root), each
link shaped both ways.  All modes in turns, each round anew; the same model, synthetic images, one thread a rank.
Figures are medians over the rounds.  `one` is one rank with the whole machine to itself; `none` the ranks without any
exchange.  Exposed is what the report of rondo-train says; for Gloo, a step less one under no_sync().
"""
import argparse
import json
import os
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


class Figures:
    """What one run of one mode gave."""

    def __init__(self, step_ms, images_per_s, exposed=None, memory=None, link_bytes=None):
        self.step_ms = step_ms
        self.images_per_s = images_per_s
        self.exposed = exposed        # share of the step in which computation waits for communication
        self.memory = memory or []    # peak of resident bytes, by rank
        self.link_bytes = link_bytes  # of a step, both ways, on the busiest host's link


def read_report(path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    memory = [rank["memory"]["peak_rss_bytes"] for rank in report["ranks"]]
    return Figures(1000 * report["step_s"], report["images_per_second"], report["exposed_share"], memory)


def read_gloo(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    return Figures(result["step_ms"], result["images_per_s"], result["exposed_ms"] / result["step_ms"])


def python_of_torch():
    return os.path.join(ROOT, "build-torch", "bin", "python")


def command_of(mode, options, ranks, report):
    """A rank's command line."""
    model = ["--model", options.model, "--stem", "imagenet", "--width", str(options.width), "--num-classes", "1000",
             "--image", str(options.image), "--batch", str(options.batch), "--max-steps", str(options.max_steps)]
    if mode == "gloo":
        script = os.path.join(ROOT, "tools", "trainer", "compare", "torch_ddp.py")
        return [python_of_torch(), script, *model, "--json", report]
    parallel = {"one": "none"}.get(mode, mode)
    replicas = ["--replicas", str(ranks)] if mode == "dp" else []
    return [os.path.join(options.build, "tools", "rondo-train"), *model, "--data", "synthetic", "--parallel", parallel,
            *replicas, "--threads", "1", "--report", report]


def run_here(mode, options, folder):
    """All ranks on this host."""
    ranks = 1 if mode in ("one", "dp") else options.ranks
    report = os.path.join(folder, "report.json")
    launcher = [os.path.join(options.build, "tools", "rondo"), "run", "-n", str(ranks), "--master-port",
                str(options.port), "--timeout", str(PATIENCE_S), "--"]
    command = launcher + command_of(mode, options, options.ranks, report)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return read_gloo(report) if mode == "gloo" else read_report(report)


def link_bytes(host):
    """Bytes that have gone over the host's link, both ways."""
    folder = f"/sys/class/net/{fixture.INTERFACE}/statistics/"
    # /sys shows the namespace it was mounted in: a fresh mount shows the host's own.
    script = f"mount -t sysfs none /sys && cat {folder}rx_bytes {folder}tx_bytes"
    done = host.run("unshare", "--mount", "sh", "-ec", script)
    return sum(map(int, done.stdout.split()))


def run_on_hosts(mode, options, hosts, folder):
    """One rank a host."""
    ranks = 1 if mode == "one" else len(hosts)
    report = os.path.join(folder, "report.json")
    before = [link_bytes(host) for host in hosts]
    results = fixture.run_ranks(hosts, list(range(ranks)), command_of(mode, options, ranks, report), port=options.port,
                                variables={"GLOO_SOCKET_IFNAME": fixture.INTERFACE})
    for status, out, error in results:
        if status:
            sys.exit(out + error)
    figures = read_gloo(report) if mode == "gloo" else read_report(report)
    busiest = max(link_bytes(host) - b for host, b in zip(hosts, before))
    figures.link_bytes = busiest / options.max_steps  # Gloo makes as many again, which exchange nothing
    return figures


def median(runs, field):
    values = [getattr(run, field) for run in runs]
    return statistics.median(values) if all(value is not None for value in values) else None


def print_table(title, runs_of):
    """One row a mode."""
    print(f"\n{title}\n\n| mode | step, ms | images/s | times 1 rank | exposed, % of the step | largest rank's memory "
          "above the smallest's, MB | busiest link, MB a step |\n|---|---:|---:|---:|---:|---:|---:|")
    one = median(runs_of["one"], "images_per_s") if "one" in runs_of else None
    for mode, runs in runs_of.items():
        speed = median(runs, "images_per_s")
        exposed, link = median(runs, "exposed"), median(runs, "link_bytes")
        apart = len(runs[0].memory) > 1 and mode != "dp"  # whose replicas share one process
        lopsided = [max(run.memory) - min(run.memory) for run in runs] if apart else []
        cells = [TITLES[mode], f"{median(runs, 'step_ms'):.0f}", f"{speed:.1f}",
                 f"{speed / one:.2f}" if one else "", f"{100 * exposed:.1f}" if exposed is not None else "",
                 f"{statistics.median(lopsided) / 1e6:.0f}" if lopsided else "", f"{link / 1e6:.1f}" if link else ""]
        print("| " + " | ".join(cells) + " |", flush=True)


def compare(options, run, modes):
    runs_of = {mode: [] for mode in modes}
    for _ in range(options.rounds):
        for mode in modes:
            with tempfile.TemporaryDirectory() as folder:
                runs_of[mode].append(run(mode, folder))
    return runs_of


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", default="", help="numbers of hosts, one rank each, as 2,3,4")
    parser.add_argument("--rate", default="1gbit", help="of each host's link, as tc writes it")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--width", type=int, default=64, help="channels of the stem")
    parser.add_argument("--image", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--port", type=int, default=29710)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--svg", default="")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.modes = options.modes.split(",")
    for mode in options.modes:
        if mode not in MODES:
            parser.error(f"no mode {mode}; there are {', '.join(MODES)}")
    return options


def main():
    options = read_options()
    groups = {}
    if not options.hosts:
        runs_of = compare(options, lambda mode, folder: run_here(mode, options, folder), options.modes)
        groups[f"{options.ranks} ranks of one host"] = runs_of
    elif why := fixture.why_not():
        sys.exit(why)
    for count in map(int, options.hosts.split(",") if options.hosts else []):
        modes = [mode for mode in options.modes if mode != "dp"]  # which is one process
        with fixture.Hosts(count, own_pids=False) as hosts:
            for host in hosts:
                host.shape(options.rate)
            runs_of = compare(options, lambda mode, folder, h=hosts: run_on_hosts(mode, options, h, folder), modes)
        groups[f"{count} hosts, links of {options.rate}"] = runs_of
    for title, runs_of in groups.items():
        print_table(f"{options.model}, {options.image} px, batch {options.batch} a rank, {title}", runs_of)
    if options.svg:
        bars = {title: {TITLES[mode]: median(runs, "images_per_s") for mode, runs in runs_of.items()}
                for title, runs_of in groups.items()}
        draw_bars(options.svg, "images/s, all ranks", bars)


if __name__ == "__main__":
    main()
