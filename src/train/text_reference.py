"""Prints loss and gradients of text models, computed by PyTorch's own layers.

Usage: text_reference.py MODEL; without dropout. One line each: "loss VALUE", then for every parameter its
name and four numbers of its gradient: a weighted sum, the norm, the first and the last element.
Parameters and batches are patterns that text_models_test.cc makes too. What it printed for the
largest models is kept in reference/MODEL.txt.
"""
import math
import sys
from typing import NamedTuple

try:
    import torch
except ImportError:
    sys.exit(77)
from torch import nn
from torch.nn.functional import cross_entropy, gelu
from torch.nn.utils.stateless import functional_call


class Size(NamedTuple):
    width: int
    inner: int
    heads: int
    layers: int
    vocabulary: int
    positions: int


SIZES = {
    "transformer-small": Size(64, 256, 4, 2, 512, 64),
    "transformer-base": Size(512, 2048, 8, 6, 32000, 256),
    "transformer-big": Size(1024, 4096, 16, 6, 32000, 256),
    "bert-small": Size(64, 256, 4, 2, 512, 64),
    "bert-base": Size(768, 3072, 12, 12, 30522, 512),
    "bert-large": Size(1024, 4096, 16, 24, 30522, 512),
}
SMOOTHING = 0.1


def pattern(count, salt, scale):
    """Numbers that both programs can make: multiples of 1/1009 in [-0.5, 0.5), times scale."""
    k = torch.arange(count, dtype=torch.int64)
    return ((k * 7919 + salt * 101) % 1009).double().div(1009).sub(0.5).mul(scale).float()


def make_parameters(shapes, size):
    scale = 2.4 / math.sqrt(size.width)  # sums over a width are about as large in all models
    parameters = {}
    for number, (name, shape) in enumerate(shapes):
        values = pattern(math.prod(shape), number, scale).reshape(shape)
        is_norm = "norm" in name.lower() and name.endswith("weight")
        parameters[name] = (values + 1 if is_norm else values).requires_grad_()
    return parameters


def tokens(size, rows, columns, lengths, salt):
    """Ids from 4 on, 0 after each row's length."""
    k = torch.arange(rows * columns).reshape(rows, columns)
    ids = (k * 37 + salt * 11) % (size.vocabulary - 4) + 4
    return ids * (torch.arange(columns) < torch.tensor(lengths).reshape(-1, 1))


def linear(name, inputs, outputs):
    return [(name + ".weight", (outputs, inputs)), (name + ".bias", (outputs,))]


def norm(name, size):
    return [(name + ".weight", (size.width,)), (name + ".bias", (size.width,))]


def attention(name, size):
    return [(name + ".in_proj_weight", (3 * size.width, size.width)),
            (name + ".out_proj.weight", (size.width, size.width))]


def transformer_shapes(size):
    shapes = [("embedding.weight", (size.vocabulary, size.width))]
    for side in ("encoder", "decoder"):
        for i in range(size.layers):
            layer = f"{side}.layers.{i}."
            shapes += attention(layer + "self_attn", size)
            shapes += attention(layer + "multihead_attn", size) if side == "decoder" else []
            shapes += linear(layer + "linear1", size.width, size.inner)
            shapes += linear(layer + "linear2", size.inner, size.width)
            for n in range(1, 4 if side == "decoder" else 3):
                shapes += norm(f"{layer}norm{n}", size)
        shapes += norm(side + ".norm", size)
    return shapes


def call(module, parameters, prefix, *inputs, **options):
    """Runs a layer of PyTorch with the parameters under that prefix; attention has no biases."""
    own = {k[len(prefix):]: v for k, v in parameters.items() if k.startswith(prefix)}
    for name, value in module.named_parameters():
        own.setdefault(name, torch.zeros_like(value))
    return functional_call(module.train(), own, inputs, options)


def positions(length, size):
    angle = (torch.arange(length).double().reshape(-1, 1)
             / 10_000 ** (torch.arange(0, size.width, 2).double() / size.width))
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1).float()


def transformer(size):
    p = make_parameters(transformer_shapes(size), size)
    source, lengths = tokens(size, 3, 7, [7, 4, 5], 1), [6, 3, 1]
    inputs, outputs = tokens(size, 3, 6, lengths, 2), tokens(size, 3, 6, lengths, 3)
    weights = (outputs != 0) / torch.tensor(lengths).reshape(-1, 1)
    options = dict(dropout=0.0, norm_first=True, batch_first=True)

    def embed(ids):
        return p["embedding.weight"][ids] * math.sqrt(size.width) + positions(ids.size(1), size)

    memory, padding = embed(source), source == 0
    for i in range(size.layers):
        memory = call(nn.TransformerEncoderLayer(size.width, size.heads, size.inner, **options), p,
                      f"encoder.layers.{i}.", memory, src_key_padding_mask=padding)
    memory = call(nn.LayerNorm(size.width), p, "encoder.norm.", memory)
    x = embed(inputs)
    causal = torch.ones(x.size(1), x.size(1)).triu(1).bool()
    for i in range(size.layers):
        x = call(nn.TransformerDecoderLayer(size.width, size.heads, size.inner, **options), p,
                 f"decoder.layers.{i}.", x, memory, tgt_mask=causal,
                 memory_key_padding_mask=padding)
    logits = call(nn.LayerNorm(size.width), p, "decoder.norm.", x) @ p["embedding.weight"].T
    losses = cross_entropy(logits.flatten(0, 1), outputs.flatten(), reduction="none",
                           label_smoothing=SMOOTHING)
    return p, (losses * weights.flatten()).sum()


