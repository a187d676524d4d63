"""Lp balls inside a box: L1, L2, Linf (and L0, the number of changed features).

The box may differ by feature and have any range. Projections are onto ball *and* box at once: with
d = z - origin and c the room to the box in d's direction, the nearest point is

    Linf  clip to both             L2  min(s |d|, c), s such that the norm is eps
    L1    clip(|d| - t, 0, c), t such that the sum is eps

Projecting on the ball and then clipping, as most libraries do, stays inside but is not nearest: in
corners of the box it wastes budget, which is where images live.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from assay import nouns
from assay.amounts import written
from assay.devices import on_host, widest
from assay.errors import AssayError
from assay.spaces.genes import Genes
from assay.spaces.projections import room_to, shrink_l1, shrink_l2
from assay.spaces.region import per_row
from assay.streams import Stream

_NAMES = {0.0: "L0", 1.0: "L1", 2.0: "L2", math.inf: "Linf"}


def _plain(bound: Any) -> Any:
    """A bound as it would be written: a number, or a list of numbers."""
    return bound.tolist() if hasattr(bound, "tolist") else bound


LARGEST = 1e300  # a distance that can still be squared in parts


@dataclass(frozen=True, eq=False)
class Lp:
    """All inputs within `eps` of the clean one in the `p` norm, and within [low, high]."""

    p: float
    eps: float
    low: Any = 0.0
    high: Any = 1.0

    __eq__, __hash__ = nouns.same, nouns.hashed

    def __post_init__(self) -> None:
        if self.p not in _NAMES:
            raise AssayError(f"p={self.p}: expected one of 0, 1, 2, inf")
        number = isinstance(self.eps, int | float) and not isinstance(self.eps, bool)
        if not (number and 0 < self.eps <= LARGEST):
            huge = isinstance(self.eps, int) and self.eps > LARGEST
            said = "more than 1e300" if huge else repr(self.eps)
            raise AssayError(f"eps={said}: expected a positive number")

    def __repr__(self) -> str:
        low, high = _plain(self.low), _plain(self.high)
        box = "" if (low, high) == (0.0, 1.0) else f", low={low}, high={high}"
        return f"{_NAMES.get(self.p, f'Lp(p={self.p})')}({self.eps!r}{box})"

    def to_table(self, whole: bool = False) -> nouns.Table:
        """As it is called: the box stays unsaid where it is [0, 1]."""
        return {"type": _NAMES[self.p]} | nouns.given(self, leave=("p",))

    @property
    def norm(self) -> float:
        """The p."""
        return self.p

    @property
    def in_words(self) -> str:
        """The threat as a sentence."""
        size = written(self.eps)
        allowed = {
            0.0: f"at most {size} features",
            1.0: f"features by at most {size} in sum",
            2.0: f"features by at most {size} in Euclidean distance",
            math.inf: f"every feature by at most {size}",
        }[self.p]
        return f"The attacker may change {allowed}."

    def check(self, x: Tensor) -> None:
        low, high = self._box(x)
        if not bool((low <= high).all()):  # NaN included
            raise AssayError(f"box: low={self.low} lies above high={self.high}, or is no number")
        width = float((high - low).max()) if low.numel() else math.inf
        if self.p == math.inf and self.eps > width * (1 + 1e-6):
            raise AssayError(
                f"eps={self.eps:g} is more than the whole box, {width:g} wide: nothing would be "
                f"forbidden; for grey levels in [0, 1] write Linf({self.eps:g} / 255)"
            )
        flat = x.reshape(len(x), -1)
        for values, wrong in (
            (flat.amin(1), (flat < low).any(1)),
            (flat.amax(1), (flat > high).any(1)),
        ):
            if bool(wrong.any()):
                row = int(wrong.nonzero()[0])
                raise AssayError(
                    f"{int(wrong.sum())} of {len(x)} inputs lie outside the box "
                    f"[{self.low}, {self.high}]: row {row} holds {float(values[row]):g}; "
                    f"give the box of your data: {_NAMES[self.p]}({self.eps:g}, low=, high=)"
                )

    def _box(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shape = x.shape[1:]
        try:
            return tuple(  # type: ignore[return-value]
                torch.as_tensor(b, dtype=x.dtype, device=x.device)
                .expand(shape)
                .reshape(1, -1)
                .contiguous()  # an expanded one is read element by element, four times slower
                for b in (self.low, self.high)
            )
        except (RuntimeError, TypeError, ValueError):
            raise AssayError(
                f"box: low={self.low!r} and high={self.high!r} must be numbers or "
                f"have the shape {tuple(shape)} of an input"
            ) from None

    def around(self, x: Tensor) -> LpRegion:
        low, high = self._box(x)
        return LpRegion(x.reshape(len(x), -1), tuple(x.shape[1:]), self.p, self.eps, low, high)


def Linf(eps: float, low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Every feature may change by at most `eps`.

    >>> import torch
    >>> import assay as ay
    >>> region = ay.Linf(0.3).around(torch.tensor([[0.5, 0.5]]))
    >>> region.contains(torch.tensor([[0.7, 0.5]])).item()
    True
    """
    return Lp(math.inf, eps, low, high)


