"""Lp balls inside a box: L1, L2, Linf (and L0, the number of changed features).

`eps`, `low` and `high` are one number, one per channel of a picture or feature of a row, or numbers
in the inputs' own shape. What the geometry does is in `ball`; what an eps per channel means in
`channels`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from torch import Tensor

from durometer.core import serialization
from durometer.core.devices import widest
from durometer.core.errors import DurometerError
from durometer.core.number_format import format_sizes
from durometer.core.validation import noun
from durometer.spaces import token_ids
from durometer.spaces.ball import LpRegion
from durometer.spaces.channels import spread

_NAMES = {0.0: "L0", 1.0: "L1", 2.0: "L2", math.inf: "Linf"}


def _plain(bound: Any) -> Any:
    """A bound as it would be written: a number, or a list of numbers."""
    return bound.tolist() if hasattr(bound, "tolist") else bound


def _several(eps: Any) -> Any:
    """Numbers as nested tuples (or the one number of an array), none negative and not all 0."""
    if hasattr(eps, "index") and hasattr(eps, "to_numpy"):
        raise DurometerError(
            "eps is a Series, and a ball knows no names; give its values in the order of the "
            "data's columns, e.g. eps[list(data.names)].tolist()"
        )
    try:
        found = np.asarray(eps.tolist() if hasattr(eps, "tolist") else eps)
    except (ValueError, TypeError, RuntimeError):  # lists of different lengths, tensors of no data
        found = np.asarray(None)
    fine = found.dtype.kind in "fiu" and found.size > 0
    if not (fine and ((found >= 0) & (found <= LARGEST)).all() and found.any()):
        said = repr(eps)
        raise DurometerError(
            f"eps={said if len(said) < 120 else said[:117] + '...'}: expected a positive number, "
            "or one for each channel or feature (0: it may not change)"
        )
    return _tuples(found.astype(float).tolist())


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


LARGEST = 1e300  # a distance that can still be squared in parts


@noun(eq=False)
class Lp:
    """All inputs within `eps` of the clean one in the `p` norm and inside the box [low, high].

    Args:
        p: The norm: 0, 1, 2 or infinity.
        eps: Size of the ball, in the units of the inputs; for p = 0 a number of features. One
            number, or one per channel or feature (0: it may not change): changes then count in
            units of their own eps.
        low: Lowest allowed value: one number, or one per channel or feature.
        high: Highest allowed value, likewise.

    Raises:
        DurometerError: `p` is no such norm, or `eps` is not positive.
    """

    p: float = field(metadata={"most": math.inf})
    eps: Any
    low: Any = 0.0
    high: Any = 1.0

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __post_init__(self) -> None:
        if self.p not in _NAMES:
            raise DurometerError(f"p={self.p}: expected one of 0, 1, 2, inf")
        if isinstance(self.eps, int | float) and not isinstance(self.eps, bool):
            if not 0 < self.eps <= LARGEST:
                huge = isinstance(self.eps, int) and self.eps > LARGEST
                said = "more than 1e300" if huge else repr(self.eps)
                raise DurometerError(f"eps={said}: expected a positive number")
            return
        object.__setattr__(self, "eps", _several(self.eps))
        if self.p == 0.0 and self._several:
            raise DurometerError(
                f"L0({_plain(self.eps)}): L0 counts the features that change, whatever their size; "
                "give one number. Features that may not change are columns of a schema "
                "(mutable=False), or lie outside a Patch"
            )

    def __repr__(self) -> str:
        low, high = _plain(self.low), _plain(self.high)
        box = "" if (low, high) == (0.0, 1.0) else f", low={low}, high={high}"
        return f"{_NAMES.get(self.p, f'Lp(p={self.p})')}({self.eps!r}{box})"

    def to_dict(self, whole: bool = False) -> serialization.Table:
        """The space as plain values for a file or a report.

        Args:
            whole: Ignored: eps is always written, the box only where it is not [0, 1].
        """
        return {"type": _NAMES[self.p]} | serialization.non_default_fields(self, leave=("p",))

    @property
    def norm(self) -> float:
        """The p of the norm."""
        return self.p

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        size = format_sizes(self.eps)
        allowed = {
            0.0: f"at most {size} features",
            1.0: f"features by at most {size} in sum",
            2.0: f"features by at most {size} in Euclidean distance",
            math.inf: f"every feature by at most {size}",
        }[self.p]
        if self._several:
            allowed = {
                1.0: "features, each counted in units of its own eps, by at most 1 in sum",
                2.0: "features, each counted in units of its own eps, by at most 1 in Euclidean "
                "distance",
                math.inf: "every feature by at most its own eps",
            }[self.p] + f" ({size})"
        return f"The attacker may change {allowed}."

    def check(self, x: Tensor) -> None:
        low, high = self._box(x)
        if not bool((low <= high).all()):  # NaN included
            raise DurometerError(
                f"box: low={self.low} lies above high={self.high}, or is no number"
            )
        eps = spread(self.eps, x, "eps")
        wide = (eps > (high - low) * (1 + 1e-6)) | (eps == 0)
        if self.p == math.inf and low.numel() and bool(wide.all()):
            width, said = float((high - low).max()), format_sizes(self.eps)
            raise DurometerError(
                f"eps={said} is more than the whole box, {width:g} wide: nothing would be "
                f"forbidden; for grey levels in [0, 1] write Linf({said.split(',')[0]} / 255)"
            )
        flat = x.reshape(len(x), -1)
        for values, wrong in (
            (flat.amin(1), (flat < low).any(1)),
            (flat.amax(1), (flat > high).any(1)),
        ):
            if bool(wrong.any()):
                row = int(wrong.nonzero()[0])
                if token_ids.is_token_ids(x):
                    raise DurometerError(f"{self!r}: the inputs are sentences; use space=du.Text()")
                raise DurometerError(
                    f"{int(wrong.sum())} of {len(x)} inputs lie outside the box "
                    f"[{self.low}, {self.high}]: row {row} holds {float(values[row]):g}; "
                    f"give the box of your data: {_NAMES[self.p]}({_plain(self.eps)}, low=, high=)"
                )

    def _box(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return spread(self.low, x, "low"), spread(self.high, x, "high")

    @property
    def _several(self) -> bool:
        return not isinstance(self.eps, int | float)

    def around(self, x: Tensor) -> LpRegion:
        low, high = self._box(x)
        if self._several:
            return LpRegion.of(x, self.p, spread(self.eps, x, "eps", widest(x.device)), low, high)
        return LpRegion(x.reshape(len(x), -1), tuple(x.shape[1:]), self.p, self.eps, low, high)


def Linf(eps: float | Sequence[float], low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Inputs of which every feature differs from the clean one by at most `eps`.

    Args:
        eps: The largest change, in the units of the inputs: 8 / 255 for images in [0, 1]. One
            number, or one per channel or feature (0: it may not change).
        low: Lowest allowed value: one number, or one per channel or feature.
        high: Highest allowed value, likewise. Give `low` and `high` for data outside [0, 1], e.g.
            images normalised channel by channel.

    Returns:
        The space.

    Raises:
        DurometerError: `eps` is not positive.

    >>> import torch
    >>> import durometer as du
    >>> region = du.Linf(0.3).around(torch.tensor([[0.5, 0.5]]))
    >>> [region.contains(torch.tensor([x])).item() for x in ([0.7, 0.3], [0.9, 0.5])]
    [True, False]
    """
    return Lp(math.inf, eps, low, high)


