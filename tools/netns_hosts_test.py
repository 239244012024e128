#!/usr/bin/python3
"""Tests tools/netns_hosts.sh: bytes cross, and nothing is left behind whatever ends it.

Exit code 77 (skipped) when not root or where namespaces cannot be made.
"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parent / "netns_hosts.sh"

# Sends one byte from the second host to the first.
CROSS = r"""
set -e
set -- $PACELINE_NETNS
first=$1 second=$2
set -- $PACELINE_NETNS_ADDRESSES
ip netns exec $first /usr/bin/python3 -c '
import socket, sys
server = socket.create_server((sys.argv[1], 0))
server.settimeout(20)
print(server.getsockname()[1], flush=True)
peer, _ = server.accept()
peer.settimeout(20)
print(peer.recv(1).decode(), flush=True)
' $1 > "$OUT" &
while ! [ -s "$OUT" ]; do :; done
read port < "$OUT"
ip netns exec $second /usr/bin/python3 -c '
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).send(b"x")
' $1 $port
wait
"""


def namespaces(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines()
            if line.startswith(f"paceline-netns-{pid}-")]


class NetnsHosts(unittest.TestCase):
    def start(self, *arguments, **options):
        return subprocess.Popen([SCRIPT, *arguments], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **options)

    def end(self, process):
        out, error = process.communicate(timeout=60)
        self.assertEqual(namespaces(process.pid), [])
        return out, error

    def test_bytes_cross_from_host_to_host(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            process = self.start("2", "1gbit", "--", "/bin/sh", "-c", CROSS,
                                 env={**os.environ, "OUT": str(out)})
            _, error = self.end(process)
            self.assertEqual(process.returncode, 0, error)
            self.assertEqual(out.read_text().split()[1], "x")

    def test_links_are_shaped_and_have_the_mtu(self):
        process = self.start("--mtu", "9000", "2", "123mbit", "--", "/bin/sh", "-c",
                             "set -- $PACELINE_NETNS; ip netns exec $2 tc qdisc show dev eth0; "
                             "ip -n $2 link show eth0")
        out, error = self.end(process)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn("tbf", out)
        self.assertIn("rate 123Mbit", out)
        self.assertIn("mtu 9000", out)

    def test_the_agent_runs_words_on_a_host(self):
        process = self.start("2", "1gbit", "--", "/bin/sh", "-c",
                             "$PACELINE_NETNS_AGENT 10.77.0.2 sh -c "
                             "\"'hostname; ip -br address show eth0'\"")
        out, error = self.end(process)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn("10.77.0.2\n", out)
        self.assertIn("10.77.0.2/24", out)

    def test_the_exit_code_is_the_commands(self):
        process = self.start("1", "1gbit", "--", "/bin/sh", "-c", "exit 42")
        self.end(process)
        self.assertEqual(process.returncode, 42)

    def test_a_stop_removes_everything(self):
        # A process inside a namespace that ignores the stop, too.
        command = ("ip netns exec ${PACELINE_NETNS%% *} /bin/sh -c 'trap \"\" TERM; echo here; "
                   "while :; do sleep 1; done'")
        process = self.start("2", "1gbit", "--", "/bin/sh", "-c", command)
        self.assertEqual(process.stdout.readline(), "here\n")
        self.assertEqual(len(namespaces(process.pid)), 3)
        process.send_signal(signal.SIGTERM)
        self.end(process)
        self.assertEqual(process.returncode, 143)

    def test_leftovers_of_a_killed_script_are_removed(self):
        process = self.start("2", "1gbit", "--", "/bin/sh", "-c",
                             "echo here; exec sleep 600", start_new_session=True)
        self.assertEqual(process.stdout.readline(), "here\n")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertEqual(len(namespaces(process.pid)), 3)
        self.end(self.start("1", "1gbit", "--", "/bin/true"))
        self.assertEqual(namespaces(process.pid), [])

    def test_wrong_arguments_are_refused(self):
        for arguments in ([], ["2", "1gbit"], ["0", "1gbit", "--", "true"],
                          ["2", "fast", "--", "true"]):
            process = self.start(*arguments)
            _, error = self.end(process)
            self.assertNotEqual(process.returncode, 0)
            self.assertNotEqual(error, "")


def can_make_namespaces():
    if os.geteuid() != 0:
        return False
    name = f"paceline-netns-probe-{os.getpid()}"
    try:
        if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
            return False
    except FileNotFoundError:
        return False
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return True


if __name__ == "__main__":
    if not can_make_namespaces():
        print("skipped: needs root and network namespaces")
        sys.exit(77)
    unittest.main()
