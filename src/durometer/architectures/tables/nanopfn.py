"""NanoPFN: a small in-context network for tables, in the manner of TabPFN (Hollmann et al., 2023).

It is trained once, on synthetic tables, to answer for the rows of a table it has never seen: the
labelled rows of that table are its input, too (the context). Rows become tokens; a context token
carries its label. In every layer both kinds of token attend to the context alone, so that queries
do not see each other and keys and values are functions of the context.

With a fixed context they are numbers: `given(x, y)` folds them into the layers, and what is left is
a network of one row with layer norms, ReLUs and softmaxes, which attacks and proofs read like any
other.

What a reader would get wrong: columns are standardised by the *context's* mean and spread. Who
poisons the context moves every query, also through these two numbers.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from durometer.core.errors import DurometerError
from durometer.core.streams import seeded

_SMALL = 1e-6  # of a column's spread: one that is constant in the context says nothing


class NanoPFN(nn.Module):
    """A small in-context network for tables: labelled rows and a question in, logits out (in the
    manner of TabPFN, Hollmann et al., 2023).

    It needs no training on the table at hand, but once on synthetic ones:
    `studies/foundation/train.py` does that in minutes.

    Args:
        features: Largest number of columns; fewer are padded.
        classes: Number of classes that it can tell apart.
        width: Numbers per token.
        layers: Number of layers.
        heads: Attention heads per layer.
        seed: Seed of the first weights.

    Raises:
        DurometerError: `width` is no multiple of `heads`.

    >>> import torch
    >>> import durometer as du
    >>> net = du.architectures.NanoPFN(features=8, classes=3, width=16, layers=1, heads=2)
    >>> _, data = du.testing.toy()
    >>> context, labels, x = data.x[:12].float(), data.y[:12], data.x[12:].float()
    >>> net(context, labels, x).shape
    torch.Size([4, 3])
    >>> fixed = net.given(context, labels)
    >>> torch.allclose(fixed(x), net(context, labels, x), atol=1e-5)
    True
    """

    def __init__(
        self,
        features: int = 64,
        classes: int = 4,
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if width % heads:
            raise DurometerError(f"NanoPFN(width={width}, heads={heads}): expected a multiple")
        self.features, self.classes, self.heads = features, classes, heads
        with seeded(seed):
            self.embed = nn.Linear(features, width)
            self.label = nn.Linear(classes, width, bias=False)
            self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, classes)

    def forward(self, context: Tensor, labels: Tensor, x: Tensor) -> Tensor:
        """The logits of rows, given labelled ones.

        Args:
            context: The labelled rows (m, d), or several tables of them (b, m, d).
            labels: Their classes (m,) or (b, m).
            x: The rows to answer (n, d) or (b, n, d).

        Returns:
            (n, classes) or (b, n, classes).
        """
        mean, scale = self.columns(context)
        told = self.tokens((context - mean) * scale) + self.labelled(labels)
        asked = self.tokens((x - mean) * scale)
        for layer in self.layers:
            told, asked = layer(told, asked)
        logits: Tensor = self.head(self.norm(asked))
        return logits

    def columns(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """What is taken off each column, and what it is multiplied by: (..., 1, d) each.

        Args:
            context: The labelled rows (..., m, d).
        """
        self._check(context)
        mean = context.mean(-2, keepdim=True)
        spread = (context - mean).square().mean(-2, keepdim=True)
        known = spread > _SMALL**2 * (1 + mean.square())
        safe = torch.where(known, spread, torch.ones_like(spread))
        scale = torch.where(known, safe.rsqrt(), torch.zeros_like(spread))
        return mean, scale * math.sqrt(self.features / context.shape[-1])

    def given(self, context: Tensor, labels: Tensor, classes: int | None = None) -> GivenContext:
        """The network with a fixed context: a module of rows alone.

        Args:
            context: The labelled rows (m, d).
            labels: Their classes (m,).
            classes: Number of classes of the table at hand. None: all that the network knows.
        """
        return GivenContext(self, context, labels, classes)

    def _check(self, context: Tensor) -> None:
        if context.shape[-1] > self.features:
            raise DurometerError(
                f"NanoPFN(features={self.features}) got {context.shape[-1]} columns"
            )

    def tokens(self, z: Tensor) -> Tensor:
        """Standardised rows as tokens.

        Args:
            z: Standardised rows (..., n, d).
        """
        weight = self.embed.weight[:, : z.shape[-1]]
        return linear(z.to(weight.dtype), weight, self.embed.bias)

    def labelled(self, labels: Tensor) -> Tensor:
        """What a label adds to the token of its row.

        Args:
            labels: Classes (..., m).
        """
        if bool((labels < 0).any()) or int(labels.max()) >= self.classes:
            raise DurometerError(
                f"NanoPFN(classes={self.classes}) got labels {int(labels.min())} to "
                f"{int(labels.max())}"
            )
        codes: Tensor = self.label(one_hot(labels.long(), self.classes).to(self.label.weight.dtype))
        return codes


class _Layer(nn.Module):
    """Attention to the context, then a small network, for context and queries alike."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        wide, back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.mix = nn.Sequential(wide, nn.ReLU(), back)

    def forward(self, told: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.before(told)
        key, value = self.split(self.key(seen)), self.split(self.value(seen))
        return self._moved(told, seen, key, value), self._moved(
            asked, self.before(asked), key, value
        )

    def _moved(self, token: Tensor, normed: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query = self.split(self.query(normed)) / math.sqrt(key.shape[-1])
        share = (query @ key.transpose(-1, -2)).softmax(-1)
        token = token + self.out((share @ value).transpose(-2, -3).flatten(-2))
        mixed: Tensor = token + self.mix(self.after(token))
        return mixed

    def split(self, z: Tensor) -> Tensor:
        """(..., n, width) -> (..., heads, n, width / heads)."""
        return z.reshape(*z.shape[:-1], self.heads, -1).transpose(-2, -3)


class GivenContext(nn.Module):
    """A `NanoPFN` whose context is fixed: rows in, logits out, each row for itself.

    Keys and values are folded into the layers: one matrix gives a row's scores for all labelled
    rows, another what it takes from them.

    Args:
        model: The in-context network.
        context: The labelled rows (m, d).
        labels: Their classes (m,).
        classes: Number of classes of the table at hand. None: all that the network knows.

    >>> import torch
    >>> import durometer as du
    >>> net = du.architectures.NanoPFN(features=4, classes=2, width=8, layers=1, heads=2)
    >>> rows = torch.rand(6, 4)
    >>> net.given(rows, torch.tensor([0, 1] * 3))(rows).shape
    torch.Size([6, 2])
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self, model: NanoPFN, context: Tensor, labels: Tensor, classes: int | None = None
    ) -> None:
        super().__init__()
        with torch.no_grad():
            kind = model.embed.weight.dtype
            context = context.to(kind)
            mean, scale = model.columns(context)
            self.register_buffer("mean", mean[0].clone())
            self.register_buffer("scale", scale[0].clone())
            width = model.embed.out_features
            self.embed = nn.Linear(context.shape[1], width, dtype=kind)
            self.embed.weight.copy_(model.embed.weight[:, : context.shape[1]])
            self.embed.bias.copy_(model.embed.bias)
            told = model.tokens((context - mean) * scale) + model.labelled(labels)
            self.layers = nn.ModuleList()
            for layer in model.layers:
                assert isinstance(layer, _Layer)
                self.layers.append(_FoldedLayer(layer, told))
                told, _ = layer(told, told[:1])
            self.norm = copy.deepcopy(model.norm)
            wanted = model.classes if classes is None else classes
            self.head = nn.Linear(width, wanted, dtype=kind)
            self.head.weight.copy_(model.head.weight[:wanted])
            self.head.bias.copy_(model.head.bias[:wanted])
        self.requires_grad_(False)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) rows in raw units -> logits (n, classes)."""
        z = self.embed((x.to(self.mean.dtype) - self.mean) * self.scale)
        for layer in self.layers:
            z = layer(z)
        logits: Tensor = self.head(self.norm(z))
        return logits


class _FoldedLayer(nn.Module):
    """A layer whose keys and values are numbers."""

    def __init__(self, layer: _Layer, told: Tensor) -> None:
        super().__init__()
        self.before, self.after = copy.deepcopy(layer.before), copy.deepcopy(layer.after)
        self.mix = copy.deepcopy(layer.mix)
        seen, heads, width = layer.before(told), layer.heads, told.shape[1]
        key, value = layer.split(layer.key(seen)), layer.split(layer.value(seen))
        size = width // heads
        query = layer.query.weight.view(heads, size, width), layer.query.bias.view(heads, size)
        out = layer.out.weight.view(width, heads, size).permute(1, 2, 0)  # (heads, size, width)
        self.scores, self.takes = nn.ModuleList(), nn.ModuleList()
        for h in range(heads):
            scores = nn.Linear(width, len(told), dtype=told.dtype)
            scores.weight.copy_(key[h] @ query[0][h] / math.sqrt(size))
            scores.bias.copy_(key[h] @ query[1][h] / math.sqrt(size))
            takes = nn.Linear(len(told), width, dtype=told.dtype)
            takes.weight.copy_((value[h] @ out[h]).T)
            takes.bias.copy_(layer.out.bias / heads)
            self.scores.append(scores)
            self.takes.append(takes)

    def forward(self, z: Tensor) -> Tensor:
        seen = self.before(z)
        for scores, takes in zip(self.scores, self.takes, strict=True):
            z = z + takes(scores(seen).softmax(-1))
        mixed: Tensor = z + self.mix(self.after(z))
        return mixed
