"""Who is measured: each peer, what it is compiled with, how it is started, and its best documented setting.

Peers of Debian are where Debian puts them; wheels lie in a virtual environment each below build-peers/ (they would
overwrite one another's files).  `tools/dev peers` installs all; whatever is missing is left out with one sentence.

Each peer runs with its defaults, and again *tuned*: with what of its documentation made it faster on the machine that
docs/measured.md describes, where what was tried stands.
"""
import dataclasses
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WHEELS = os.path.join(ROOT, "build-peers")


@dataclasses.dataclass(frozen=True)
class Peer:
    title: str          # in tables
    family: str         # openmpi, mpich, intel (whose launcher oneCCL uses) or gloo
    home: str = ""      # the wheels' folder in build-peers/; empty: Debian's
    driver: str = "mpi_collectives.c"
    collectives: tuple = ()  # empty: all
    tuned: tuple = ()   # further words for its launcher: ("--mca", NAME, VALUE) or ("-genv", NAME, VALUE); empty: none


# Open MPI: messages of up to 64 KiB (its default: 4 KiB) go through its cells, longer ones by kernel copies.
# MPICH 4: messages of 32 KiB and more by kernel copies.
# MPICH 5: collectives made of messages, and kernel copies, in place of its collectives through shared cells.
# Intel MPI: a flat tree up to 128 KiB, its topology-aware segmented algorithm above.
# oneCCL: straight into Intel MPI's all-reduce.
PEERS = {
    "openmpi": Peer("Open MPI 4", "openmpi",
                    tuned=("--mca", "pml", "ob1", "--mca", "btl_vader_eager_limit", "65536")),
    "openmpi5": Peer("Open MPI 5", "openmpi", "openmpi5",
                     tuned=("--mca", "pml", "ob1", "--mca", "btl_sm_eager_limit", "65536")),
    "mpich": Peer("MPICH 4", "mpich", tuned=("-genv", "UCX_RNDV_THRESH", "32768")),
    "mpich5": Peer("MPICH 5", "mpich", "mpich5",
                   tuned=("-genv", "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE", "0",
                          "-genv", "MPIR_CVAR_CH4_CMA_ENABLE", "1")),
    "intelmpi": Peer("Intel MPI", "intel", "intel",
                     tuned=("-genv", "I_MPI_ADJUST_ALLREDUCE", "9:0-131072;14:131073-268435456")),
    "oneccl": Peer("oneCCL", "intel", "intel", "ccl_all_reduce.cc", ("all_reduce",),
                   tuned=("-genv", "CCL_ALLREDUCE", "direct")),
    "gloo": Peer("Gloo", "gloo", "", "gloo_all_reduce.cc", ("all_reduce",)),
}
# What holds a family to TCP between ranks of one machine, as launcher words.
TCP_ALONE = {
    "openmpi": ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "{interface}"),
    "mpich": ("-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self",
              "-genv", "UCX_NET_DEVICES", "{interface}"),
    "intel": ("-genv", "I_MPI_FABRICS", "ofi", "-genv", "FI_PROVIDER", "tcp", "-genv", "FI_TCP_IFACE", "{interface}"),
}


def missing(key):
    """Why a peer can't be measured here, in a sentence; empty: it can."""
    peer = PEERS[key]
    if peer.home:
        header = os.path.join(WHEELS, peer.home, "include", "oneapi/ccl.hpp" if key == "oneccl" else "mpi.h")
        return "" if os.path.exists(header) else f"{peer.title} is not in build-peers/{peer.home}"
    if peer.family == "gloo":
        return "" if os.path.exists("/usr/include/gloo/allreduce.h") else "Gloo's headers are not installed"
    wrapper = "mpicc." + peer.family
    return "" if shutil.which(wrapper) else f"{wrapper} is not installed"


def compile_driver(key, folder):
    """The peer's driver, made in the folder."""
    peer = PEERS[key]
    driver = os.path.join(folder, key)
    source = os.path.join(HERE, peer.driver)
    if peer.home:
        home = os.path.join(WHEELS, peer.home)
        libraries = os.path.join(home, "lib")
        command = ["gcc", "-std=gnu11"] if source.endswith(".c") else ["g++", "-std=c++17"]
        command += ["-O3", source, "-o", driver, "-I" + os.path.join(home, "include"), "-L" + libraries]
        command += ["-lccl"] if key == "oneccl" else []
        command += ["-lmpi", f"-Wl,-w,-rpath,{libraries},-rpath-link,{libraries}"]
    elif peer.family == "gloo":
        command = ["g++", "-O3", "-std=c++17", source, "-o", driver, "-lgloo"]
    else:
        command = ["mpicc." + peer.family, "-std=gnu11", "-O3", source, "-o", driver]
    subprocess.run(command, check=True)
    return driver


def launcher(peer, ranks, words):
    """How an MPI starts its ranks, with `words` of its family about where."""
    programs = {"openmpi": "mpirun", "mpich": "mpiexec", "intel": "mpiexec.hydra"}
    program = programs[peer.family] + ("" if peer.home else "." + peer.family)
    if peer.home:
        program = os.path.join(WHEELS, peer.home, "bin", program)
    root = ["--allow-run-as-root"] if peer.family == "openmpi" else []
    return [program, *root, "-n", str(ranks), *words]


def placing(peer, bound):
    """Launcher words that bind each rank to a core of its own, or let ranks share cores."""
    if peer.family == "openmpi":
        return ["--bind-to", "core"] if bound else ["--bind-to", "none", "--oversubscribe"]
    if peer.family == "mpich":
        return ["-bind-to", "core" if bound else "none"]
    return ["-genv", "I_MPI_PIN", "1" if bound else "0"]


def tcp_words(peer, interface, words):
    """What holds the peer to TCP, less what `words` set already: Open MPI takes no parameter twice."""
    alone = TCP_ALONE[peer.family]
    triples = [alone[i:i + 3] for i in range(0, len(alone), 3)]
    return [word.format(interface=interface) for triple in triples if triple[1] not in words for word in triple]


def variables(peer):
    """What the peer's launcher needs in its environment."""
    if peer.driver != "ccl_all_reduce.cc":
        return {}
    home = os.path.join(WHEELS, peer.home)
    return {"CCL_ROOT": home, "LD_LIBRARY_PATH": os.path.join(home, "lib"), "CCL_LOG_LEVEL": "error"}
