"""Where contenders run: here, all ranks on this machine, or on hosts made of namespaces, one rank a host.

A place turns a contender into the commands that start it, each with its variables: one launcher, or one command a rank.
The first prints the times.
"""
import os
import stat
import sys
import tempfile

import contenders

sys.path.append(os.path.join(contenders.ROOT, "tools", "hosts"))
import hosts as fixture  # noqa: E402


class Here:
    """Ranks of this machine.  Bound, each keeps to a core, round robin where there are more ranks than cores."""

    def __init__(self, build, folder, transport, bound):
        self._run = os.path.join(build, "tools", "rondo")
        self._folder = folder
        self._transport = transport
        self._bound = bound

    def mpi(self, peer, words, ranks, work):
        alone = self._bound and ranks <= len(os.sched_getaffinity(0))
        network = contenders.tcp_words(peer, "lo", words) if self._transport == "tcp" else []
        start = contenders.launcher(peer, ranks, contenders.placing(peer, alone))
        held = [self._holder()] if self._bound and not alone else []
        return [([*start, *words, *network, *held, *work], contenders.variables(peer))]

    def _holder(self):
        """Holds the command behind it to its rank's core: launchers differ in how they share cores out."""
        cores = sorted(os.sched_getaffinity(0))
        path = os.path.join(self._folder, "held")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\ncase $((${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} % {len(cores)})) in\n")
            file.writelines(f"{number}) core={core} ;;\n" for number, core in enumerate(cores))
            file.write('esac\nexec taskset -c "$core" "$@"\n')
        os.chmod(path, stat.S_IRWXU)
        return path

    def by_rank(self, variables, ranks, work):
        bound = "core" if self._bound else "none"
        settings = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        return [([self._run, "run", "-n", str(ranks), "--bind", bound, *settings, "--", *work], {})]

    def gloo(self, ranks, work):
        store = tempfile.mkdtemp(dir=self._folder)
        return self.by_rank({"GLOO_STORE": store, "GLOO_INTERFACE": "lo"}, ranks, work)

    def rondo(self, ranks, work):
        return self.by_rank({"RONDO_TRANSPORT": self._transport}, ranks, work)


class Hosts:
    """One rank a host; with no more hosts than cores, each host is held to a core of its own."""

    # How each family's launcher is told of an agent that starts a command on a host, and of the hosts.
    AGENTS = {
        "openmpi": ["--bind-to", "none", "--mca", "plm_rsh_agent", "{agent}", "--host", "{hosts}"],
        "openmpi5": ["--bind-to", "none", "--prtemca", "plm_ssh_agent", "{agent}", "--host", "{hosts}"],
        "mpich": ["-launcher", "ssh", "-launcher-exec", "{agent}", "-bind-to", "none", "-hosts", "{hosts}"],
        "intel": ["-launcher", "ssh", "-launcher-exec", "{agent}", "-ppn", "1", "-hosts", "{hosts}",
                  "-genv", "I_MPI_PIN", "0"],
    }

    def __init__(self, hosts, folder):
        self._hosts = hosts
        self._folder = folder
        self._agent = os.path.join(folder, "agent")
        with open(self._agent, "w") as file:
            file.write(self._agent_text())
        os.chmod(self._agent, stat.S_IRWXU)
        self._name_hosts()

    def _agent_text(self):
        """A stand-in for ssh: skips options, enters the host's namespaces, has a shell run the words."""
        lines = ["#!/bin/sh", 'while case "$1" in -*) ;; *) false ;; esac; do shift; done', "host=$1", "shift",
                 'case "$host" in']
        for number, host in enumerate(self._hosts):
            lines.append(f'{host.address}) exec {" ".join(self._enter(number))} sh -c "$*" ;;')
        return "\n".join([*lines, "esac", 'echo "no such host: $host" >&2', "exit 1", ""])

    def _name_hosts(self):
        """Intel MPI's launcher calls back by name: each host, in its own mounts, knows all names."""
        names = os.path.join(self._folder, "hosts")
        with open(names, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{host.address} {host.name}\n" for host in self._hosts)
        for host in self._hosts:
            host.run("mount", "--bind", names, "/etc/hosts")

    def _enter(self, number):
        cores = sorted(os.sched_getaffinity(0))
        held = ["taskset", "-c", str(cores[number])] if len(self._hosts) <= len(cores) else []
        return [*held, *self._hosts[number].command()]

    def mpi(self, peer, words, ranks, work):
        addresses = [host.address + (":1" if peer.family == "openmpi" else "") for host in self._hosts[:ranks]]
        told = self.AGENTS[peer.home if peer.home in self.AGENTS else peer.family]
        agents = [word.format(agent=self._agent, hosts=",".join(addresses)) for word in told]
        start = contenders.launcher(peer, ranks, agents)
        command = [*self._enter(0), *start, *words, *contenders.tcp_words(peer, fixture.INTERFACE, words), *work]
        return [(command, contenders.variables(peer))]

    def by_rank(self, variables, ranks, work):
        return [([*self._enter(rank), *work],
                 {**variables, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                  "MASTER_ADDR": self._hosts[0].address, "MASTER_PORT": "29500"})
                for rank in range(ranks)]

    def gloo(self, ranks, work):
        store = tempfile.mkdtemp(dir=self._folder)
        return self.by_rank({"GLOO_STORE": store, "GLOO_INTERFACE": fixture.INTERFACE}, ranks, work)

    def rondo(self, ranks, work):
        return self.by_rank({}, ranks, work)
