#!/usr/bin/env python3
"""Rondo's collectives beside other libraries', in one run: one table, one CSV, one plot.

Every contender runs the same loop (loop.h); contenders take turns in rounds, so that what the machine does meanwhile
meets all of them.  The table holds medians over the rounds of a call's time (itself the median of 7 loops of the
slowest rank), and Rondo's ratio to the fastest peer at that size.  Each peer runs with its defaults and, `tuned`, with
its best documented setting: contenders.py.  Every rank keeps to a core, in turn where there are more ranks than cores;
--bind none lets the kernel place them.

--transport tcp holds every contender to TCP over the loopback interface; hosts runs one rank a host, hosts made of
namespaces (needs root).  A contender that fails, or does not end in --patience seconds, is left out from then on for
that number of ranks and kind of data, with one sentence.  --from draws what earlier runs wrote by --csv, all rounds
together, and measures nothing.
"""
import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import contenders
import places
import report

SIZES = "8,64,512,4096,32768,262144,2097152,16777216,134217728"


def say(words):
    print("compare.py: " + words, file=sys.stderr, flush=True)


class Failed(Exception):
    """A contender's run is void."""


def peers_of(words):
    if words in ("all", "none"):
        return list(contenders.PEERS) if words == "all" else []
    return words.split(",")


def starters(arguments, folder):
    """{name: (collectives it has or () for all, function of (place, ranks, mode, collectives) that gives commands)}"""
    result = {}
    for key in peers_of(arguments.peers):
        if why := contenders.missing(key):
            say(f"{why}: left out (`tools/dev peers` installs it)")
            continue
        add_peer(result, key, contenders.compile_driver(key, folder), arguments)
    driver = os.path.join(arguments.build, "perf", "peers", "rondo_collectives")
    for memory in arguments.memory.split(","):
        def start(place, ranks, mode, collectives, memory=memory):
            return place.rondo(ranks, [driver, collectives, arguments.sizes, mode, memory])
        result[f"{report.OURS} {memory}"] = (), start
    return result


def add_peer(result, key, driver, arguments):
    peer = contenders.PEERS[key]

    def start(place, ranks, mode, collectives, words=()):
        work = [driver, collectives, arguments.sizes, mode]
        return place.gloo(ranks, work) if peer.family == "gloo" else place.mpi(peer, words, ranks, work)

    if "default" in arguments.settings:
        result[peer.title] = peer.collectives, start
    if "tuned" in arguments.settings and peer.tuned:
        result[peer.title + " tuned"] = peer.collectives, (
            lambda place, ranks, mode, collectives: start(place, ranks, mode, collectives, peer.tuned))


def parse(output):
    """{(collective, bytes): microseconds} as a driver prints them."""
    rows = [line.split() for line in output.splitlines()]
    return {(row[0], int(row[1])): float(row[2]) for row in rows if len(row) == 5 and row[1].isdigit()}


def end(process):
    """Ends a launcher, which ends its ranks, or else all of its group."""
    for number, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return


def times_of(commands, patience_s):
    """Runs the commands together; what the first printed.  Raises Failed."""
    processes = []
    try:
        for command, variables in commands:
            processes.append(subprocess.Popen(
                command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
                stdout=subprocess.PIPE if not processes else subprocess.DEVNULL))
        try:
            output = processes[0].communicate(timeout=patience_s)[0]
            statuses = [process.wait(patience_s) for process in processes]
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end in {patience_s} s") from None
    finally:
        for process in processes:
            if process.poll() is None:
                end(process)
            if process.stdout:
                process.stdout.close()
    if any(statuses):
        raise Failed(f"ended with status {next(filter(None, statuses))}")
    times = parse(output)
    if not times:
        raise Failed("printed no times")
    return times


@contextlib.contextmanager
def place_for(arguments, ranks, folder):
    if arguments.transport == "hosts":
        with places.fixture.Hosts(ranks, own_pids=False) as hosts:
            yield places.Hosts(hosts, folder)
    else:
        yield places.Here(arguments.build, folder, arguments.transport, arguments.bind == "core")


