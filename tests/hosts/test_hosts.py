"""The fixture itself: that hosts are apart where they should be, together where they should be, and leave nothing."""
import os
import subprocess
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(ROOT, "tools", "hosts"))

import hosts as fixture  # noqa: E402
from hosts import Hosts  # noqa: E402

LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 7000), family=family)
print("listening", flush=True)
peer, address = server.accept()
print(peer.recv(100).decode(), address[0])
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2])) as s: s.sendall(b"hello")
"""


def interfaces():
    return subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout


class HostsTest(unittest.TestCase):
    def test_each_host_has_its_own_name_memory_network_and_processes(self):
        with Hosts(2) as hosts:
            for host in hosts:
                self.assertEqual(host.run("hostname").stdout.strip(), host.name)
                host.run("sh", "-c", f"echo x > /dev/shm/of-{host.name}")
            for host in hosts:
                self.assertEqual(host.run("ls", "/dev/shm").stdout.split(), [f"of-{host.name}"])
                names = {line.split()[0].split("@")[0] for line in host.run("ip", "-br", "link").stdout.splitlines()}
                self.assertEqual(names, {"lo", "eth0"})
                self.assertIn(host.address + "/24", host.run("ip", "-br", "address").stdout)
                self.assertLess(int(host.run("sh", "-c", "echo $$").stdout), 100)
        self.assertFalse(os.path.exists("/dev/shm/of-host0"))

    def test_processes_can_be_numbered_together(self):
        with Hosts(1, own_pids=False) as hosts:
            process = hosts[0].start("sleep", "100")
            self.assertEqual(hosts[0].run("kill", "-0", str(process.pid)).returncode, 0)
            fixture.stop(process)

    def send(self, hosts, sender, address):
        """Sends a word from a host to a listener on host 1; returns what that one heard, and from whom."""
        listener = hosts[1].start("python3", "-c", LISTEN, address, stdout=subprocess.PIPE)
        try:
            self.assertEqual(listener.stdout.readline(), "listening\n")
            sent = hosts[sender].run("python3", "-c", SEND, address, "30")
            self.assertEqual(sent.returncode, 0, sent.stderr)
            return listener.stdout.read().split()
        finally:
            fixture.stop(listener)
            listener.stdout.close()

    def test_bytes_go_from_host_to_host(self):
        with Hosts(3) as hosts:
            self.assertEqual(self.send(hosts, 2, hosts[1].address), ["hello", hosts[2].address])
            self.assertEqual(self.send(hosts, 0, hosts[1].address_6), ["hello", hosts[0].address_6])

    def test_a_link_that_is_down_carries_nothing(self):
        with Hosts(2) as hosts:
            hosts[1].link(False)
            sent = hosts[0].run("python3", "-c", SEND, hosts[1].address, "1")
            self.assertRegex(sent.stderr, "timed out|No route to host")
            hosts[1].link(True)
            self.assertEqual(self.send(hosts, 0, hosts[1].address), ["hello", hosts[0].address])

    def test_an_interface_of_another_network(self):
        with Hosts(2) as hosts:
            hosts[1].add_interface("other0", "10.99.0.1/24")
            self.assertIn("10.99.0.1", hosts[1].run("ip", "-br", "address").stdout)
            sent = hosts[0].run("python3", "-c", SEND, "10.99.0.1", "1")
            self.assertRegex(sent.stderr, "Network is unreachable")

    def test_rates_are_set(self):
        with Hosts(1) as hosts:
            hosts[0].shape("1gbit")
            shown = hosts[0].run("tc", "qdisc", "show", "dev", "eth0").stdout
            self.assertIn("tbf", shown)
            self.assertIn("rate 1Gbit", shown)

    def test_nothing_is_left(self):
        before = interfaces()
        with Hosts(2) as hosts:
            self.assertEqual(interfaces(), before)
            ranks = fixture.run_ranks(hosts, [0, 1, 0], ["sh", "-c", "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE"])
            self.assertEqual([out for _, out, _ in ranks], ["0 0 2\n", "1 0 1\n", "2 1 2\n"])
            holders = [host._holder.pid for host in hosts]
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in holders))
        self.assertEqual(interfaces(), before)


if __name__ == "__main__":
    reason = fixture.why_not()
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    unittest.main()
