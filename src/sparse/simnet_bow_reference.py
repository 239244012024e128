"""Prints the reference values of simnet_bow_test.cc, computed by PyTorch's autograd."""
import math

import torch

WORDS, EMBEDDING, HIDDEN, MARGIN, SCALE = 8, 3, 2, 0.5, 0.25
SAMPLES = [([0, 1], [1, 2, 2], [3]), ([4], [4, 5], [6, 0]), ([2, 2, 5], [6], [1, 5, 2])]


def values(shape, phase):
    count = math.prod(shape)
    numbers = [math.sin(1.3 * i + phase) / 2 for i in range(count)]
    return torch.tensor(numbers).reshape(shape).requires_grad_()


embedding = values((WORDS, EMBEDDING), 0.1)
dense = [values((EMBEDDING, HIDDEN), 0.2), values((HIDDEN,), 0.3),
         values((EMBEDDING, HIDDEN), 0.4), values((HIDDEN,), 0.5)]


def encode(words, weights, bias):
    return torch.nn.functional.softsign(embedding[words].sum(0)) @ weights + bias


def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=0)


loss, cosines = 0, []
for query, positive, negative in SAMPLES:
    q = encode(query, *dense[:2])
    fits = cosine(q, encode(positive, *dense[2:]))
    other = cosine(q, encode(negative, *dense[2:]))
    cosines += [fits.item(), other.item()]
    loss = loss + torch.relu(MARGIN - fits + other)
(loss * SCALE).backward()
print("loss", f"{loss.item():.8g}")
print("cosines", [f"{x:.8g}" for x in cosines])
print("embedding", [f"{x:.8g}" for x in embedding.grad.flatten().tolist()])
print("dense", [f"{x:.8g}" for t in dense for x in t.grad.flatten().tolist()])
