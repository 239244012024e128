#!/usr/bin/python3
"""Lets two step servers (peers/README.md) take turns and prints samples/s of both and their ratio.

By wall clock, and by CPU time, which says more when the machine is shared with others.
Usage: compare_step_servers.py [--rounds N] [--seconds S] [--cpu C] COMMAND COMMAND
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
from pathlib import Path


class Server:
    def __init__(self, command, cpu):
        one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        pin = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self.process = subprocess.Popen(pin + shlex.split(command), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **one})
        self.name = json.loads(self.process.stdout.readline())["system"]
        self.rates, self.cpu_rates = [], []

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def calibrate(self, seconds):
        """Warms up, then chooses steps that take about `seconds`."""
        self.ask("run 5")
        answer = self.ask("run 20")
        self.steps = max(1, round(20 * seconds / answer["seconds"]))

    def measure(self):
        before = self.cpu_seconds()
        answer = self.ask(f"run {self.steps}")
        self.rates.append(answer["samples"] / answer["seconds"])
        self.cpu_rates.append(answer["samples"] / (self.cpu_seconds() - before))

    def cpu_seconds(self):
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def describe(values, digits=0):
    ordered = sorted(values)
    return (f"median {statistics.median(values):.{digits}f}, "
            f"{ordered[0]:.{digits}f} .. {ordered[-1]:.{digits}f}, {len(values)} rounds")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--cpu", type=int, help="pin both to this CPU")
    parser.add_argument("commands", nargs=2)
    arguments = parser.parse_args()
    first, second = servers = [Server(c, arguments.cpu) for c in arguments.commands]
    for server in servers:
        server.calibrate(arguments.seconds)
    for _ in range(arguments.rounds):
        for server in servers:
            server.measure()
    for server in servers:
        print(f"{server.name}: samples/s {describe(server.rates)}; "
              f"per CPU second {describe(server.cpu_rates)}")
        server.ask("quit")
    for what, pairs in (("wall", zip(first.rates, second.rates)),
                        ("CPU", zip(first.cpu_rates, second.cpu_rates))):
        print(f"{first.name} / {second.name}, {what}: {describe([a / b for a, b in pairs], 2)}")


if __name__ == "__main__":
    main()
