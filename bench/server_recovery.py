#!/usr/bin/python3
"""Kills parameter servers at random moments of a training and says how long it stood still.

One run is left alone, one is struck --kills times (SIGKILL, one server after the other, the next one
only when training goes on). Afterwards every server must have applied each push of each trainer
exactly once, and in mode sync the parameters must be those of the run that was left alone, to the
bit. Everything behind "--" goes to both trainings. Usage:
  server_recovery.py --kills 20 --steps 3000 -- ctr-dnn-small --mode sync --batch 32
"""
import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOOK_AGAIN = 0.002
LONGEST = 120  # seconds until a server must be back


def start(arguments, run, more=()):
    command = [arguments.program, "train", *arguments.train, "--strategy", "ps",
               "--workers", str(arguments.workers), "--servers", str(arguments.servers),
               "--steps", str(arguments.steps), "--run", str(run), "--quiet", "--json", *more]
    log = open(run.with_suffix(".log"), "w")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)


def finish(process, run):
    out, _ = process.communicate()
    if process.returncode != 0:
        tail = run.with_suffix(".log").read_text()[-2000:]
        sys.exit(f"the training ended with {process.returncode}:\n{tail}")
    return json.loads(out.strip().splitlines()[-1])


def record_of(run, server):
    try:
        return json.loads((run / f"servers/server-{server}.json").read_text())
    except (OSError, ValueError):
        return None


class Steps:
    """How far trainer 0 is, by its records."""

    def __init__(self, run):
        self.path, self.file, self.step = run / "events.jsonl", None, 0

    def look(self):
        if self.file is None and self.path.exists():
            self.file = open(self.path)
        while self.file is not None:
            at = self.file.tell()
            line = self.file.readline()
            if not line.endswith("\n"):
                self.file.seek(at)
                break
            if '"type": "step"' in line or '"type":"step"' in line:
                self.step = json.loads(line)["step"]
        return self.step


def await_that(condition, process, what):
    deadline = time.monotonic() + LONGEST
    while not condition():
        if process.poll() is not None:
            sys.exit(f"the training ended before {what}: give it more --steps")
        if time.monotonic() > deadline:
            sys.exit(f"no {what} within {LONGEST} s")
        time.sleep(LOOK_AGAIN)


def strike(process, run, steps, victim):
    """Seconds until the server is ready again, and until a step after that."""
    pid = record_of(run, victim)["pid"]
    struck = time.monotonic()
    os.kill(pid, signal.SIGKILL)

    def is_back():
        record = record_of(run, victim)
        return record is not None and record["pid"] != pid
    await_that(is_back, process, "server that came back")
    ready = time.monotonic()
    before = steps.look()
    await_that(lambda: steps.look() > before, process, "step")
    return ready - struck, time.monotonic() - struck


def disturbed(arguments, run):
    choose = random.Random(arguments.seed)
    process = start(arguments, run, ("--restarts", "1000000"))
    steps, times = Steps(run), []
    try:
        for number in range(arguments.kills):
            before = steps.look()
            await_that(lambda: steps.look() > before, process, "step")
            time.sleep(choose.uniform(0, arguments.pause))
            times.append(strike(process, run, steps, choose.randrange(arguments.servers)))
            print(f"{number + 1} of {arguments.kills}: ready after {1e3 * times[-1][0]:.0f} ms, "
                  f"next step after {1e3 * times[-1][1]:.0f} ms", file=sys.stderr)
        return finish(process, run), times
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def quantiles(seconds):
    ordered = sorted(1e3 * s for s in seconds)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"p50": statistics.median(ordered), "p95": p95, "max": ordered[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/paceline"))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--pause", type=float, default=0.5, help="longest time between, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("train", nargs="+", help="model and flags of `paceline train`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        expected = finish(start(arguments, whole), whole)
        run = Path(folder) / "struck"
        result, times = disturbed(arguments, run)
        servers = [record_of(run, i) for i in range(arguments.servers)]
        pushes = [record_of(whole, i)["pushes"] for i in range(arguments.servers)]
    found = {"pushes_expected": pushes, "pushes": [s["pushes"] for s in servers],
             "refused_as_duplicates": [s["duplicates"] for s in servers],
             "hash_of_whole": expected["params_hash"], "hash": result["params_hash"],
             "server_ready_ms": quantiles([ready for ready, _ in times]),
             "next_step_ms": quantiles([step for _, step in times])}
    failures = []
    if found["pushes"] != pushes:
        failures.append("pushes are missing, or applied twice")
    if result.get("mode") == "sync" and result["params_hash"] != expected["params_hash"]:
        failures.append("the parameters differ from those of the run that was left alone")
    if arguments.json:
        print(json.dumps({**found, "kills": len(times), "failures": failures}))
    else:
        for name in ("server_ready_ms", "next_step_ms"):
            print(name, " ".join(f"{k} {v:.0f}" for k, v in found[name].items()))
        print(f"pushes applied {found['pushes']}, expected {pushes}; sent again and refused "
              f"{found['refused_as_duplicates']}; same bits: "
              f"{result['params_hash'] == expected['params_hash']}")
    sys.exit(f"FAILED: {'; '.join(failures)}" if failures else 0)


if __name__ == "__main__":
    main()
