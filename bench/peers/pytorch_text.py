#!/usr/bin/python3
"""Step server that trains Transformers and BERT with PyTorch. Protocol and tuning: README.md."""

import argparse
import math
import sys
import time

import peer_environment
import pytorch_image as shared

SIZES = {  # width, inner, heads, layers, dropout, vocabulary, positions, length of a sample
    "transformer-base": (512, 2048, 8, 6, 0.1, 32_000, 256, 32),
    "transformer-small": (64, 256, 4, 2, 0.0, 512, 64, 32),
    "bert-base": (768, 3072, 12, 12, 0.1, 30_522, 512, 128),
    "bert-small": (64, 256, 4, 2, 0.0, 512, 64, 64),
}
MASK_EVERY = 7


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(SIZES), default="transformer-base")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attention", choices=["module", "plain"], default="plain",
                        help="torch.nn.MultiheadAttention, or its products written out")
    parser.add_argument("--embedding", choices=["dense", "sparse"], default="dense")
    parser.add_argument("--adam", choices=["foreach", "single"], default="single")
    parser.add_argument("--malloc", choices=["tuned", "default"], default="tuned")
    return parser.parse_args()


def layers(torch):
    """The modules, defined once torch is there."""
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        """Parameters of torch.nn.MultiheadAttention; one product for queries, keys and values."""

        def __init__(self, width, heads, dropout, bias):
            super().__init__()
            self.heads, self.dropout = heads, dropout
            self.in_proj = nn.Linear(width, 3 * width, bias=bias)
            self.out_proj = nn.Linear(width, width, bias=bias)

        def forward(self, x, memory=None, mask=None):
            width = x.size(2)
            if memory is None:
                parts = self.in_proj(x).chunk(3, dim=2)
            else:
                query, rest = self.in_proj.weight.split([width, 2 * width])
                parts = (functional.linear(x, query),
                         *functional.linear(memory, rest).chunk(2, dim=2))
            query, key, value = (p.unflatten(2, (self.heads, -1)).transpose(1, 2)
                                 .flatten(0, 1) for p in parts)
            scale = 1 / math.sqrt(width // self.heads)
            if mask is None:
                scores = torch.bmm(query, key.transpose(1, 2)).mul_(scale)
            else:
                scores = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=scale)
            weights = functional.dropout(scores.softmax(2), self.dropout, self.training)
            mixed = torch.bmm(weights, value).unflatten(0, (-1, self.heads))
            return self.out_proj(mixed.transpose(1, 2).flatten(2))

    class Module(nn.Module):
        """The same by PyTorch's own module."""

        def __init__(self, width, heads, dropout, bias):
            super().__init__()
            self.attention = nn.MultiheadAttention(width, heads, dropout, bias=bias,
                                                   batch_first=True)

        def forward(self, x, memory=None, mask=None):
            memory = x if memory is None else memory
            return self.attention(x, memory, memory, attn_mask=mask, need_weights=False)[0]

    class Inner(nn.Module):
        def __init__(self, width, inner, dropout, activation):
            super().__init__()
            self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
            self.activation, self.dropout = activation, nn.Dropout(dropout)

        def forward(self, x):
            return self.linear2(self.dropout(self.activation(self.linear1(x))))

    return {"plain": Attention, "module": Module}, Inner


def make_transformer(torch, arguments):
    nn, functional = torch.nn, torch.nn.functional
    width, inner, heads, count, dropout, vocabulary, positions, length = SIZES[arguments.model]
    attentions, inner_layer = layers(torch)

    class Layer(nn.Module):
        def __init__(self, decoder):
            super().__init__()
            make = attentions[arguments.attention]
            self.parts = nn.ModuleList(make(width, heads, dropout, False)
                                       for _ in range(2 if decoder else 1))
            self.inner = inner_layer(width, inner, dropout, nn.ReLU(inplace=True))
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decoder else 2))
            self.dropout = nn.Dropout(dropout)

        def forward(self, x, memory=None, mask=None):
            x = x + self.dropout(self.parts[0](self.norms[0](x), mask=mask))
            if memory is not None:
                x = x + self.dropout(self.parts[1](self.norms[1](x), memory))
            return x + self.dropout(self.inner(self.norms[-1](x)))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width, sparse=arguments.embedding == "sparse")
            nn.init.normal_(self.embedding.weight, std=width ** -0.5)
            self.encoder = nn.ModuleList(Layer(False) for _ in range(count))
            self.decoder = nn.ModuleList(Layer(True) for _ in range(count))
            self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.dropout = nn.Dropout(dropout)
            angle = (torch.arange(positions).reshape(-1, 1)
                     / 10_000 ** (torch.arange(0, width, 2) / width))
            self.table = torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)
            self.mask = torch.full((length, length), -math.inf).triu(1)

        def embed(self, ids):
            return self.dropout(self.embedding(ids) * math.sqrt(width) + self.table[:ids.size(1)])

        def forward(self, source, inputs, outputs):
            memory, x = self.embed(source), self.embed(inputs)
            for layer in self.encoder:
                memory = layer(memory)
            memory = self.encoder_norm(memory)
            for layer in self.decoder:
                x = layer(x, memory, self.mask)
            logits = functional.linear(self.decoder_norm(x).flatten(0, 1), self.embedding.weight)
            return functional.cross_entropy(logits, outputs.flatten(), label_smoothing=0.1)

    def batch():
        outputs = torch.randint(5, vocabulary, (arguments.batch, length))
        return torch.randint(5, vocabulary, (arguments.batch, length)), outputs.roll(1, 1), outputs

    return Transformer(), batch, dict(betas=(0.9, 0.997), eps=1e-9)


