"""Small problems to try things on, the same every time, with boxes other than [0, 1] among them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from durometer.core.streams import Stream
from durometer.data.dataset import Dataset
from durometer.spaces.lp import Lp

ROWS = 64


class Toy(torch.nn.Module):
    """A small network with one hidden tanh layer, whose weights depend on its sizes only.

    Args:
        features: Number of inputs.
        classes: Number of classes.
        scale: Scale of the first weights; larger is less smooth.
        hidden: Hidden units.

    >>> import torch
    >>> from durometer.testing import Toy
    >>> logits = Toy(2, 3, scale=4.0)(torch.ones(1, 2, dtype=torch.float64))
    >>> [round(z, 2) for z in logits[0].tolist()]
    [-1.73, 0.46, 0.04]
    """

    def __init__(self, features: int, classes: int, scale: float, hidden: int = 16) -> None:
        super().__init__()
        stream, row = Stream(classes, torch.tensor([features])), torch.tensor([0])
        self.a = torch.nn.Parameter(
            scale * stream.normal(row, features * hidden).reshape(features, hidden) / features**0.5
        )
        self.b = torch.nn.Parameter(
            1.5 * stream.normal(row, hidden * classes).reshape(hidden, classes) / hidden**0.5
        )

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1) @ self.a).tanh() @ self.b

    def numpy(self, x: np.ndarray) -> np.ndarray:
        """The same function in numpy, for tests that must not depend on torch.

        Args:
            x: Inputs (n, ...).
        """
        a, b = self.a.detach().numpy(), self.b.detach().numpy()
        logits: np.ndarray = np.tanh(x.reshape(len(x), len(a)) @ a) @ b
        return logits


def toy(
    shape: tuple[int, ...] = (8,), classes: int = 3, rows: int = 16
) -> tuple[torch.nn.Module, Dataset]:
    """A small network and rows in [0, 1] that it classifies correctly, the same every time.

    Args:
        shape: Shape of one input.
        classes: Number of classes.
        rows: Number of rows, at most 64.

    Returns:
        The network and the data.

    >>> from durometer import testing
    >>> net, data = testing.toy()
    >>> bool((net(data.x).argmax(1) == data.y).all())
    True
    """
    case = Case.of("toy", shape, classes, Lp(math.inf, 0.1))
    return case.model, case.data.take(torch.arange(ROWS - rows, ROWS))


@dataclass(frozen=True, eq=False)
class Case:
    """A small problem: a network, rows and a space.

    Args:
        name: What messages call it.
        model: The network.
        data: The rows.
        space: The space.

    >>> from durometer import Linf, testing
    >>> case = testing.Case.of("mine", (4,), 2, Linf(0.1))
    >>> case.name, len(case.data)
    ('mine, Linf(0.1)', 64)
    """

    name: str
    model: Toy
    data: Dataset
    space: Lp

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], classes: int, space: Lp) -> Case:
        """Makes a problem.

        Args:
            name: What messages call it.
            shape: Shape of one input.
            classes: Number of classes.
            space: The space; its box must be finite.
        """
        size = math.prod(shape)
        model = Toy(size, classes, scale=8 / (space.high - space.low))
        u = Stream(1, torch.arange(ROWS)).uniform(torch.arange(ROWS), size)
        x = (space.low + (space.high - space.low) * u).reshape(ROWS, *shape)
        x[: ROWS // 4] = x[: ROWS // 4].round().clamp(space.low, space.high)  # some on the box
        y = torch.from_numpy(model.numpy(x.numpy()).argmax(1))
        return cls(f"{name}, {space!r}", model, Dataset(x, y), space)


def odd_shapes(space: Lp | None, norms: tuple[float, ...] | None) -> Iterator[Case]:
    """A colour image that is not square, one row of it, a table of one column, one row of a table:
    what an attack may not have thought of.

    >>> from durometer import Linf
    >>> [len(case.data) for case in odd_shapes(Linf(0.1), None)]
    [8, 1, 8, 1]
    """
    p = space.p if space else (norms or (math.inf,))[0]
    eps = {math.inf: 0.12, 2.0: 0.5, 1.0: 1.2, 0.0: 1.0}[p]
    space = space or Lp(p, eps, -1.0, 1.0)
    for name, shape, classes in (("colour image", (3, 6, 5), 4), ("one-column table", (1,), 2)):
        case = Case.of(name, shape, classes, space)
        for rows in (8, 1):
            few = case.data.take(torch.arange(ROWS - rows, ROWS))
            yield Case(f"{rows} rows of a {case.name}", case.model, few, space)


def cases(space: Lp | None, norms: tuple[float, ...] | None) -> Iterator[Case]:
    """Small problems to check an attack on: tables with 2 and 3 classes, and an image with 10.

    Args:
        space: The space of all of them. None: one of each norm.
        norms: The norms, where there is no space. None: Linf and L2.

    >>> from durometer import Linf, testing
    >>> [case.name for case in testing.cases(Linf(0.1), None)]
    ['10-class image, Linf(0.1)', '2-class table, Linf(0.1)', '3-class table, Linf(0.1)']
    """
    sizes = {math.inf: (0.3, 0.12), 2.0: (0.7, 0.7), 1.0: (1.2, 2.0), 0.0: (2.0, 6.0)}
    for k, p in enumerate([space.p] if space else norms or (math.inf, 2.0)):
        table, image = sizes[p]
        yield Case.of("10-class image", (1, 8, 8), 10, space or Lp(p, image, -1.0, 1.0))
        yield Case.of("2-class table", (8,), 2, space or Lp(p, table, -2.0, 3.0))
        if k == 0:
            yield Case.of("3-class table", (8,), 3, space or Lp(p, table, -1.0, 4.0))
