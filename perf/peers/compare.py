#!/usr/bin/env python3
"""Rondo's collectives beside Open MPI's, MPICH's and (all-reduce) Gloo's, in one run.

Every contender runs the same loop (loop.h); contenders take turns in rounds, so that what the machine does meanwhile
meets all of them.  Prints one Markdown table: the median over the rounds of a call's time (itself the median of 7
loops of the slowest rank), and Rondo's ratio to the best peer. Setting: 2 ranks
are bound to a core each; more ranks than cores are unbound, and Open MPI is told that they share cores (MPICH cannot
be told: 8 bytes between 4 ranks of 2 cores did not end in 20 s).  With --transport tcp every contender is held to TCP
over the loopback interface (Open MPI by `--mca btl tcp,self`); Gloo has nothing else.
"""
import argparse
import csv
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SIZES = "8,64,512,4096,32768,262144,2097152,16777216,134217728"
COLLECTIVES = "all_reduce,reduce_scatter,all_gather,broadcast,reduce,gather,scatter,alltoall,sendrecv"
PEERS = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}
TCP_ALONE = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]


def rondo_run(arguments, ranks, bound, variables, command):
    """`rondo run`, which gives Gloo's ranks their numbers, too."""
    settings = [word for variable in variables for word in ("--env", variable)]
    return [os.path.join(arguments.build, "tools", "rondo"), "run", "-n", str(ranks), "--bind",
            "core" if bound else "none", *settings, "--", *command]


def compile_peer(peer, folder):
    """The peer's driver, made in the folder."""
    driver = os.path.join(folder, peer)
    if peer == "gloo":
        if not os.path.exists("/usr/include/gloo/allreduce.h"):
            sys.exit("compare.py: Gloo is not installed; `tools/dev peers` installs it")
        command = ["g++", "-O3", "-std=c++17", os.path.join(HERE, "gloo_all_reduce.cc"), "-o", driver, "-lgloo"]
    else:
        if not shutil.which("mpicc." + peer):
            sys.exit(f"compare.py: mpicc.{peer} is not installed; `tools/dev peers` installs Open MPI")
        command = ["mpicc." + peer, "-std=gnu11", "-O3", os.path.join(HERE, "mpi_collectives.c"), "-o", driver]
    subprocess.run(command, check=True)
    return driver


def peer_command(peer, driver, arguments, folder, ranks, bound, mode):
    """How one peer runs: each rank on a core of its own, or sharing cores."""
    work = [driver, arguments.collectives, arguments.sizes, mode]
    if peer == "gloo":
        store = tempfile.mkdtemp(dir=folder)
        return rondo_run(arguments, ranks, bound, ["GLOO_STORE=" + store, "GLOO_INTERFACE=lo"], work)
    if peer == "openmpi":
        placing = ["--bind-to", "core"] if bound else ["--bind-to", "none", "--oversubscribe"]
        network = TCP_ALONE if arguments.transport == "tcp" else []
        return ["mpirun.openmpi", "--allow-run-as-root", "-n", str(ranks), *placing, *network, *work]
    return ["mpirun.mpich", "-bind-to", "core" if bound else "none", "-n", str(ranks), *work]


def contenders(arguments, folder):
    """name: function of (ranks, bound, mode) that gives a command."""
    result = {}
    for peer in arguments.peers.split(","):
        driver = compile_peer(peer, folder)
        result[PEERS[peer]] = lambda ranks, bound, mode, peer=peer, driver=driver: peer_command(
            peer, driver, arguments, folder, ranks, bound, mode)
    driver = os.path.join(arguments.build, "perf", "peers", "rondo_collectives")
    for memory in arguments.memory.split(","):
        result["Rondo " + memory] = lambda ranks, bound, mode, memory=memory: rondo_run(
            arguments, ranks, bound, ["RONDO_TRANSPORT=" + arguments.transport],
            [driver, arguments.collectives, arguments.sizes, mode, memory])
    return result


def times_of(command):
    """{(collective, bytes): microseconds} as a driver prints them."""
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        sys.exit(f"compare.py: status {run.returncode} of: {' '.join(command)}")
    rows = [line.split() for line in run.stdout.splitlines()]
    return {(row[0], int(row[1])): float(row[2]) for row in rows}


def measure(arguments, commands):
    """{(collective, ranks, mode, bytes, name): [microseconds, one a round]}."""
    cores = len(os.sched_getaffinity(0))
    results = {}
    for number in range(arguments.rounds):
        for ranks in map(int, arguments.ranks.split(",")):
            for mode in arguments.modes.split(","):
                for name, command in commands.items():
                    print(f"round {number + 1} of {arguments.rounds}: {ranks} ranks, {mode}, {name}", file=sys.stderr)
                    for (collective, size), time in times_of(command(ranks, ranks <= cores, mode)).items():
                        results.setdefault((collective, ranks, mode, size, name), []).append(time)
    return results


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def table(results, names):
    """The lines of the Markdown table."""
    peers = [name for name in names if not name.startswith("Rondo")]
    own = [name for name in names if name.startswith("Rondo")]
    order = COLLECTIVES.split(",")
    best = "best peer" if len(peers) > 1 else peers[0]
    lines = ["| collective | ranks | data | size | " + " | ".join(f"{name}, us" for name in names) + " | " +
             " | ".join(f"{name} / {best}" for name in own) + " |",
             "|---|---|---|---|" + "---:|" * (len(names) + len(own))]
    rows = sorted(dict.fromkeys(key[:4] for key in results), key=lambda row: order.index(row[0]))
    for collective, ranks, mode, size in rows:
        medians = {name: statistics.median(results[collective, ranks, mode, size, name]) for name in names}
        least = min(medians[name] for name in peers)
        figures = [f"{medians[name]:.2f}" for name in names] + [f"{medians[name] / least:.2f}" for name in own]
        lines.append(f"| {collective} | {ranks} | {mode} | {size_text(size)} | " + " | ".join(figures) + " |")
    return lines


def write_csv(path, results):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["collective", "ranks", "data", "bytes", "contender", "round", "time_us"])
        for (collective, ranks, mode, size, name), times in results.items():
            for number, time in enumerate(times, 1):
                writer.writerow([collective, ranks, mode, size, name, number, time])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (build)")
    parser.add_argument("--collectives", default="all_reduce", help=f"of {COLLECTIVES} (all_reduce)")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (2,4)")
    parser.add_argument("--sizes", default=SIZES, help="sizes in bytes")
    parser.add_argument("--modes", default="hot,fresh", help="hot, fresh or both")
    parser.add_argument("--peers", default="openmpi", help="of openmpi, mpich, gloo (openmpi)")
    parser.add_argument("--transport", default="shm", choices=("shm", "tcp"), help="shm, or tcp over 127.0.0.1 (shm)")
    parser.add_argument("--memory", default="plain,alloc", help="Rondo's buffers: from malloc, ncclMemAlloc (both)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--csv", help="also write every time measured into this file")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory() as folder:
        commands = contenders(arguments, folder)
        results = measure(arguments, commands)
    print("\n".join(table(results, list(commands))))
    if arguments.csv:
        write_csv(arguments.csv, results)


if __name__ == "__main__":
    main()