def L2(eps: float | Sequence[float], low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Inputs at a Euclidean distance of at most `eps` from the clean one.

    Args:
        eps: The largest distance, in the units of the inputs. With one number per channel or
            feature, each change counts in units of its own eps and the length of these is at most
            1.
        low: Lowest allowed value: one number, or one per channel or feature.
        high: Highest allowed value, likewise.

    Returns:
        The space.

    Raises:
        DurometerError: `eps` is not positive.

    >>> import torch
    >>> import durometer as du
    >>> region = du.L2(0.3).around(torch.tensor([[0.5, 0.5]]))
    >>> [region.contains(torch.tensor([x])).item() for x in ([0.7, 0.5], [0.75, 0.25])]
    [True, False]
    """
    return Lp(2.0, eps, low, high)


def L1(eps: float | Sequence[float], low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Inputs whose absolute changes sum up to at most `eps`.

    Args:
        eps: The largest sum, in the units of the inputs. With one number per channel or feature,
            each change counts in units of its own eps and the sum of these is at most 1.
        low: Lowest allowed value: one number, or one per channel or feature.
        high: Highest allowed value, likewise.

    Returns:
        The space.

    Raises:
        DurometerError: `eps` is not positive.

    >>> import torch
    >>> import durometer as du
    >>> region = du.L1(0.3).around(torch.tensor([[0.5, 0.5]]))
    >>> [region.contains(torch.tensor([x])).item() for x in ([0.7, 0.5], [0.7, 0.3])]
    [True, False]
    """
    return Lp(1.0, eps, low, high)


def L0(eps: float, low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Inputs that differ from the clean one in at most `eps` features.

    Args:
        eps: Number of features that may change, each to any value of the box. A pixel of a colour
            image is three features.
        low: Lowest allowed value: one number, or one per channel or feature.
        high: Highest allowed value, likewise.

    Returns:
        The space.

    Raises:
        DurometerError: `eps` is not positive, or is more than one number.

    >>> import torch
    >>> import durometer as du
    >>> region = du.L0(1).around(torch.tensor([[0.5, 0.5]]))
    >>> [region.contains(torch.tensor([x])).item() for x in ([1.0, 0.5], [0.6, 0.4])]
    [True, False]
    """
    return Lp(0.0, eps, low, high)
