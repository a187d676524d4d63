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

from durometer.core.capabilities import ChecksPlaces
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
        """The input that a point of the search space stands for: rounded, repaired, immutables
        restored.

        Args:
            z: Search coordinates (n, D).

        Returns:
            Inputs (n, ...); gradients pass straight through to `z`.
        """
        ...

    def encode(self, x: Tensor) -> Tensor:
        """Search coordinates of inputs.

        Args:
            x: Inputs (n, ...).

        Returns:
            (n, D).
        """
        ...

    def project(self, z: Tensor) -> Tensor:
        """The nearest point inside the region; relations are left to `penalty`.

        Args:
            z: Search coordinates (n, D).

        Returns:
            (n, D).
        """
        ...

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        """One step of steepest ascent in the region's geometry, not projected.

        Args:
            z: Where to start (n, D).
            grad: The gradient there (n, D).
            step: Length of the step of each row (n,), in the units of `eps`.

        Returns:
            (n, D).
        """
        ...

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        """A random point inside, for each row.

        Args:
            stream: The random numbers.
            rows: The names of the rows in the stream (n,).

        Returns:
            (n, D).
        """
        ...

    def penalty(self, z: Tensor) -> Tensor:
        """How far the relations are from holding; differentiable, 0 exactly where they hold.

        Args:
            z: Search coordinates (n, D).

        Returns:
            (n,).
        """
        ...

    def violation(self, x: Tensor) -> Tensor:
        """How far inputs are from their relations as they are, without repair.

        Args:
            x: Inputs (n, ...).

        Returns:
            (n,).
        """
        ...

    def contains(self, x: Tensor) -> Tensor:
        """Whether an input is allowed: the only authority on validity.

        Args:
            x: Inputs (n, ...), row i for row i of the region.

        Returns:
            (n,) bool.
        """
        ...

    def distance(self, x: Tensor) -> Tensor:
        """How far inputs are from the clean rows, in the region's norm.

        Args:
            x: Inputs (n, ...).

        Returns:
            (n,).
        """
        ...

    def box(self) -> tuple[Tensor, Tensor]:
        """Lowest and highest value of each feature, shaped like the inputs.

        They hold for every valid input, so a proof may start from them.
        """
        ...

    def take(self, rows: Tensor) -> Self:
        """The region of some rows.

        Args:
            rows: Positions (repeats allowed) or a mask.
        """
        ...


@runtime_checkable
class Space(Protocol):
    """The configuration of what may change; `around` binds it to a batch.

    A property `description` may state the threat as a sentence for the report.
    """

    @property
    def norm(self) -> float | None:
        """The p of an Lp ball inside a box; None: another geometry."""
        return None

    def check(self, x: Tensor) -> None:
        """Checks that regions can be made around these inputs.

        Args:
            x: Inputs (n, ...).

        Raises:
            DurometerError: They do not fit; the message says what was expected.
        """
        ...

    def around(self, x: Tensor) -> Region:
        """The region around each row of a batch.

        Args:
            x: Inputs (n, ...).

        Returns:
            A `Region` of n rows.
        """
        ...


def per_row(values: Any, like: Tensor) -> Tensor:
    """One number per row, shaped to multiply `like` (n, ...)."""
    shaped: Tensor = values.reshape(-1, *[1] * (like.ndim - 1))
    return shaped


def contains_at(region: Region, x: Tensor, places: Tensor) -> Tensor:
    """`region.contains(x)` of the rows at these places only; some regions need no copy for that."""
    if len(places) == len(x):
        return region.contains(x)
    if isinstance(region, ChecksPlaces) and issubclass(type(region), ChecksPlaces):  # not passed on
        return region.contains_at(x, places)
    return region.take(places).contains(x.index_select(0, places))


@runtime_checkable
class Remarks(Protocol):
    """A space that knows what its user may take to be inside and is not."""

    def remarks(self, x: Tensor) -> tuple[str, ...]:
        """Each in words; they become a note of the report."""
        ...


@runtime_checkable
class Widens(Protocol):
    """A region that can decode points outside of itself as they are."""

    def wider(self) -> Region:
        """The same without what binds points to it."""
        ...


def widened(region: Region) -> Region:
    """The region to decode points in that lie outside of this one; itself where it knows none."""
    return region.wider() if isinstance(region, Widens) else region
