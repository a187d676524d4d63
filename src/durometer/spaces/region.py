"""Space and Region: what may change. A region is a space bound to a batch.

Two kinds of coordinates. x is the problem's own (raw units, any shape); z is what attacks search in
(scaled, encoded), always flat: (n, D). `decode(z)` gives the x that would be handed in, exactly
(rounded, repaired, immutables restored), and lets gradients pass straight through to z. So one
model call is a gradient query *and* a candidate, and the referee can judge every point queried.

A region's methods work row by row: row i of z belongs to row i of the region.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor

from durometer.core.streams import Stream


@runtime_checkable
class Region(Protocol):
    """The points an attacker may hand in instead of each row of a batch."""

    @property
    def origin(self) -> Tensor:
        """(n, D): the clean rows in search coordinates."""
        ...

    @property
    def eps(self) -> float:
        """The size of the region, in search coordinates: step sizes are multiples of it."""
        ...

    @property
    def p(self) -> float:
        """The norm that measures it."""
        ...

    @property
    def constrained(self) -> bool:
        """False: `penalty` is 0 everywhere, so attacks need not compute it."""
        ...

    def decode(self, z: Tensor) -> Tensor:
        """The input that would be handed in; straight-through gradient."""
        ...

    def encode(self, x: Tensor) -> Tensor:
        """Search coordinates of an input."""
        ...

    def project(self, z: Tensor) -> Tensor:
        """The nearest point inside (bounds and distance; relations are the penalty's business)."""
        ...

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        """A steepest-ascent step in this geometry, `step` (n,) long; not projected."""
        ...

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        """A random point inside for each row; `rows` are the stream's names for the rows."""
        ...

    def penalty(self, z: Tensor) -> Tensor:
        """(n,): differentiable, 0 exactly where the relations hold."""
        ...

    def violation(self, x: Tensor) -> Tensor:
        """(n,): how far inputs are from their relations, as they are; `penalty` repairs first."""
        ...

    def contains(self, x: Tensor) -> Tensor:
        """(n,) bool: may this input be handed in? The only authority on validity."""
        ...

    def distance(self, x: Tensor) -> Tensor:
        """(n,): how far the input is from the clean row."""
        ...

    def box(self) -> tuple[Tensor, Tensor]:
        """Lowest and highest value of each feature, shaped like the inputs.

        They hold for every valid input, so a proof may start from them.
        """
        ...

    def take(self, rows: Tensor) -> Self:
        """The region of these rows (indices, repeats allowed, or a mask)."""
        ...


@runtime_checkable
class Space(Protocol):
    """Configuration of what may change."""

    @property
    def norm(self) -> float | None:
        """The p of an Lp ball inside a box; None: another geometry."""
        return None

    def check(self, x: Tensor) -> None:
        """Raise DurometerError if no region can be made around these inputs."""
        ...

    def around(self, x: Tensor) -> Region:
        """The region around each row of a batch."""
        ...


def per_row(values: Any, like: Tensor) -> Tensor:
    """One number per row, shaped to multiply `like` (n, ...)."""
    shaped: Tensor = values.reshape(-1, *[1] * (like.ndim - 1))
    return shaped


def contains_at(region: Region, x: Tensor, places: Tensor) -> Tensor:
    """`region.contains(x)` of the rows at these places only; some regions need no copy for that."""
    if len(places) == len(x):
        return region.contains(x)
    own = getattr(type(region), "contains_at", None)  # its own, not one that it passes on
    if own is None:
        return region.take(places).contains(x.index_select(0, places))
    found: Tensor = own(region, x, places)
    return found


@runtime_checkable
class Remarks(Protocol):
    """A space that knows what its user may take to be inside and is not."""

    def remarks(self, x: Tensor) -> tuple[str, ...]:
        """Each in words; they become a note of the report."""
        ...
