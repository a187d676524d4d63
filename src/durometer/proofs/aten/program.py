"""A network as a program: operations on numbered values, each with all of its arguments as fields.

Values are those of one row as it was traced, so that a shape may have its batch axis anywhere or
merged with others. Bounds carry any number of rows in front: (n, *shape).

kind        what a backward pass does with weights on its output
Affine      transposes them exactly, and adds what the constant part weighs
Curve       number by number: takes the line above where a weight is positive, below where negative
Product     the same with a plane in two variables
Maximum     the input that is surely large from below; the largest upper bound from above
Boxed       ends there, with the bounds of the output

What a reader would get wrong: `interval` and `relaxation` speak of exact arithmetic between bounds
of *computed* inputs. What the model's own floating point adds is `rounding`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported

Bound = tuple[Tensor, Tensor]

UNIT = {
    torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}  # fmt: skip
_LEAST = {2.0**-53: 1e-300, 2.0**-24: 1e-37, 2.0**-11: 2.0**-24, 2.0**-8: 1e-37}  # may underflow
_MOST = {2.0**-53: 1e307, 2.0**-24: 3e38, 2.0**-11: 6.5e4, 2.0**-8: 3e38}  # may overflow
OWN = 2.0**-53  # of the bounds' own arithmetic


def gamma(terms: int, unit: float) -> float:
    """g(n) = n u / (1 - n u): what n roundings add, relatively (Higham 2002, section 3.1)."""
    share = terms * unit
    return share / (1 - share) if share < 0.5 else float("inf")


def least(unit: float) -> float:
    """What is lost where a result underflows."""
    return _LEAST.get(unit, 0.0)


def overflows(unit: float, size: Tensor) -> Tensor:
    """Where numbers of this size do not fit the type."""
    return size > _MOST.get(unit, torch.inf)


@dataclass(frozen=True, eq=False)
class Operation:
    """Abstract. `inputs` are the numbers of the operations whose results it takes."""

    inputs: tuple[int, ...]
    shape: tuple[int, ...]  # of the result, for the rows it was traced with
    unit: float  # of the result's type; 0.0: whole numbers
    place: str

    def interval(self, *taken: Bound) -> Bound:
        """Bounds of the result in exact arithmetic."""
        raise NotImplementedError

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        """E: how far the computed result may be from the exact one; None: it is exact."""
        raise NotImplementedError

    def hard(self, taken: list[Bound], found: Bound) -> Bound:
        """Bounds after rounding: what the computed result can never be is cut off."""
        return found

    def rows(self, *ids: Tensor) -> Tensor:
        """From which row each number comes (-1: from none), given that of the inputs."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Input(Operation):
    """The one input."""

    def interval(self, *taken: Bound) -> Bound:
        raise AssertionError("the input has the bounds of its domain")

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        return None


@dataclass(frozen=True, eq=False)
class Affine(Operation):
    """Abstract: a fixed linear map plus a constant."""

    def apply(self, *values: Tensor) -> Tensor:
        """(N, *shape) from values (N, ...)."""
        raise NotImplementedError

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        """The transposed map: weights (N, *shape) on the result, as weights on each input."""
        raise NotImplementedError

    def constant(self) -> Tensor | None:
        """What is added, broadcast to `shape`; None: nothing."""
        return None

    def magnitude(self, *sizes: Tensor) -> Tensor:
        """|map| |inputs| + |constant|: what roundings are a share of."""
        raise NotImplementedError

    def spread(self, *radii: Tensor) -> Tensor:
        """|map| radii: how far the result moves when inputs move by so much."""
        raise NotImplementedError

    @property
    def terms(self) -> int:
        """Roundings behind one number of the result."""
        raise NotImplementedError

    def interval(self, *taken: Bound) -> Bound:
        centre = self.apply(*((low + high) / 2 for low, high in taken))
        radius = self.spread(*((high - low) / 2 for low, high in taken))
        return centre - radius, centre + radius

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        terms = self.terms
        if not terms:
            return None
        size = self.magnitude(*(torch.maximum(low.abs(), high.abs()) for low, high in taken))
        return share(terms, self.unit, size)


def share(terms: int, unit: float, size: Tensor) -> Tensor:
    """g(terms) size for the model, as much again of the bounds' own arithmetic, and underflow."""
    error = (gamma(terms, unit) + 4 * gamma(terms + 20, OWN)) * size + terms * least(unit)
    return torch.where(overflows(unit, size), torch.inf, error)


@dataclass(frozen=True, eq=False)
class Relaxation:
    """lower_slope * x + lower_bias <= curve(x) <= upper_slope * x + upper_bias, number by number.

    `unstable` is where the curve has its kink inside the bounds: there `lower_slope` may be any
    slope between the two sides', and the interval may be split.
    """

    lower_slope: Tensor
    lower_bias: Tensor
    upper_slope: Tensor
    upper_bias: Tensor
    unstable: Tensor


@dataclass(frozen=True, eq=False)
class Curve(Operation):
    """Abstract: one number at a time."""

    def relaxation(self, low: Tensor, high: Tensor) -> Relaxation:
        raise NotImplementedError

    def rows(self, *ids: Tensor) -> Tensor:
        return ids[0]


@dataclass(frozen=True, eq=False)
class Product(Operation):
    """Abstract: a b, or a sum of such products."""

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """(N, *shape), bilinear, with coefficients that are 0 or 1."""
        raise NotImplementedError

    def adjoint(self, weight: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Weights on either factor where the other is fixed at a and b."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Boxed(Operation):
    """Abstract: known by its bounds only."""


@dataclass(frozen=True, eq=False)
class Program:
    """Operations in order: the first is the input, the last gives the scores."""

    operations: tuple[Operation, ...]
    encoder: nn.Module | None = None  # of a table: the input is what it gives

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input, with the rows it was traced with."""
        return self.operations[0].shape


class MixedRowsError(Unsupported):
    """Numbers of two rows meet."""


def _mixed(place: str) -> MixedRowsError:
    return MixedRowsError(
        f"Bounds: an operation ({place}) joins numbers of several rows of a batch, so an answer "
        "depends on the rows it is asked with; use an attack alone"
    )


def join(place: str, *ids: Tensor) -> Tensor:
    """The row of numbers made of several, broadcast."""
    shape: torch.Size = torch.broadcast_shapes(*(i.shape for i in ids))  # type: ignore[no-untyped-call]
    held = torch.stack([i.expand(shape) for i in ids])
    top = held.amax(0)
    if bool(((held != top) & (held >= 0)).any()):
        raise _mixed(place)
    return top


def reduced(place: str, ids: Tensor, dims: tuple[int, ...], keepdim: bool = False) -> Tensor:
    """The row of numbers made of all along these axes."""
    top = ids.amax(dims, keepdim=True)
    if bool(((ids != top) & (ids >= 0)).any()):
        raise _mixed(place)
    return top if keepdim else top.amax(dims)
