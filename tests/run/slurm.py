"""A Slurm cluster: munged, slurmctld and a slurmd a node, of this user (root), for the life of a `with` block.

Its one node is this machine, whose daemons listen on loopback; or its nodes are hosts of tools/hosts.  All its files,
sockets and logs are in one folder that is removed at the end.  `missing()` says what keeps it from running here.
"""
import os
import shutil
import socket
import subprocess
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd", "srun")
PATIENCE_S = 60

CONFIGURATION = """
ClusterName=rondotest
SlurmctldHost={host}({address})
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why no cluster can run here, or None."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    absent = [name for name in DAEMONS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    return "not installed: " + ", ".join(absent) if absent else None


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Node:
    """This machine."""
    name = socket.gethostname().split(".")[0]
    address = "127.0.0.1"

    @staticmethod
    def command(*command):
        return list(command)


class Cluster:
    def __init__(self, nodes=(Node,)):
        self.nodes = nodes

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="rondo-slurm-")
        self.daemons = []
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        os.mkdir(os.path.join(self.folder, "state"))
        os.chmod(self.folder, 0o711)  # munged wants its folder closed to writers
        key = os.path.join(self.folder, "munge.key")
        with open(key, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(128))
        controller_port, node_port = free_ports(2)
        configuration = os.path.join(self.folder, "slurm.conf")
        with open(configuration, "w") as file:
            nodes = "\n".join(f"NodeName={node.name} NodeAddr={node.address} CPUs=8 State=UNKNOWN"
                              for node in self.nodes)
            file.write(CONFIGURATION.format(host=self.nodes[0].name, address=self.nodes[0].address, folder=self.folder,
                                            controller_port=controller_port, node_port=node_port, nodes=nodes))
        self.environment = {**os.environ, "SLURM_CONF": configuration}
        self.daemon(Node, "munged", "--foreground", "--force", "--key-file=" + key,
                    *(f"--{what}-file={self.folder}/munge.{what}" for what in ("pid", "log", "seed")),
                    f"--socket={self.folder}/munge.socket")
        self.until(lambda: os.path.exists(f"{self.folder}/munge.socket"), "munged does not listen")
        self.daemon(self.nodes[0], "slurmctld", "-D", "-f", configuration)
        for node in self.nodes:
            self.daemon(node, "slurmd", "-D", "-f", configuration, "-N", node.name)
        self.until(self.idle, "the nodes do not become idle")

    def daemon(self, node, name, *arguments):
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        with open(os.path.join(self.folder, name + ".out"), "a") as log:
            self.daemons.append(subprocess.Popen(node.command(path, *arguments), env=self.environment,
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT))

    def srun(self, *arguments):
        """The command that runs srun in this cluster, with SLURM_CONF set."""
        return self.nodes[0].command("srun", *arguments)

    def idle(self):
        told = subprocess.run(self.nodes[0].command("sinfo", "-h", "-N", "-o", "%T"), env=self.environment,
                              capture_output=True, text=True)
        return told.stdout.split() == ["idle"] * len(self.nodes)

    def until(self, condition, complaint):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.daemons):
                raise RuntimeError(complaint + ":\n" + self.logs())
            time.sleep(0.1)

    def logs(self):
        texts = []
        for daemon in DAEMONS[:3]:
            path = os.path.join(self.folder, daemon + ".out")
            if os.path.exists(path):
                with open(path) as file:
                    texts.append(file.read()[-2000:])
        return "\n".join(texts)
