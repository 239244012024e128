"""Prints the reference values of optimizer_test.cc, computed by PyTorch's own optimisers; of LARS and
LAMB, which it has not, by the formulas of the papers in double precision."""
import torch

CASES = {
    "Sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "SgdMomentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01),
    "AdamBetas": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.98), eps=1e-3),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.3),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.01),
}

for name, make in CASES.items():
    params = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    optimizer = make([params])
    for _ in range(3):
        params.grad = params.detach().clone()
        optimizer.step()
    print(name, [f"{x:.8g}" for x in params.tolist()])


def lars(lr=0.5, momentum=0.9, weight_decay=0.01, trust=0.1, epsilon=1e-8):
    """You, Gitman, Ginsburg 2017, section 4, with the learning rate outside of the velocity."""
    params = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    velocity = torch.zeros_like(params)
    for step in range(3):
        gradient = params * params + step
        ratio = trust * params.norm() / (gradient.norm() + weight_decay * params.norm() + epsilon)
        velocity = momentum * velocity + ratio * (gradient + weight_decay * params)
        params = params - lr * velocity
    return params


def lamb(lr=0.1, beta1=0.8, beta2=0.95, weight_decay=0.01, epsilon=1e-6):
    """You et al. 2020, algorithm 2."""
    params = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    mean, variance = torch.zeros_like(params), torch.zeros_like(params)
    for step in range(3):
        gradient = params * params + step
        mean = beta1 * mean + (1 - beta1) * gradient
        variance = beta2 * variance + (1 - beta2) * gradient * gradient
        mean_hat = mean / (1 - beta1 ** (step + 1))
        variance_hat = variance / (1 - beta2 ** (step + 1))
        direction = mean_hat / (variance_hat.sqrt() + epsilon) + weight_decay * params
        params = params - lr * params.norm() / direction.norm() * direction
    return params


for name, values in {"Lars": lars(), "Lamb": lamb()}.items():
    print(name, [f"{x:.8g}" for x in values.tolist()])
