#!/usr/bin/python3
"""Step server that trains image models with PyTorch. Protocol and tuning: README.md."""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import peer_environment

POOL = 2048  # synthetic images kept in memory; contents do not change the speed
MODELS = ["vgg16", "vgg16-small", "resnet50", "resnet50-small", "se-resnet50", "se-resnet50-small",
          "mobilenet-v2", "mobilenet-v2-small"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="vgg16")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layout", choices=["auto", "contiguous", "channels_last"], default="auto")
    parser.add_argument("--adam", choices=["foreach", "single"], default="single")
    parser.add_argument("--malloc", choices=["tuned", "default"], default="tuned")
    parser.add_argument("--denormals", choices=["flush", "keep"], default="keep")
    parser.add_argument("--jit", choices=["off", "script"], default="off")
    parser.add_argument("--init", help="train together with DistributedDataParallel over gloo: "
                        "where to meet, file:///new/file or env://; RANK and WORLD_SIZE say who")
    parser.add_argument("--bucket-mb", type=int, default=25)
    parser.add_argument("--buffers", choices=["own", "broadcast"], default="own")
    parser.add_argument("--grads", choices=["none", "zero"], default="none")
    arguments = parser.parse_args()
    if arguments.batch < 2 or arguments.threads < 1:
        parser.error("--batch must be at least 2 (batch norm) and --threads at least 1")
    return arguments


class Trainer:
    def __init__(self, torch, arguments):
        import pytorch_image_models  # needs torch, which may be missing
        torch.manual_seed(1)
        torch.set_num_threads(arguments.threads)
        torch.set_flush_denormal(arguments.denormals == "flush")
        self.torch, self.models = torch, pytorch_image_models
        self.batch = arguments.batch
        self.format = self.memory_format(arguments)
        self.model = self.models.build(arguments.model).to(memory_format=self.format).train()
        self.params = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.params, lr=1e-3,
                                          foreach=arguments.adam == "foreach")
        self.set_to_none = arguments.grads == "none"
        if arguments.init:
            self.join(arguments)
        self.images = torch.randint(0, 256, (POOL, 3, 32, 32), dtype=torch.uint8)
        self.labels = torch.randint(0, 10, (POOL,))
        self.order, self.cursor = torch.randperm(POOL), 0
        if arguments.jit == "script":
            self.model = torch.jit.script(self.model)

    def memory_format(self, arguments):
        last = (self.models.faster_channels_last(arguments.model) if arguments.layout == "auto"
                else arguments.layout == "channels_last")
        return self.torch.channels_last if last else self.torch.contiguous_format

    def join(self, arguments):
        """The same parameters everywhere, other samples on every rank."""
        distributed = self.torch.distributed
        distributed.init_process_group("gloo", init_method=arguments.init,
                                       rank=int(os.environ["RANK"]),
                                       world_size=int(os.environ["WORLD_SIZE"]))
        self.model = self.torch.nn.parallel.DistributedDataParallel(
            self.model, gradient_as_bucket_view=True, bucket_cap_mb=arguments.bucket_mb,
            broadcast_buffers=arguments.buffers == "broadcast")
        self.torch.manual_seed(1 + distributed.get_rank())

    def next_batch(self):
        if self.cursor + self.batch > POOL:
            self.order, self.cursor = self.torch.randperm(POOL), 0
        picked = self.order[self.cursor:self.cursor + self.batch]
        self.cursor += self.batch
        # [0, 255] -> [-1, 1], in place after the one conversion.
        images = self.images[picked].to(self.torch.float32).mul_(1 / 127.5).sub_(1)
        return images.contiguous(memory_format=self.format), self.labels[picked]

    def run(self, steps):
        start = time.perf_counter()
        times = [start]
        for _ in range(steps):
            images, labels = self.next_batch()
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
            loss = self.torch.nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            times.append(time.perf_counter())
        value = loss.item()
        return {"seconds": time.perf_counter() - start, "samples": steps * self.batch,
                "loss": value if value == value and abs(value) != float("inf") else None,
                "step_seconds": [after - before for before, after in zip(times, times[1:])]}


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


def answer(torch, arguments, trainer, tensors):
    """The protocol, with a trainer that has params and run(steps)."""
    say({"ready": True, "system": "PyTorch", "version": version(torch),
         "model": arguments.model, "params": sum(p.numel() for p in trainer.params),
         "tensors": tensors, "batch": arguments.batch,
         "threads": torch.get_num_threads()})
    for line in sys.stdin:
        words = line.split()
        if len(words) == 2 and words[0] == "run" and words[1].isdigit() and int(words[1]) > 0:
            say(trainer.run(int(words[1])))
        elif words == ["quit"]:
            say({"max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
            return 0
        else:
            print(f"step server: unknown command {line.strip()!r}", file=sys.stderr)
            return 2
    return 0  # the harness went away


def main():
    arguments = parse_arguments()
    peer_environment.start_again(arguments.malloc)
    try:
        import torch
    except ImportError as error:
        print(f"pytorch_image: PyTorch is not installed (apt install python3-torch): {error}",
              file=sys.stderr)
        return 3
    if arguments.init and not torch.distributed.is_available():
        print("pytorch_image: this PyTorch has no torch.distributed", file=sys.stderr)
        return 3
    trainer = Trainer(torch, arguments)
    return answer(torch, arguments, trainer, len(trainer.params))


if __name__ == "__main__":
    sys.exit(main())