def make_bert(torch, arguments):
    nn, functional = torch.nn, torch.nn.functional
    width, inner, heads, count, dropout, vocabulary, positions, length = SIZES[arguments.model]
    attentions, inner_layer = layers(torch)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attentions[arguments.attention](width, heads, dropout, True)
            self.inner = inner_layer(width, inner, 0.0, nn.GELU())
            self.norms = nn.ModuleList(nn.LayerNorm(width, 1e-12) for _ in range(2))
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            x = self.norms[0](x + self.dropout(self.attention(x)))
            return self.norms[1](x + self.dropout(self.inner(x)))

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, width, sparse=arguments.embedding == "sparse")
            self.positions = nn.Parameter(torch.randn(positions, width) * 0.02)
            self.segments = nn.Embedding(2, width)
            nn.init.normal_(self.words.weight, std=0.02)
            self.norm, self.dropout = nn.LayerNorm(width, 1e-12), nn.Dropout(dropout)
            self.layers = nn.ModuleList(Layer() for _ in range(count))
            self.pooler, self.following = nn.Linear(width, width), nn.Linear(width, 2)
            self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(),
                                           nn.LayerNorm(width, 1e-12))
            self.bias = nn.Parameter(torch.zeros(vocabulary))

        def forward(self, ids, segments, places, right, following):
            x = self.words(ids) + self.positions[:ids.size(1)] + self.segments(segments)
            x = self.dropout(self.norm(x))
            for layer in self.layers:
                x = layer(x)
            masked = self.transform(x.flatten(0, 1)[places])
            logits = functional.linear(masked, self.words.weight, self.bias)
            return (functional.cross_entropy(logits, right)
                    + functional.cross_entropy(self.following(self.pooler(x[:, 0]).tanh()),
                                               following))

    segments = (torch.arange(length) >= length // 2).long().expand(arguments.batch, -1)
    places = (torch.arange(arguments.batch).reshape(-1, 1) * length
              + torch.arange(0, length, MASK_EVERY)).flatten()
    following = torch.arange(arguments.batch) % 2

    def batch():
        ids = torch.randint(5, vocabulary, (arguments.batch, length))
        return ids, segments, places, torch.randint(5, vocabulary, places.shape), following

    return Bert(), batch, dict(betas=(0.9, 0.999), eps=1e-6)


class Trainer:
    def __init__(self, torch, arguments):
        torch.manual_seed(1)
        torch.set_num_threads(arguments.threads)
        make = make_bert if arguments.model.startswith("bert") else make_transformer
        self.model, self.next_batch, adam = make(torch, arguments)
        self.model.train()
        self.batch = arguments.batch
        self.params = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.params, lr=1e-4,
                                          foreach=arguments.adam == "foreach", **adam)

    def tensors(self):
        """As the models' published modules count them: queries, keys and values apart in BERT."""
        split = sum("in_proj" in name and name.endswith("bias")
                    for name, _ in self.model.named_parameters())
        return len(self.params) + 4 * split

    def run(self, steps):
        start = time.perf_counter()
        times = [start]
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.model(*self.next_batch())
            loss.backward()
            self.optimizer.step()
            times.append(time.perf_counter())
        value = loss.item()
        return {"seconds": time.perf_counter() - start, "samples": steps * self.batch,
                "loss": value if math.isfinite(value) else None,
                "step_seconds": [after - before for before, after in zip(times, times[1:])]}


def main():
    arguments = parse_arguments()
    peer_environment.start_again(arguments.malloc)
    try:
        import torch
    except ImportError as error:
        print(f"pytorch_text: PyTorch is not installed (apt install python3-torch): {error}",
              file=sys.stderr)
        return 3
    trainer = Trainer(torch, arguments)
    return shared.answer(torch, arguments, trainer, trainer.tensors())


if __name__ == "__main__":
    sys.exit(main())
