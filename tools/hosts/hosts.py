"""Hosts made of namespaces, for tests and measurements: each has its own network, host name, /dev/shm and, if asked,
process numbers.

All of them hang on one bridge, in a namespace of its own; the machine's own network is never touched, and nothing has a
name outside.  A namespace lives as long as the process that holds it, and that one ends when its standard input does:
so even a killed test leaves nothing behind.  Needs root; `why_not()` says in a sentence what is missing.
"""
import os
import shutil
import signal
import subprocess

ADDRESS_4 = "10.77.0.{}"
ADDRESS_6 = "fd77::{}"
LOCAL_6 = "fe80::77:{}"
FAMILIES = ("4", "6", "local 6")
INTERFACE = "eth0"
PATIENCE_S = 60


def why_not():
    """Why hosts can't be made here; empty: they can."""
    for program in ("ip", "tc", "unshare", "nsenter"):
        if not shutil.which(program):
            return f"{program} is not installed (Debian: iproute2, util-linux)"
    probe = subprocess.run(["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "true"],
                           capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"namespaces can't be made: {probe.stderr.strip()}"


class Holder:
    """A process that keeps namespaces open.  `pid` is one inside them, as seen from here."""

    def __init__(self, kinds, setup):
        own_pids = ["--pid", "--fork", "--mount-proc"] if "pid" in kinds else []
        others = ["--" + kind for kind in kinds if kind != "pid"]
        self.process = subprocess.Popen(["unshare", *others, *own_pids, "sh", "-ec", setup + "\necho ready\nexec cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            self.end()
            raise RuntimeError("a namespace could not be set up; see above")
        self.pid = self.process.pid
        if own_pids:
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
                self.pid = int(file.read().split()[0])
        self.enter = ["nsenter", "--target", str(self.pid), *others, *(["--pid"] if own_pids else []), "--"]

    def run(self, *command):
        subprocess.run([*self.enter, *command], check=True, stdin=subprocess.DEVNULL)

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE_S)


class Host:
    def __init__(self, number, holder, hub, families):
        self.number = number
        self.name = f"host{number}"
        self.address = ADDRESS_4.format(number + 1)
        self.address_6 = ADDRESS_6.format(number + 1)
        self.local_6 = f"{LOCAL_6.format(number + 1)}%{INTERFACE}"
        self._holder = holder
        self._hub = hub
        self._port = f"port{number}"
        hub.run("ip", "link", "add", self._port, "type", "veth", "peer", "name", INTERFACE, "netns", str(holder.pid))
        hub.run("ip", "link", "set", self._port, "master", "bridge0", "up")
        holder.run("ip", "link", "set", INTERFACE, "addrgenmode", "none")
        for family, address in (("4", self.address + "/24"), ("6", self.address_6 + "/64"),
                                ("local 6", LOCAL_6.format(number + 1) + "/64")):
            if family in families:
                holder.run("ip", "address", "add", address, "dev", INTERFACE, *([] if family == "4" else ["nodad"]))
        self.link(True)

    def shape(self, rate):
        """Limits what leaves and what enters, as tc writes rates ("1gbit")."""
        for holder, device in ((self._holder, INTERFACE), (self._hub, self._port)):
            holder.run("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "tbf", "rate", rate,
                       "burst", "128kb", "latency", "50ms")

    def link(self, up):
        self._holder.run("ip", "link", "set", INTERFACE, "up" if up else "down")

    def add_interface(self, name, address):
        """A further interface (and its other end, NAME-end), of a network that no other host has."""
        self._holder.run("ip", "link", "add", name, "type", "veth", "peer", "name", name + "-end")
        self._holder.run("ip", "address", "add", address, "dev", name)
        for end in (name, name + "-end"):
            self._holder.run("ip", "link", "set", end, "up")

    def command(self, *command):
        return [*self._holder.enter, *command]

    def run(self, *command, **options):
        return subprocess.run(self.command(*command), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              stdin=subprocess.DEVNULL, **options)

    def start(self, *command, **options):
        """A process in a group of its own: see `stop`."""
        return subprocess.Popen(self.command(*command), stdin=subprocess.DEVNULL, text=True, start_new_session=True,
                                **options)


def stop(process):
    """Kills a process that `Host.start` began, with all that it started in its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(PATIENCE_S)


class Hosts:
    """`with Hosts(3) as hosts:` is a sequence of hosts that reach each other.  `own_pids`: each numbers its processes
    itself, as containers do.  `families`: the addresses that they have, of FAMILIES."""

    def __init__(self, count, own_pids=True, families=FAMILIES):
        self._families = families
        self._count = count
        self._own_pids = own_pids
        self._holders = []

    def __enter__(self):
        try:
            hub = self._hold(["net"], "ip link add bridge0 type bridge\nip link set bridge0 up")
            hosts = []
            for number in range(self._count):
                setup = f"hostname host{number}\nmount -t tmpfs -o size=64m shm /dev/shm\nip link set lo up"
                kinds = ["net", "uts", "ipc", "mount"] + (["pid"] if self._own_pids else [])
                hosts.append(Host(number, self._hold(kinds, setup), hub, self._families))
            return hosts
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for holder in reversed(self._holders):
            holder.end()

    def _hold(self, kinds, setup):
        self._holders.append(Holder(kinds, setup))
        return self._holders[-1]


def start_ranks(hosts, placement, command, variables=None, port=29500):
    """Starts `command` once for every entry of `placement`, the host of that rank, with torchrun's variables; rank 0's
    host is the master, by its address of NCCL_SOCKET_FAMILY in `variables` unless they have MASTER_ADDR.  Returns the
    processes: `stop` each."""
    variables = variables or {}
    master = hosts[placement[0]]
    address = master.address_6 if variables.get("NCCL_SOCKET_FAMILY") == "AF_INET6" else master.address
    address = variables.get("MASTER_ADDR", address)
    processes = []
    try:
        for rank, host in enumerate(placement):
            environment = {**os.environ, **variables,
                           "RANK": str(rank), "WORLD_SIZE": str(len(placement)),
                           "LOCAL_RANK": str(placement[:rank].count(host)),
                           "LOCAL_WORLD_SIZE": str(placement.count(host)),
                           "MASTER_ADDR": address, "MASTER_PORT": str(port)}
            processes.append(hosts[host].start(*command, env=environment, stdout=subprocess.PIPE,
                                               stderr=subprocess.PIPE))
        return processes
    except BaseException:
        for process in processes:
            stop(process)
        raise


def run_ranks(hosts, placement, command, variables=None, port=29500):
    """The same, to the end: returns [(exit status, standard output, standard error)] by rank."""
    processes = start_ranks(hosts, placement, command, variables, port)
    try:
        results = []
        for process in processes:
            out, error = process.communicate(timeout=4 * PATIENCE_S)
            results.append((process.returncode, out, error))
        return results
    finally:
        for process in processes:
            stop(process)
