"""All-reduce over links of a known rate beside raw TCP over the same links, in turns: how much of a link Rondo uses.

Usage: shaped.py [--rate 1gbit] [--size 16M] [--ranks 2,3,4] [--rounds 5] [--calls 5] [--build build].  One rank a host,
hosts made of namespaces (needs root), every link shaped by `tc tbf` both ways.  An all-reduce of S bytes over n ranks
sends and receives 2(n-1)/n S on every link; raw TCP sends and receives that much around the ring, with nothing above
the sockets (perf/duplex.cpp).  Goodput is that volume by the time, the median over the rounds.
"""
import argparse
import os
import statistics
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(ROOT, "tools", "hosts"))

import hosts as fixture  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20}


def raw(hosts, build, volume):
    """Mbit/s each way."""
    addresses = [host.address for host in hosts]
    ranks = [host.start(os.path.join(build, "perf", "duplex_perf"), str(rank), str(volume), *addresses,
                        stdout=fixture.subprocess.PIPE) for rank, host in enumerate(hosts)]
    try:
        seconds = [float(rank.communicate(timeout=fixture.PATIENCE_S)[0]) for rank in ranks]
    finally:
        for rank in ranks:
            fixture.stop(rank)
    return volume * 8 / statistics.mean(seconds) / 1e6


def reduce(hosts, build, size, calls):
    """Mbit/s each way: nccl-tests' bus bandwidth, in place."""
    command = [os.path.join(build, "perf", "all_reduce_perf"), "-b", size, "-e", size, "-n", str(calls), "-w", "1"]
    results = fixture.run_ranks(hosts, list(range(len(hosts))), command)
    for status, out, err in results:
        if status:
            sys.exit(out + err)
    row = next(line.split() for line in results[0][1].splitlines() if line.split()[1:2] and line.split()[0].isdigit())
    return size_of(size) * 2 * (len(hosts) - 1) / len(hosts) * 8 / float(row[-4])


def size_of(text):
    return int(text.rstrip("KM")) * UNITS.get(text[-1], 1)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("rate", "1gbit"), ("size", "16M"), ("ranks", "2,3,4"), ("build", "build")):
        parser.add_argument("--" + name, default=default)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=5)
    options = parser.parse_args()
    if why := fixture.why_not():
        sys.exit(why)
    build = os.path.abspath(options.build)
    print(f"| ranks | raw TCP, Mbit/s each way | all-reduce of {options.size}, Mbit/s | of raw |\n|---|---:|---:|---:|")
    for ranks in map(int, options.ranks.split(",")):
        volume = int(size_of(options.size) * 2 * (ranks - 1) / ranks) * options.calls
        with fixture.Hosts(ranks) as hosts:
            for host in hosts:
                host.shape(options.rate)
            rounds = [(raw(hosts, build, volume), reduce(hosts, build, options.size, options.calls))
                      for _ in range(options.rounds)]
        limit, ours = (statistics.median(column) for column in zip(*rounds))
        print(f"| {ranks} | {limit:.1f} | {ours:.1f} | {ours / limit:.3f} |", flush=True)


if __name__ == "__main__":
    main()
