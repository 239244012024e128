#!/usr/bin/python3
"""Lets whole trainings take turns and compares speed and metric with those of the first.

Each round runs every variant once, in order, with a seed of its own for data, order and first
values; ratios and gaps are taken within a round.

On a shared machine whose speed changes from second to second, --turns 0.3 lets the variants of a
round take turns of so many seconds: the others stand still meanwhile (SIGSTOP). Compared is then
the median step, in which the few steps that were interrupted do not count. Usage:
  compare_trainings.py --rounds 5 --train "ctr-dnn --train-samples 200000" \\
      "local=" "async=--strategy ps --mode async --workers 1 --servers 1"
"""
import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METRICS = ("auc", "accuracy", "pair_ratio")
PUSH_AND_PULL = ("wait", "reduce", "apply")
WARM_UP = 15  # steps of a training that --turns leaves out


class Training:
    """One training, a process with children."""

    def __init__(self, program, arguments, run):
        self.run = run
        self.command = [program, "train", *arguments, "--run", str(run), "--quiet", "--json"]
        try:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
        except OSError as error:
            sys.exit(f"{program}: {error.strerror}")

    def signal_all(self, number):
        """To the process and everything below it."""
        children = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended
            children.setdefault(parent, []).append(int(stat.parent.name))
        family = [self.process.pid]
        for member in family:
            family += children.get(member, [])
        for member in family:
            try:
                os.kill(member, number)
            except ProcessLookupError:
                pass

    def result(self):
        output, errors = self.process.communicate()
        if self.process.returncode != 0:
            sys.exit(f"{shlex.join(self.command)} ended with {self.process.returncode}:\n{errors}")
        result = json.loads(output.strip().splitlines()[-1])
        lines = (self.run / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        result["step_events"] = [event for event in events if event["type"] == "step"][WARM_UP:]
        return result


def take_turns(trainings, seconds):
    """Until all have ended, one of them runs at a time and the others stand still."""
    running = list(trainings)
    for training in running:
        training.signal_all(signal.SIGSTOP)
    while running:
        for training in list(running):
            training.signal_all(signal.SIGCONT)
            try:
                training.process.wait(seconds)
                running.remove(training)
            except subprocess.TimeoutExpired:
                training.signal_all(signal.SIGSTOP)


def one_round(variants, seconds):
    """Results by name, of (name, program, arguments). `seconds` 0: one after the other."""
    trainings, results = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, program, arguments in variants:
                trainings[name] = Training(program, arguments, Path(folder) / str(len(trainings)))
                if seconds == 0:
                    results[name] = trainings[name].result()
            if seconds > 0:
                take_turns(trainings.values(), seconds)
                results = {name: training.result() for name, training in trainings.items()}
            return results
        finally:  # whatever happened, nothing is left that stands still
            for training in trainings.values():
                if training.process.poll() is None:
                    training.signal_all(signal.SIGKILL)
                    training.process.wait()


def median_ms(result, phases=None):
    """Of a step, all of it or the sum of some phases."""
    def of(event):
        if phases is None:
            return 1000 * event["seconds"]
        return sum(event["phases_ms"].get(phase, 0) for phase in phases)
    return statistics.median(of(event) for event in result["step_events"])


def step_line(mine, first, name):
    if not mine[0]["step_events"]:
        sys.exit(f"--turns compares steps after the first {WARM_UP}, and there are none")
    ratios = [100 * median_ms(b) / median_ms(a) for a, b in zip(mine, first)]
    parts = {"step": None, "compute": ("forward", "backward"), "push and pull": PUSH_AND_PULL}
    times = ", ".join(f"{part} {spread([median_ms(r, phases) for r in mine], 2)}"
                      for part, phases in parts.items())
    return f"{times} ms, {spread(ratios, 1)} % of the speed of {name}"


def metric_of(result):
    return next((result[name] for name in METRICS if result.get(name) is not None), None)


def spread(values, digits):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} .. {max(values):.{digits}f})")


def whole_line(mine, first, name):
    ratios = [100 * a["samples_per_second"] / b["samples_per_second"] for a, b in zip(mine, first)]
    return (f"{spread([r['samples_per_second'] for r in mine], 0)} samples/s, "
            f"{spread(ratios, 1)} % of {name}")


def metric_text(mine, first):
    if metric_of(mine[0]) is None:
        return ""
    gaps = [metric_of(a) - metric_of(b) for a, b in zip(mine, first)]
    return f"; metric {spread([metric_of(r) for r in mine], 4)}, gap {spread(gaps, 4)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/paceline"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", required=True, help="arguments that all variants share")
    parser.add_argument("--turns", type=float, default=0, metavar="SECONDS",
                        help="take turns within a round")
    parser.add_argument("variants", nargs="+",
                        help="NAME=ARGUMENTS, or NAME@PROGRAM=ARGUMENTS for another build")
    arguments = parser.parse_args()
    variants = [variant.partition("=")[::2] for variant in arguments.variants]
    results = {name: [] for name, _ in variants}
    for round_number in range(arguments.rounds):
        shared = shlex.split(arguments.train) + ["--seed", str(round_number + 1)]
        round_variants = [(name, name.partition("@")[2] or arguments.program,
                           shared + shlex.split(more)) for name, more in variants]
        for name, result in one_round(round_variants, arguments.turns).items():
            results[name].append(result)
    first = results[variants[0][0]]
    print(f"median (lowest .. highest) of {arguments.rounds} rounds: {arguments.train}")
    for name, _ in variants:
        line = step_line if arguments.turns > 0 else whole_line
        text = line(results[name], first, variants[0][0])
        print(f"{name:<12} {text}{metric_text(results[name], first)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