def L2(eps: float, low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Euclidean distance at most `eps`.

    >>> import torch
    >>> import assay as ay
    >>> region = ay.L2(1.0).around(torch.tensor([[0.5, 0.5]]))
    >>> region.contains(torch.tensor([[0.7, 0.5]])).item()
    True
    """
    return Lp(2.0, eps, low, high)


def L1(eps: float, low: Any = 0.0, high: Any = 1.0) -> Lp:
    """Sum of absolute changes at most `eps`.

    >>> import torch
    >>> import assay as ay
    >>> region = ay.L1(2.0).around(torch.tensor([[0.5, 0.5]]))
    >>> region.contains(torch.tensor([[0.7, 0.5]])).item()
    True
    """
    return Lp(1.0, eps, low, high)


def L0(eps: float, low: Any = 0.0, high: Any = 1.0) -> Lp:
    """At most `eps` features changed.

    >>> import torch
    >>> import assay as ay
    >>> region = ay.L0(1).around(torch.tensor([[0.5, 0.5]]))
    >>> region.contains(torch.tensor([[0.7, 0.5]])).item()
    True
    """
    return Lp(0.0, eps, low, high)


@dataclass(frozen=True, eq=False)
class LpRegion:
    """An Lp ball in a box around each row of a batch; z is x, flattened."""

    origin: Tensor  # (n, D)
    shape: tuple[int, ...]
    p: float
    eps: float
    low: Tensor  # (1, D)
    high: Tensor
    constrained: bool = False

    def decode(self, z: Tensor) -> Tensor:
        return z.reshape(len(z), *self.shape)

    def encode(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    @cached_property
    def _ends(self) -> tuple[Tensor, Tensor]:
        """Lowest and highest values in the ball of Linf and the box."""
        return (
            (self.origin - self.eps).clamp_(self.low, self.high),
            (self.origin + self.eps).clamp_(self.low, self.high),
        )

    def project(self, z: Tensor) -> Tensor:
        if self.p == math.inf:
            return z.clamp(*self._ends)
        d = z - self.origin
        room = room_to(self.origin, d.sign(), self.low, self.high)
        wanted = d.abs()
        size = wanted.minimum(room)  # inside the box; still to be shrunk into the ball
        if self.p == 2.0:
            size = shrink_l2(wanted, room, size, self.eps)
        elif self.p == 1.0:
            size = shrink_l1(wanted, size, self.eps)
        else:
            kept = size.topk(min(int(self.eps), d.shape[1]), dim=1)
            size = torch.zeros_like(size).scatter_(1, kept.indices, kept.values)
        moved: Tensor = size.copysign(d).add_(self.origin).clamp_(self.low, self.high)
        return moved

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        step = per_row(step, z)
        if self.p == math.inf:
            return grad.sign().mul_(step).add_(z)
        if self.p == 2.0:
            length: Tensor = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
            return (step * grad).div_(length.clamp_min(1e-30)).add_(z)
        return z + step * self._sparse(z, grad)

    def _sparse(self, z: Tensor, grad: Tensor) -> Tensor:
        """A step on few features (L1, L0): two thirds as many as are changed now, a fifth at most.

        Features that stand at the box in the gradient's direction cannot move and are passed over
        (Croce & Hein 2021, whose sparsity schedule this replaces by the iterate's own sparsity).
        """
        # At the box up to rounding: x + (low - x) is not always low, and the step would be wasted.
        rounding = z.abs().mul_(4 * torch.finfo(z.dtype).eps).add_(1e-6 * self.eps)
        sign = grad.sign()
        free = torch.gt(room_to(z, sign, self.low, self.high), rounding, out=torch.empty_like(z))
        weight = free.mul_(grad.abs())
        changed = (z - self.origin).sign_().abs_().sum(1, keepdim=True)
        count = (changed / 1.5).clamp(1, max(1.0, 0.2 * z.shape[1])).long()
        most = max(1, z.shape[1] // 5)
        largest = weight.topk(int(count.max()) if on_host(z.device) else most, dim=1).indices
        place = torch.arange(largest.shape[1], device=z.device)
        chosen = torch.zeros_like(weight).scatter_(1, largest, (place < count).to(weight.dtype))
        sparse = chosen.mul_(weight.sign()).mul_(sign)
        if self.p == 0.0:
            return sparse
        return sparse / sparse.abs().sum(1, keepdim=True).clamp_min(1.0)

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        size = self.origin.shape[1]
        if self.p == 0.0:
            return self.origin.clone()
        if self.p == math.inf:
            d = 2 * stream.uniform(rows, size) - 1
        else:
            if self.p == 2.0:
                d = stream.normal(rows, size)
            else:
                d = stream.sign(rows, size) * stream.exponential(rows, size)
            radius = stream.uniform(rows, 1) ** (1 / size)  # uniform in the ball's volume
            d = d * (radius / torch.linalg.vector_norm(d, self.p, 1, keepdim=True))
        # In float64 up to here: the sum's order depends on the batch, its rounding must not show.
        return (self.origin + (self.eps * d).to(self.origin.dtype)).clamp(self.low, self.high)

    def penalty(self, z: Tensor) -> Tensor:
        return z.new_zeros(len(z))

    def contains(self, x: Tensor) -> Tensor:
        z = self.encode(x)
        boxed = (z - z.clamp(self.low, self.high)).abs_().amax(1) == 0
        if not on_host(z.device):  # strict where single precision leaves a doubt, and no waiting
            return boxed & (self.distance(x) <= self.eps + 0.9 * self._slack)
        if not self._quick(x):
            return boxed & (self.distance(x) <= self.eps + self.rounding())
        # A difference is exact to 2^-24 of itself, far less than the rounding that is allowed: who
        # is inside with nine tenths of it is inside. The others are measured in double precision.
        change = z - self.origin
        if self.p == math.inf:
            far = change.abs_().amax(1)
        elif self.p == 1.0:
            far = change.abs_().sum(1, dtype=torch.float64)
        else:
            far = torch.linalg.vector_norm(change, 2, dim=1, dtype=torch.float64)
        near = far <= self.eps + 0.9 * self._slack
        doubtful = (boxed & ~near).nonzero()[:, 0]
        if len(doubtful):
            part = self.take(doubtful)
            near[doubtful] = part.distance(x[doubtful]) <= self.eps + part.rounding()
        return boxed & near

    def _quick(self, x: Tensor) -> bool:
        single = self.origin.dtype == torch.float32 and x.dtype == torch.float32
        return single and self.p != 0.0

    @cached_property
    def _slack(self) -> Tensor:
        return self.rounding()

    def rounding(self) -> Tensor:
        """What the rounding of the inputs themselves can add to a distance of eps."""
        if self.p == 0.0:
            return self.origin.new_zeros(1, dtype=widest(self.origin.device))
        largest = self.origin.abs().amax(1).to(widest(self.origin.device))
        unit = torch.finfo(self.origin.dtype).eps * largest
        dims = self.origin.shape[1] ** (0.0 if self.p == math.inf else 1 / self.p)
        slack: Tensor = unit * dims + 1e-6 * self.eps
        return slack

    def distance(self, x: Tensor) -> Tensor:
        wide = widest(self.origin.device)
        change = self.encode(x).to(wide) - self.origin.to(wide)
        if self.p == math.inf:
            return change.abs().amax(1)
        far: Tensor = torch.linalg.vector_norm(change, self.p, dim=1)
        return far

    def box(self) -> tuple[Tensor, Tensor]:
        room = self.eps + self.rounding()[:, None] if self.p else math.inf if self.eps >= 1 else 0
        origin = self.origin.double()
        low = self.low.double().maximum(origin - room).minimum(origin)
        high = self.high.double().minimum(origin + room).maximum(origin)
        return self.decode(low), self.decode(high)

    def genes(self) -> Genes:
        """Every feature is a real number; beyond the ball's own box nothing is worth trying."""
        count = self.origin.shape[1]
        reach = math.inf if self.p == 0.0 else self.eps
        low = self.low.maximum(self.origin - reach).double()
        high = self.high.minimum(self.origin + reach).double()
        start = self.origin.double()
        return Genes((count, 0, 0), low, high, start, self.origin, torch.arange(count))

    def violation(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))

    def take(self, rows: Tensor) -> LpRegion:
        part = replace(self, origin=self.origin[rows])
        if "_slack" in self.__dict__:
            part.__dict__["_slack"] = self._slack[rows]
        return part


# Masks and `where` cost ten times an arithmetic operation on the CPU, and these functions run at
# every step of every attack: hence sign(), lt(out=) and minimum() in their place.
