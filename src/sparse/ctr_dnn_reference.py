"""Prints the reference values of ctr_dnn_test.cc, computed by PyTorch's autograd."""
import torch

SAMPLES, DENSE, SLOTS, ROWS, DIM, WIDTH, LAYERS, SCALE = 5, 13, 26, 40, 3, 8, 3, 0.5


def pattern(count, salt, scale):
    """Numbers that both programs can make: multiples of 1/1009 in [-0.5, 0.5), times scale."""
    k = torch.arange(count, dtype=torch.int64)
    return ((k * 7919 + salt * 101) % 1009).double().div(1009).sub(0.5).mul(scale).float()


def parameter(shape, salt, scale):
    count = 1
    for n in shape:
        count *= n
    return pattern(count, salt, scale).reshape(shape).requires_grad_()


def summary(gradient):
    flat = gradient.double().flatten()
    weights = pattern(len(flat), 77, 1.0).double()
    return ", ".join(f"{x:.8g}" for x in ((flat * weights).sum(), flat.norm(), flat[0], flat[-1]))


table = parameter((ROWS, DIM), 1, 2.0)
sizes = [SLOTS * DIM + DENSE] + [WIDTH] * LAYERS + [2]
weights = [parameter((sizes[i], sizes[i + 1]), 10 + i, 1.0) for i in range(LAYERS + 1)]
biases = [parameter((sizes[i + 1],), 20 + i, 0.5) for i in range(LAYERS + 1)]

n = torch.arange(SAMPLES).reshape(-1, 1)
ids = (n * n * 7 + torch.arange(SLOTS) * 3) % ROWS
dense = pattern(SAMPLES * DENSE, 5, 1.0).reshape(SAMPLES, DENSE)
labels = torch.arange(SAMPLES) % 2

x = torch.cat([table[ids].reshape(SAMPLES, -1), dense], dim=1)
for i in range(LAYERS):
    x = torch.relu(x @ weights[i] + biases[i])
logits = x @ weights[-1] + biases[-1]
loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
(loss * SCALE).backward()

print(f"loss {loss.item():.8g}")
print("probability", ", ".join(f"{p:.8g}" for p in torch.softmax(logits, 1)[:, 1]))
print("touched rows", len(ids.unique()))
print(f"table {{{summary(table.grad)}}}")
for i in range(LAYERS + 1):
    print(f"weight {i} {{{summary(weights[i].grad)}}}")
    print(f"bias {i} {{{summary(biases[i].grad)}}}")
