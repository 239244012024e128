#!/usr/bin/python3
"""Lets whole trainings take turns and compares speed and metric with those of the first.

Each round runs every variant once, in order, with a seed of its own for data, order and first
values; ratios and gaps are taken within a round. Usage:
  compare_trainings.py --rounds 5 --train "ctr-dnn --train-samples 200000" \\
      "local=" "async=--strategy ps --mode async --workers 1 --servers 1"
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METRICS = ("auc", "accuracy", "pair_ratio")


def train(program, arguments, folder, name):
    run = Path(folder) / name
    command = [program, "train", *arguments, "--run", str(run), "--quiet", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def metric_of(result):
    return next((result[name] for name in METRICS if result.get(name) is not None), None)


def spread(values, digits):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} .. {max(values):.{digits}f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/paceline"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", required=True, help="arguments that all variants share")
    parser.add_argument("variants", nargs="+", help="NAME=ARGUMENTS")
    arguments = parser.parse_args()
    variants = [variant.partition("=")[::2] for variant in arguments.variants]
    results = {name: [] for name, _ in variants}
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(arguments.rounds):
            for name, more in variants:
                results[name].append(train(arguments.program,
                                           shlex.split(arguments.train) + shlex.split(more)
                                           + ["--seed", str(round_number + 1)],
                                           folder, f"{name}-{round_number}"))
    first = results[variants[0][0]]
    print(f"median (lowest .. highest) of {arguments.rounds} rounds: {arguments.train}")
    for name, _ in variants:
        mine = results[name]
        ratios = [100 * a["samples_per_second"] / b["samples_per_second"]
                  for a, b in zip(mine, first)]
        line = (f"{name:<12} {spread([r['samples_per_second'] for r in mine], 0)} samples/s, "
                f"{spread(ratios, 1)} % of {variants[0][0]}")
        if metric_of(mine[0]) is not None:
            gaps = [metric_of(a) - metric_of(b) for a, b in zip(mine, first)]
            line += f"; metric {spread([metric_of(r) for r in mine], 4)}, gap {spread(gaps, 4)}"
        print(line)


if __name__ == "__main__":
    main()
