#!/usr/bin/python3
"""Step server that trains CTR-DNN with PyTorch. Protocol and tuning: README.md."""

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import peer_environment

POOL = 65_536  # synthetic samples kept in memory
DENSE, SLOTS, ROWS, DIM, WIDTH = 13, 26, 1_000_001, 10, 400


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["ctr-dnn"], default="ctr-dnn")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--embedding", choices=["sparse", "dense"], default="sparse")
    parser.add_argument("--optimizer", choices=["adagrad", "adagrad-foreach", "adam"],
                        default="adagrad")
    parser.add_argument("--malloc", choices=["tuned", "default"], default="tuned")
    arguments = parser.parse_args()
    if not 1 <= arguments.batch <= POOL or arguments.threads < 1:
        parser.error(f"--batch must be 1 to {POOL} and --threads at least 1")
    return arguments


def zipf_ids(torch):
    """The popularity of SyntheticCtr (src/data/synthetic_ctr.h): every octave as likely."""
    octaves = 2 + (math.floor(math.log2(ROWS)) - 2) * torch.arange(SLOTS) // (SLOTS - 1)
    octave = (torch.rand(POOL, SLOTS) * octaves).long()
    category = ((1 + torch.rand(POOL, SLOTS)) * (1 << octave)).long() - 1
    scattered = category * 2_654_435_761 + torch.arange(SLOTS) * 40_503_000_007
    return (scattered ^ (scattered >> 15)) % ROWS


class Trainer:
    def __init__(self, torch, arguments):
        torch.manual_seed(1)
        torch.set_num_threads(arguments.threads)
        nn = torch.nn
        self.torch, self.batch = torch, arguments.batch
        sparse = arguments.embedding == "sparse"
        self.table = nn.Embedding(ROWS, DIM, sparse=sparse)
        nn.init.uniform_(self.table.weight, -1, 1)
        sizes = [SLOTS * DIM + DENSE, WIDTH, WIDTH, WIDTH]
        layers = []
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
        layers.append(nn.Linear(WIDTH, 2))
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=layer.in_features ** -0.5)
                nn.init.zeros_(layer.bias)
        self.net = nn.Sequential(*layers)
        self.optimizers = self.make_optimizers(arguments.optimizer, sparse)
        self.dense = torch.rand(POOL, DENSE) ** 2
        self.ids = zipf_ids(torch)
        self.labels = (torch.rand(POOL) < 0.25).long()
        self.order, self.cursor = torch.randperm(POOL), 0

    def make_optimizers(self, name, sparse):
        optim, dense = self.torch.optim, list(self.net.parameters())
        if name == "adam":
            table = optim.SparseAdam if sparse else optim.Adam
            return [optim.Adam(dense, lr=1e-4), table([self.table.weight], lr=1e-4)]
        foreach = name == "adagrad-foreach"
        return [optim.Adagrad(dense, lr=0.01, foreach=foreach),
                optim.Adagrad([self.table.weight], lr=0.01)]

    def parameters(self):
        return [self.table.weight, *self.net.parameters()]

    def next_batch(self):
        if self.cursor + self.batch > POOL:
            self.order, self.cursor = self.torch.randperm(POOL), 0
        picked = self.order[self.cursor:self.cursor + self.batch]
        self.cursor += self.batch
        return self.ids[picked], self.dense[picked], self.labels[picked]

    def run(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            ids, dense, labels = self.next_batch()
            for optimizer in self.optimizers:
                optimizer.zero_grad(set_to_none=True)
            inputs = self.torch.cat([self.table(ids).flatten(1), dense], dim=1)
            loss = self.torch.nn.functional.cross_entropy(self.net(inputs), labels,
                                                          reduction="sum")
            loss.backward()
            for optimizer in self.optimizers:
                optimizer.step()
        value = loss.item() / self.batch
        return {"seconds": time.perf_counter() - start, "samples": steps * self.batch,
                "loss": value if math.isfinite(value) else None}


def version(torch):
    """Debian's build calls 1.13.1 "1.13.0a0"; its package knows better."""
    if torch.__file__.startswith("/usr/lib/python3/"):
        query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-torch"],
                               capture_output=True, text=True, check=False)
        if query.returncode == 0 and query.stdout:
            return query.stdout.split("+")[0].split("-")[0]
    return torch.__version__


def say(message):
    print(json.dumps(message), flush=True)


def serve(torch, arguments):
    trainer = Trainer(torch, arguments)
    parameters = trainer.parameters()
    say({"ready": True, "system": "PyTorch", "version": version(torch),
         "model": arguments.model, "params": sum(p.numel() for p in parameters),
         "tensors": len(parameters), "batch": arguments.batch,
         "threads": torch.get_num_threads()})
    for line in sys.stdin:
        words = line.split()
        if len(words) == 2 and words[0] == "run" and words[1].isdigit() and int(words[1]) > 0:
            say(trainer.run(int(words[1])))
        elif words == ["quit"]:
            say({"max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
            return 0
        else:
            print(f"ctr_dnn_pytorch: unknown command {line.strip()!r}", file=sys.stderr)
            return 2
    return 0  # the harness went away


def main():
    arguments = parse_arguments()
    peer_environment.start_again(arguments.malloc)
    try:
        import torch
    except ImportError as error:
        print(f"ctr_dnn_pytorch: PyTorch is not installed (apt install python3-torch): {error}",
              file=sys.stderr)
        return 3
    return serve(torch, arguments)


if __name__ == "__main__":
    sys.exit(main())
