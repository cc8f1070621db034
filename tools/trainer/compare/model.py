"""What the cost model says of training steps on more devices than this machine has: nothing here is measured.

Usage: model.py [--build build] [--compute-ms 127] [--gradients-mb 102.2] [--also DEVICES,HOSTS,HOST_GB,LINK_GB]...
Devices of one host are joined by links of HOST_GB GB/s, hosts by links of LINK_GB; latencies are 5 and 10 us.  Times of
exchanges are those of the plans that `rondo plan --cost` runs in virtual time, the fastest of each collective's.

The step: ResNet-50's, whose report gives the parts.  Forward takes 31 %, backward 63 %, the optimizer 6 % of the
computation; the five buckets of 25 MiB are ready at the shares of backward below.  ddp: a bucket's all-reduce begins
when it is ready and the one before is done; what ends behind backward is exposed.  ps: gradients are gathered on one
device, which sends parameters back; nothing is hidden.  Computation is as long on any number of devices, and pays
nothing for the exchange.  127 ms is what the published steps leave: 215 ms less 40 %, 148 ms less 15 %.
"""
import argparse
import json
import os
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
FORWARD, BACKWARD = 0.31, 0.63
BUCKETS = ((0.080, 0.01), (0.308, 0.18), (0.257, 0.38), (0.260, 0.60), (0.095, 1.0))  # shares of bytes; of backward
HOST_LATENCY_US, LINK_LATENCY_US = 5, 10
USUAL = ("4,4,8,0.125", "8,1,12,12", "64,8,12,3.125", "64,8,12,12.5")


class Machine:
    """Devices on hosts, with their links."""

    def __init__(self, text, build):
        devices, hosts, self.host_gb, self.link_gb = text.split(",")
        self.devices, self.hosts = int(devices), int(hosts)
        self.rondo = os.path.join(build, "tools", "rondo")

    def seconds(self, collective, megabytes):
        """Of the fastest schedule, which the model lists first."""
        each = [str(self.devices // self.hosts)] * self.hosts
        done = subprocess.run([self.rondo, "plan", collective[0], collective[1], "--json", "--cost", "-n",
                               str(self.devices), "--hosts", *each, "--bytes", str(int(megabytes * 1e6)),
                               "--same-host", str(HOST_LATENCY_US), self.host_gb, "--other-host", str(LINK_LATENCY_US),
                               self.link_gb], capture_output=True, text=True, check=True)
        return min(row["seconds"] for row in json.loads(done.stdout)["costs"])

    def name(self):
        inside = f"{self.host_gb} GB/s within a host" if self.devices > self.hosts else ""
        between = f"{self.link_gb} GB/s between hosts" if self.hosts > 1 else ""
        return f"{self.devices} devices, {self.hosts} host{'s' if self.hosts > 1 else ''}, " + ", ".join(
            part for part in (inside, between) if part)


def ddp(machine, compute, gradients):
    """(seconds of the all-reduces, seconds of a step)."""
    begin, end, total = FORWARD * compute, 0.0, 0.0
    for share, ready in BUCKETS:
        seconds = machine.seconds(("all_reduce", "ring"), share * gradients)
        end = max(end, begin + ready * BACKWARD * compute) + seconds
        total += seconds
    return total, max(end, (FORWARD + BACKWARD) * compute) + (1 - FORWARD - BACKWARD) * compute


def server(machine, compute, gradients):
    """The same, of a gather and a broadcast."""
    total = machine.seconds(("gather", "direct"), gradients * machine.devices)
    total += machine.seconds(("broadcast", "chain"), gradients)
    return total, compute + total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--compute-ms", type=float, default=127)
    parser.add_argument("--gradients-mb", type=float, default=102.2)
    parser.add_argument("--also", action="append", default=[], metavar="DEVICES,HOSTS,HOST_GB,LINK_GB")
    options = parser.parse_args()
    print("| cost model, not measured | way | exchange, ms | step, ms | communication, % | times 1 device |\n"
          "|---|---|---:|---:|---:|---:|")
    compute = options.compute_ms / 1e3
    for text in (*USUAL, *options.also):
        machine = Machine(text, options.build)
        for name, way in (("ps", server), ("ddp", ddp)):
            exchange, step = way(machine, compute, options.gradients_mb)
            print(f"| {machine.name()} | {name} | {1e3 * exchange:.1f} | {1e3 * step:.1f} | "
                  f"{100 * (1 - compute / step):.1f} | {machine.devices * compute / step:.2f} |", flush=True)


if __name__ == "__main__":
    main()