def measure(arguments, all_starters, folder):
    """The results, as report.py describes them."""
    results, void = {}, set()
    for number in range(arguments.rounds):
        for ranks in map(int, arguments.ranks.split(",")):
            with place_for(arguments, ranks, folder) as place:
                for mode in arguments.modes.split(","):
                    for name in all_starters:
                        if (name, ranks, mode) in void:
                            continue
                        say(f"round {number + 1} of {arguments.rounds}: {ranks} ranks, {mode}, {name}")
                        if not run_one(arguments, all_starters[name], place, (ranks, mode, name), results):
                            void.add((name, ranks, mode))
    return results


def run_one(arguments, starter, place, what, results):
    """Adds one contender's times to the results; whether it may run again."""
    ranks, mode, name = what
    has, start = starter
    collectives = [word for word in arguments.collectives.split(",") if not has or word in has]
    if not collectives:
        return False
    try:
        times = times_of(start(place, ranks, mode, ",".join(collectives)), arguments.patience)
    except Failed as failure:
        say(f"{name}, {ranks} ranks, {mode}: {failure}: left out")
        return False
    for (collective, size), time in times.items():
        results.setdefault((collective, ranks, mode, size, name), []).append(time)
    return True


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(contenders.ROOT, "build"), help="build folder (build)")
    parser.add_argument("--collectives", default="all_reduce", help=f"of {report.COLLECTIVES} (all_reduce)")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (2,4)")
    parser.add_argument("--sizes", default=SIZES, help="sizes in bytes")
    parser.add_argument("--modes", default="hot,fresh", help="of hot,fresh (both)")
    parser.add_argument("--peers", default="all", help=f"of {','.join(contenders.PEERS)}, or none (all)")
    parser.add_argument("--settings", default="default,tuned", help="peers' settings, of default,tuned (both)")
    parser.add_argument("--transport", default="shm", choices=("shm", "tcp", "hosts"),
                        help="shm, tcp over 127.0.0.1, or tcp between hosts (shm)")
    parser.add_argument("--memory", default="plain,alloc",
                        help="Rondo's buffers, of plain,alloc: from malloc, ncclMemAlloc (both)")
    parser.add_argument("--bind", default="core", choices=("core", "none"),
                        help="each rank to a core, round robin, or none; not between hosts (core)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--patience", type=int, default=120, help="seconds that one run may take (120)")
    parser.add_argument("--brief", action="store_true", help="of the peers' times show only the fastest")
    parser.add_argument("--csv", help="also write every time measured into this file")
    parser.add_argument("--svg", help="also draw ratios to the fastest peer into this file")
    parser.add_argument("--from", dest="earlier", help="measure nothing: CSV files, with commas between")
    arguments = parser.parse_args(words)
    arguments.build = os.path.abspath(arguments.build)
    check(parser, "peer", ",".join(peers_of(arguments.peers)), contenders.PEERS)
    check(parser, "collective", arguments.collectives, report.COLLECTIVES.split(","))
    check(parser, "mode", arguments.modes, ("hot", "fresh"))
    check(parser, "setting", arguments.settings, ("default", "tuned"))
    check(parser, "memory", arguments.memory, ("plain", "alloc"))
    return arguments


def check(parser, what, words, known):
    """Refuses what would run under a wrong name, or not at all."""
    unknown = set(filter(None, words.split(","))) - set(known)
    if unknown:
        parser.error(f"no such {what}: {', '.join(sorted(unknown))} (there are: {', '.join(known)})")


def stop_on_signals():
    """So that contenders end with this program."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def main(words=None):
    arguments = arguments_of(words)
    stop_on_signals()
    if arguments.earlier:
        results = report.read_csv(arguments.earlier.split(","))
    else:
        if arguments.transport == "hosts" and (why := places.fixture.why_not()):
            sys.exit("compare.py: " + why)
        with tempfile.TemporaryDirectory() as folder:
            results = measure(arguments, starters(arguments, folder), folder)
    print("\n".join(report.table(results, arguments.brief)))
    if arguments.csv:
        report.write_csv(arguments.csv, results)
    if arguments.svg:
        with open(arguments.svg, "w") as file:
            file.write(report.svg(results))


if __name__ == "__main__":
    main()
