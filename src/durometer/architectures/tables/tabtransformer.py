"""TabTransformer (Huang et al. 2020): categories look at one another before they are used.

Each category (or one-hot group of columns) has an embedding; `depth` pre-norm blocks of attention
and GEGLU mix them; the result is joined with the normalised numbers and read by an MLP of 4 l and
2 l units, l an eighth of what comes in.

What a reader would get wrong: without categories nothing is left of the transformer. URL and CTU-13
have none, so there it is LayerNorm and three linear layers, as in the CAA authors' benchmark. Where
there are categories, an embedding is a block times a matrix, so gradients reach the category.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from durometer.architectures.tables.mlp import layers
from durometer.architectures.tables.tablenet import TableNet
from durometer.core.streams import seeded
from durometer.tables.schema import Schema


class Mixing(nn.Module):
    """Attention over the columns, then GEGLU on each; both pre-norm, with short cuts."""

    def __init__(self, width: int, heads: int, head: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask = nn.Linear(width, 3 * heads * head, bias=False)
        self.answer = nn.Linear(heads * head, width)
        self.wide, self.back = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, columns, width) -> the same shape."""
        n, columns, _ = tokens.shape
        asked = self.ask(self.first(tokens)).view(n, columns, 3, self.heads, -1)
        query, key, value = asked.transpose(1, 3).unbind(2)  # (n, heads, columns, head) each
        drop = self.dropout if self.training else 0.0
        seen = scaled_dot_product_attention(query, key, value, dropout_p=drop)
        tokens = tokens + self.answer(seen.transpose(1, 2).reshape(n, columns, -1))
        value, gate = self.wide(self.second(tokens)).chunk(2, dim=-1)
        back: Tensor = tokens + self.back(value * gelu(gate))
        return back


class TabTransformer(TableNet):
    """TabTransformer: attention between embedded categories, joined with the numbers (Huang et al.,
    2020).

    Without categories it is layer normalisation and a perceptron.

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        width: Size of an embedding.
        depth: Number of attention blocks.
        heads: Attention heads per block.
        head: Size of a head.
        dropout: Dropout probability.
        seed: Seed of the first weights and of the training.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> du.architectures.TabTransformer(
    ...     schema, 3, width=8, depth=1, heads=2, head=4
    ... ).eval()(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        schema: Schema,
        classes: int = 2,
        *,
        width: int = 32,
        depth: int = 6,
        heads: int = 8,
        head: int = 16,
        dropout: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(
            schema, classes, seed, width=width, depth=depth, heads=heads, head=head, dropout=dropout
        )
        sizes, numbers = self.input.sizes, len(self.input.numbers)
        with seeded(seed):
            embeddings = [nn.Linear(size, width, bias=False) for size in sizes]
            for part in embeddings:
                nn.init.normal_(part.weight)
            self.embeddings = nn.ModuleList(embeddings)
            self.column = nn.Parameter(0.02 * torch.randn(len(sizes), width))
            blocks = [Mixing(width, heads, head, dropout) for _ in range(depth if sizes else 0)]
            self.blocks = nn.Sequential(*blocks)
            self.norm = nn.LayerNorm(numbers) if numbers else nn.Identity()
            size = numbers + width * len(sizes)
            eighth = max(4, size // 8)
            self.body = layers(size, 4 * eighth, 2 * eighth, classes)

    def logits(self, z: Tensor) -> Tensor:
        """The logits (n, classes) of encoded records.

        Args:
            z: Encoded records (n, size).
        """
        numbers, *blocks = torch.split(z, [len(self.input.numbers), *self.input.sizes], dim=1)
        parts = [self.norm(numbers)]
        if blocks:
            pairs = zip(self.embeddings, blocks, strict=True)
            tokens = torch.stack([embed(block) for embed, block in pairs], dim=1) + self.column
            parts.append(self.blocks(tokens).flatten(1))
        out: Tensor = self.body(torch.cat(parts, dim=1))
        return out
