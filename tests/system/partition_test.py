#!/usr/bin/python3
"""Elastic runs on emulated hosts whose network is cut in two (T04) or slow (T05).

Unlike the faults of elastic_test.cc these are the kernel's: packets vanish without a word, for the
heartbeats and for the gradients. Usage: partition_test.py BIN_DIR [unittest arguments].
Exit code 77 (skipped) without root, ip, tc or network namespaces.
"""
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HELPER = Path(__file__).resolve().parents[2] / "tools" / "netns_hosts.sh"
HOSTS = 6  # the coordinator's, and one for each of at most five workers
RATE = "1gbit"
BURST = 256 * 1024  # bytes that a link takes at once, as in the helper
SHARDS = 5
DEADLINE = 150  # seconds; only against hanging, nothing is timed
SOME_STEPS = 5  # enough to say that the training goes on
FENCED = 17  # exit code of a worker that was given up
ENDLESS = 1_000_000  # steps of a run that the test ends

# Emulated hosts are one machine to the programs, which would share memory past the network. No
# checkpoint comes before the end: whoever joins can have the state from nobody but its peers.
FLAGS = ["vgg16-small", "--shards", str(SHARDS), "--batch", "4", "--train-samples", "40",
         "--eval-samples", "10", "--threads", "1", "--reproducible", "--shared-memory", "off",
         "--checkpoint-every", str(ENDLESS), "--eval-every", str(ENDLESS), "--quiet",
         "--blame-every", "1"]
LIVENESS = ["--heartbeat", "0.2", "--dead-timeout", "2"]

bin_dir = folder = None  # set by main()


def run_command(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=DEADLINE)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Network:
    """The hosts of netns_hosts.sh. Host 0 is the coordinator's."""

    def __init__(self):
        self.hosts = os.environ["PACELINE_NETNS"].split()
        self.addresses = os.environ["PACELINE_NETNS_ADDRESSES"].split()
        self.switch = self.hosts[0].rsplit("-", 1)[0] + "-switch"

    def on_host(self, host, *words):
        return ["ip", "netns", "exec", self.hosts[host], *map(str, words)]

    def __enter__(self):
        run_command("ip", "-n", self.switch, "link", "add", "island", "type", "bridge")
        run_command("ip", "-n", self.switch, "link", "set", "island", "up")
        return self

    def __exit__(self, *_):
        for host in range(HOSTS):
            self.plug(host, "hub")
            self.set_rate(host, RATE)
        run_command("ip", "-n", self.switch, "link", "delete", "island")

    def plug(self, host, bridge):
        # In another switch a host keeps its link and its routes, so that no local error betrays the
        # cut; hosts on the same side still reach each other.
        run_command("ip", "-n", self.switch, "link", "set", f"port{host}", "master", bridge)

    def set_rate(self, host, rate):
        for namespace, device in ((self.hosts[host], "eth0"), (self.switch, f"port{host}")):
            run_command("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
                        "rate", rate, "burst", str(BURST), "latency", "20ms")

    def traffic(self, host):
        """The rate of a host's link as the kernel has it, bytes a second, and the bytes sent."""
        shaper, = json.loads(run_command("tc", "-n", self.hosts[host], "-s", "-j", "qdisc", "show",
                                         "dev", "eth0"))
        return shaper["options"]["rate"], shaper["bytes"]


class Program:
    """A process on a host, ended at the latest by ElasticRun."""

    def __init__(self, network, host, log, words, environment):
        self.host, self.log = host, log
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("PACELINE_")}
        with open(log, "wb") as output:
            # `ip netns exec` becomes the program: the id is the program's.
            self.process = subprocess.Popen(
                network.on_host(host, *words), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env={**clean, **environment})
        self.pid = self.process.pid

    def code(self):
        return self.process.poll()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def text(self):
        return self.log.read_text(errors="replace")


