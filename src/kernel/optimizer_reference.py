"""Prints the reference values of optimizer_test.cc, computed by PyTorch's own optimisers."""
import torch

CASES = {
    "Sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "SgdMomentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.01),
}

for name, make in CASES.items():
    params = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    optimizer = make([params])
    for _ in range(3):
        params.grad = params.detach().clone()
        optimizer.step()
    print(name, [f"{x:.8g}" for x in params.tolist()])