def bert_shapes(size):
    embeddings = "bert.embeddings."
    shapes = [(embeddings + "word_embeddings.weight", (size.vocabulary, size.width)),
              (embeddings + "position_embeddings.weight", (size.positions, size.width)),
              (embeddings + "token_type_embeddings.weight", (2, size.width))]
    shapes += norm(embeddings + "LayerNorm", size)
    for i in range(size.layers):
        layer = f"bert.encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes += linear(layer + "attention.self." + part, size.width, size.width)
        shapes += linear(layer + "attention.output.dense", size.width, size.width)
        shapes += norm(layer + "attention.output.LayerNorm", size)
        shapes += linear(layer + "intermediate.dense", size.width, size.inner)
        shapes += linear(layer + "output.dense", size.inner, size.width) + norm(layer + "output.LayerNorm", size)
    shapes += linear("bert.pooler.dense", size.width, size.width)
    shapes += [("cls.predictions.bias", (size.vocabulary,))]
    shapes += linear("cls.predictions.transform.dense", size.width, size.width)
    shapes += norm("cls.predictions.transform.LayerNorm", size)
    return shapes + linear("cls.seq_relationship", size.width, 2)


def bert_layer(p, i):
    """PyTorch's names for the tensors of a layer."""
    layer = f"bert.encoder.layer.{i}."
    own = {}
    for kind in ("weight", "bias"):
        own["self_attn.in_proj_" + kind] = torch.cat(
            [p[f"{layer}attention.self.{part}.{kind}"] for part in ("query", "key", "value")])
        for ours, theirs in (("attention.output.dense", "self_attn.out_proj"),
                             ("attention.output.LayerNorm", "norm1"),
                             ("intermediate.dense", "linear1"), ("output.dense", "linear2"),
                             ("output.LayerNorm", "norm2")):
            own[f"{theirs}.{kind}"] = p[f"{layer}{ours}.{kind}"]
    return own


def bert(size):
    p = make_parameters(bert_shapes(size), size)
    ids = tokens(size, 3, 8, [8, 5, 6], 1)
    segments = (torch.arange(8) > 3).long().expand(3, -1)
    places, weights = torch.tensor([1, 6, 9, 17, 20]), torch.tensor([0.5, 0.5, 1, 0.5, 0.5])
    words, following = (places * 31 + 5) % size.vocabulary, torch.tensor([1, 0, 1])
    options = dict(dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True)
    x = (p["bert.embeddings.word_embeddings.weight"][ids]
         + p["bert.embeddings.position_embeddings.weight"][:8]
         + p["bert.embeddings.token_type_embeddings.weight"][segments])
    x = call(nn.LayerNorm(size.width, 1e-12), p, "bert.embeddings.LayerNorm.", x)
    for i in range(size.layers):
        x = call(nn.TransformerEncoderLayer(size.width, size.heads, size.inner, **options), bert_layer(p, i), "",
                 x, src_key_padding_mask=ids == 0)
    pooled = call(nn.Linear(size.width, size.width), p, "bert.pooler.dense.", x[:, 0]).tanh()
    masked = gelu(call(nn.Linear(size.width, size.width), p, "cls.predictions.transform.dense.",
                       x.flatten(0, 1)[places]))
    masked = call(nn.LayerNorm(size.width, 1e-12), p, "cls.predictions.transform.LayerNorm.", masked)
    logits = masked @ p["bert.embeddings.word_embeddings.weight"].T + p["cls.predictions.bias"]
    next_logits = call(nn.Linear(size.width, 2), p, "cls.seq_relationship.", pooled)
    return p, ((cross_entropy(logits, words, reduction="none") * weights).sum()
               + cross_entropy(next_logits, following, reduction="sum"))


def main():
    model = sys.argv[1]
    parameters, loss = (bert if model.startswith("bert") else transformer)(SIZES[model])
    loss.backward()
    print(f"loss {loss.item():.9g}")
    for name, parameter in parameters.items():
        flat = parameter.grad.double().flatten()
        weighted = (flat * pattern(len(flat), 77, 1.0).double()).sum()
        print(name, *(f"{x:.9g}" for x in (weighted, flat.norm(), flat[0], flat[-1])))


if __name__ == "__main__":
    main()