class ElasticRun:
    """A coordinator and workers that nobody but the test starts and ends, and their records."""

    def __init__(self, network, name, minimum, maximum, steps):
        self.network, self.minimum, self.maximum, self.steps = network, minimum, maximum, steps
        self.path = folder / name
        self.programs = []
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32))
        self.environment = {"PACELINE_SECRET_FILE": str(secret)}

    def __enter__(self):
        try:
            self.coordinator = self.start(
                0, self.environment, bin_dir / "paceline", "coordinator", self.path, "--workers",
                f"{self.minimum}:{self.maximum}", "--shards", SHARDS, "--bind",
                f"{self.network.addresses[0]}:0", *LIVENESS)
            self.wait("an address", lambda: self.records("members", "coordinator"))
            self.workers = [self.start_worker(host) for host in range(1, self.maximum + 1)]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.kill()

    def start(self, host, environment, *words):
        log = folder / f"{self.path.name}-program{len(self.programs)}.log"
        self.programs.append(Program(self.network, host, log, words, environment))
        return self.programs[-1]

    def start_worker(self, host):
        endpoint = self.records("members", "coordinator")[-1]["endpoint"]
        place = {"PACELINE_COORDINATOR": endpoint, "PACELINE_RANK": str(host - 1),
                 "PACELINE_WORLD": str(self.maximum)}
        return self.start(host, {**self.environment, **place}, bin_dir / "paceline-worker",
                          "train", *FLAGS, *LIVENESS, "--workers",
                          f"{self.minimum}:{self.maximum}", "--steps", self.steps, "--run",
                          self.path)

    def records(self, file, *types):
        try:
            lines = (self.path / f"{file}.jsonl").read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in whole if record["type"] in types]

    def members(self):
        """The process ids of all that the coordinator knows of."""
        status = json.loads((self.path / "status.json").read_text())
        return {member["pid"] for member in status["members"]}

    def member(self, program):
        return next(record["member"] for record in self.records("members", "join")
                    if record["pid"] == program.pid)

    def furthest_step(self, member):
        """The last step, counted from zero, that a worker had begun when its view broke."""
        lines = (self.path / f"flight-{member}.jsonl").read_text().splitlines()
        return max(json.loads(line).get("step", 0) for line in lines)

    def view(self):
        """The process ids of the view at work by rank, and how many steps it has committed."""
        views = self.records("events", "view")
        if not views:
            return [], 0
        members = sorted(views[-1]["members"], key=lambda member: member["rank"])
        steps = [record for record in self.records("events", "step")
                 if record["generation"] == views[-1]["generation"]]
        return [member["pid"] for member in members], len(steps)

    def trains_with(self, programs):
        pids, steps = self.view()
        return set(pids) == {program.pid for program in programs} and steps >= SOME_STEPS

    def wait(self, what, condition, may_end=()):
        """Polls; nobody ends meanwhile but those who may."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            ended = [program for program in self.programs
                     if program.code() is not None and program not in may_end]
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}; ended: {[p.log.name for p in ended]}\n"
                                     + self.describe())
            time.sleep(0.05)

    def wait_for_end(self, programs, may_end=()):
        self.wait("the end", lambda: all(program.code() is not None for program in programs),
                  [*programs, *may_end])

    def describe(self):
        parts = [f"--- {program.log.name}: code {program.code()}\n{program.text()[-2000:]}"
                 for program in self.programs]
        history = self.path / "members.jsonl"
        return "\n".join([*parts, history.read_text() if history.exists() else ""])


def undisturbed_hash(run, steps):
    """Of a fixed group on one host that does as many steps as the run did."""
    out = run_command(*run.network.on_host(0, bin_dir / "paceline", "train", *FLAGS, "--workers",
                                           "2", "--steps", steps, "--json", "--run",
                                           f"{run.path}-undisturbed"))
    return json.loads(out.splitlines()[-1])["params_hash"]


class Partition(unittest.TestCase):
    def check_end(self, run):
        """Everybody is gone; every sample counted once; the bits are those without faults."""
        codes = [program.code() for program in (run.coordinator, *run.workers)]
        self.assertEqual(codes, [0] * len(codes), run.describe())
        end, = run.records("events", "end")
        self.assertEqual(end["params_hash"], undisturbed_hash(run, end["step"]))
        audit = json.loads(run_command(bin_dir / "paceline", "audit", run.path, "--json"))
        self.assertEqual(audit["late_records"], 0, audit)
        return audit

    def check_fencing(self, run, old, zombies):
        """Nothing was written in the name of the view `old` after the next one had begun."""
        records = run.records("events", "view", "step", "checkpoint")
        after = next(i for i, record in enumerate(records)
                     if record["type"] == "view" and record["generation"] > old["generation"])
        for record in records[after:]:
            self.assertGreater(record["generation"], old["generation"], record)
        for zombie in zombies:
            member = run.member(zombie)
            evicted, = [record for record in run.records("members", "evict", "lost")
                        if record["member"] == member]
            self.assertEqual(evicted["type"], "evict", evicted)
            self.assertIn("silent", evicted["why"], "the cut was noticed otherwise")
            # The step under way at the cut may have been complete, and then the next one was begun;
            # whoever had committed that too would have begun another.
            self.assertLessEqual(run.furthest_step(member), records[after]["step"] + 1)

    def cut_off(self, run, zombies, survivors):
        """Until the others have gone on without them; then they come back, to no avail."""
        for zombie in zombies:
            run.network.plug(zombie.host, "island")
        run.wait("the others to go on", lambda: run.trains_with(survivors))
        run.wait("a status without the lost",
                 lambda: run.members() == {worker.pid for worker in survivors})
        for zombie in zombies:
            run.network.plug(zombie.host, "hub")
        run.wait_for_end(zombies)
        self.assertEqual({zombie.code() for zombie in zombies}, {FENCED}, run.describe())

    def partition(self, minimum, maximum, minority):
        """Cuts off the leader and the members next in rank, `minority` in all."""
        with Network() as network, ElasticRun(network, f"{minimum}-{maximum}", minimum, maximum,
                                              ENDLESS) as run:
            run.wait("the first steps", lambda: run.trains_with(run.workers))
            old = run.records("events", "view")[-1]
            pids, _ = run.view()
            zombies = [worker for worker in run.workers if worker.pid in pids[:minority]]
            survivors = [worker for worker in run.workers if worker not in zombies]
            self.cut_off(run, zombies, survivors)
            run.workers = survivors + [run.start_worker(zombie.host) for zombie in zombies]
            run.wait("the replacements", lambda: run.trains_with(run.workers), zombies)
            # A run of a fixed length might be over before they come. This ends it, for all.
            leader, = [worker for worker in run.workers if worker.pid == run.view()[0][0]]
            leader.process.send_signal(signal.SIGINT)
            run.wait_for_end([run.coordinator, *run.workers], zombies)
            self.check_fencing(run, old, zombies)
            audit = self.check_end(run)
            self.assertLessEqual(audit["repeated_steps"], 1, audit)

    def test_a_leader_that_was_cut_off_commits_nothing_and_is_replaced(self):
        self.partition(minimum=2, maximum=3, minority=1)

    def test_a_minority_commits_nothing_although_it_holds_the_leader(self):
        self.partition(minimum=3, maximum=5, minority=2)

    def test_a_slow_link_evicts_nobody(self):
        with Network() as network:
            network.set_rate(2, "10mbit")
            _, sent_before = network.traffic(2)
            with ElasticRun(network, "slow", 2, 3, steps=6) as run:
                run.wait_for_end(run.programs)
                audit = self.check_end(run)
                rate, sent = network.traffic(2)
                self.assertEqual(rate, 10_000_000 // 8)
                self.assertGreater(sent - sent_before, 10 * BURST, "the rate never mattered")
                self.assertEqual(audit["repeated_steps"], 0, audit)
                view, = run.records("members", "view")
                slow, = [member["rank"] for member in view["members"]
                         if member["pid"] == run.workers[1].pid]
                link = re.compile(rf"from rank {slow} to|to rank {slow} was busy")
                blames = [record["text"] for record in run.records("events", "blame")]
                self.assertTrue(any(link.search(text) for text in blames), blames)
                self.assertEqual(run.records("members", "evict", "lost"), [])
                for program in run.programs:
                    self.assertNotIn("error", program.text())


def skip_without_hosts():
    probe = subprocess.run([HELPER, "1", RATE, "--", "/bin/true"], capture_output=True, text=True)
    if probe.returncode != 0:
        print("skipped: no emulated hosts:", probe.stderr.strip())
        sys.exit(77)


def on_stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up goes to its end
    raise KeyboardInterrupt  # what unittest does not take for a failed test


def main():
    global bin_dir, folder
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if "PACELINE_NETNS" not in os.environ:
        skip_without_hosts()
        # The helper ends and removes whatever is left in the namespaces, should we be killed.
        os.execv(HELPER, [HELPER, str(HOSTS), RATE, "--", sys.executable, *sys.argv])
    signal.signal(signal.SIGTERM, on_stop)
    bin_dir = Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory(prefix="paceline-partition-") as made:
        folder = Path(made)
        unittest.main()


if __name__ == "__main__":
    main()
