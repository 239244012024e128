#!/usr/bin/python3
"""Lets two step servers (peers/README.md) take turns and prints samples/s of both and their ratio.

Usage: compare_step_servers.py [--rounds N] [--seconds S] [--cpu C] COMMAND COMMAND
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess


class Server:
    def __init__(self, command, cpu):
        one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        pin = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self.process = subprocess.Popen(pin + shlex.split(command), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **one})
        self.name = json.loads(self.process.stdout.readline())["system"]
        self.rates = []

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
        answer = self.ask(f"run {self.steps}")
        self.rates.append(answer["samples"] / answer["seconds"])


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
        print(f"{server.name}: samples/s {describe(server.rates)}")
        server.ask("quit")
    ratios = [a / b for a, b in zip(first.rates, second.rates)]
    print(f"{first.name} / {second.name}: {describe(ratios, 2)}")


if __name__ == "__main__":
    main()
