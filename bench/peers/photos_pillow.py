#!/usr/bin/python3
"""A step server (README.md) that makes the batches of photos_bench with Pillow and numpy, in the way of
torchvision: random part of each photograph, resized, mirrored, normalised.

Usage: photos_pillow.py --data FOLDER [--batch N] [--size N]
"""
import argparse
import io
import json
import math
import random
import resource
import sys
import time
from pathlib import Path

try:
    import numpy
    import PIL
    from PIL import Image
except ImportError as error:
    print(f"not installed here: {error}", file=sys.stderr)
    sys.exit(3)

MEAN = numpy.array([0.485, 0.456, 0.406], dtype=numpy.float32)
STD = numpy.array([0.229, 0.224, 0.225], dtype=numpy.float32)


def draw_part(width, height):
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return x, y, x + w, y + h
    return 0, 0, width, height


def draw(path, size):
    image = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
    part = image.crop(draw_part(*image.size)).resize((size, size), Image.BILINEAR)
    if random.random() < 0.5:
        part = part.transpose(Image.FLIP_LEFT_RIGHT)
    pixels = (numpy.asarray(part, dtype=numpy.float32) / 255 - MEAN) / STD
    return pixels.transpose(2, 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    arguments = parser.parse_args()
    files = sorted(Path(arguments.data, "train").glob("*/*.jpg"))
    random.seed(1)
    batch = numpy.empty((arguments.batch, 3, arguments.size, arguments.size), dtype=numpy.float32)
    print(json.dumps({"ready": True, "system": "Pillow", "version": PIL.__version__, "model": "photos",
                      "batch": arguments.batch, "threads": 1}), flush=True)
    position = 0
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "quit":
            break
        steps, started = int(rest[0]), time.perf_counter()
        for _ in range(steps):
            for i in range(arguments.batch):
                batch[i] = draw(files[position % len(files)], arguments.size)
                position += 1
        print(json.dumps({"seconds": time.perf_counter() - started,
                          "samples": steps * arguments.batch}), flush=True)
    print(json.dumps({"max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
