"""An Lp ball in a box around each row: L1, L2, Linf, L0.

The box may differ by feature and have any range. Projections are onto ball *and* box at once: with
d = z - origin and c the room to the box in d's direction, the nearest point is

    Linf  clip to both             L2  min(s |d|, c), s such that the norm is eps
    L1    clip(|d| - t, 0, c), t such that the sum is eps

Projecting on the ball and then clipping, as most libraries do, stays inside but is not nearest: in
corners of the box it wastes budget, which is where images live.

Where each channel or feature has an eps of its own, z is not x: see `channels`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from durometer.core.devices import is_cpu, widest
from durometer.core.streams import Stream
from durometer.spaces import compiled
from durometer.spaces.channels import Channels
from durometer.spaces.genes import Genes
from durometer.spaces.projections import room_to, shrink_l1, shrink_l2
from durometer.spaces.region import per_row

# Masks and `where` cost ten times an arithmetic operation on the CPU, and these functions run at
# every step of every attack: hence sign(), lt(out=) and minimum() in their place.


@dataclass(frozen=True, eq=False)
class LpRegion:
    """An Lp ball in a box around each row of a batch; z is x, flattened, unless `channels` says."""

    origin: Tensor  # (n, D)
    shape: tuple[int, ...]
    p: float
    eps: float
    low: Tensor  # (1, D)
    high: Tensor
    constrained: bool = False
    channels: Channels | None = None  # each channel or feature has an eps of its own

    @classmethod
    def of(cls, x: Tensor, p: float, eps: Tensor, low: Tensor, high: Tensor) -> LpRegion:
        """A ball of one eps per feature (1, D) around inputs, in a box (1, D)."""
        by = Channels.of(x, eps, low, high)
        origin, low, high = (by.inwards(side) for side in (by.clean, low, high))
        return cls(origin, by.canvas, p, float(eps.max()), low, high, channels=by)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The shape of an input; `shape` is that of what may change."""
        return self.shape if self.channels is None else self.channels.shape

    def decode(self, z: Tensor) -> Tensor:
        if self.channels is not None:
            z = self.channels.outwards(z, self.origin)
        return z.reshape(len(z), *self.inputs)

    def encode(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return flat if self.channels is None else self.channels.inwards(flat)

    @cached_property
    def corners(self) -> tuple[Tensor, Tensor]:
        """Lowest and highest values in the ball of Linf and the box."""
        return (
            (self.origin - self.eps).clamp_(self.low, self.high),
            (self.origin + self.eps).clamp_(self.low, self.high),
        )

    def project(self, z: Tensor) -> Tensor:
        if self.p == math.inf:
            return z.clamp(*self.corners)
        if self.p and compiled.serves(z, self.origin, self.low, self.high):
            return compiled.project(z, self.origin, self.low, self.high, self.p, self.eps)
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
        if self.p < 2.0 and compiled.serves(z, grad, step, self.origin, self.low, self.high):
            box = self.low, self.high
            return compiled.sparse_step(z, grad, step, self.origin, *box, self.p, self.eps)
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
        largest = weight.topk(int(count.max()) if is_cpu(z.device) else most, dim=1).indices
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
        if self.channels is not None:
            return self.channels.kept(x.reshape(len(x), -1)) & self._near(x)
        z = self.encode(x)
        if self._compiled(z):
            return self.contains_at(x, torch.arange(len(x)))
        boxed = (z - z.clamp(self.low, self.high)).abs_().amax(1) == 0
        if not is_cpu(z.device):  # strict where single precision leaves a doubt, and no waiting
            return boxed & (self.distance(x) <= self.eps + 0.9 * self._slack)
        return boxed & (self.distance(x) <= self.eps + self._slack)

    def contains_at(self, x: Tensor, places: Tensor) -> Tensor:
        """`contains`, asked of the points at these places only."""
        z = self.encode(x)
        if not self._compiled(z):
            return self.take(places).contains(x.index_select(0, places))
        reach = self.eps + self._slack
        return compiled.inside(places, z, self.origin, self.low, self.high, self.p, reach)

    def _compiled(self, z: Tensor) -> bool:
        plain = self.p != 0.0 and self.channels is None
        return plain and compiled.serves(z, self.origin, self.low, self.high)

    def _near(self, x: Tensor) -> Tensor:
        """(n,) bool: near enough, each feature with the rounding of its own units."""
        assert self.channels is not None
        if self.p != math.inf:
            return self.distance(x) <= self.eps + self.rounding()
        low, high = (side.flatten(1) for side in self.box())
        flat = x.flatten(1).to(low.dtype)
        return ((flat >= low) & (flat <= high)).all(1)

    @cached_property
    def _slack(self) -> Tensor:
        return self.rounding()

    def rounding(self) -> Tensor:
        """What the rounding of the inputs themselves can add to a distance of eps."""
        if self.p == 0.0:
            return self.origin.new_zeros(1, dtype=widest(self.origin.device))
        if self.channels is not None:
            return self.channels.rounding(self.p) + 1e-6 * self.eps
        largest = self.origin.abs().amax(1).to(widest(self.origin.device))
        unit = torch.finfo(self.origin.dtype).eps * largest
        dims = self.origin.shape[1] ** (0.0 if self.p == math.inf else 1 / self.p)
        slack: Tensor = unit * dims + 1e-6 * self.eps
        return slack

    def distance(self, x: Tensor) -> Tensor:
        if self.channels is not None:
            change = self.channels.apart(x.reshape(len(x), -1))
        else:
            wide = widest(self.origin.device)
            change = self.encode(x).to(wide) - self.origin.to(wide)
        if self.p == math.inf:
            return change.abs().amax(1)
        far: Tensor = torch.linalg.vector_norm(change, self.p, dim=1)
        return far

    def box(self) -> tuple[Tensor, Tensor]:
        if self.channels is not None:
            low, high = self.channels.box(self.eps, self.p)
            return tuple(side.reshape(len(side), *self.inputs) for side in (low, high))  # type: ignore[return-value]
        room = self.eps + self.rounding()[:, None] if self.p else math.inf if self.eps >= 1 else 0
        origin = self.origin.double()
        low = self.low.double().maximum(origin - room).minimum(origin)
        high = self.high.double().minimum(origin + room).maximum(origin)
        return self.decode(low), self.decode(high)

    def genes(self) -> Genes:
        """Every feature is a real number; beyond the ball's own box nothing is worth trying."""
        if self.channels is not None:
            by, free = self.channels, self.channels.free
            low, high = (side[:, free] for side in by.box(self.eps, self.p))
            start = by.clean[:, free].double()
            return Genes((len(free), 0, 0), low, high, start, by.clean, free)
        count = self.origin.shape[1]
        reach = math.inf if self.p == 0.0 else self.eps
        low = self.low.maximum(self.origin - reach).double()
        high = self.high.minimum(self.origin + reach).double()
        start = self.origin.double()
        return Genes((count, 0, 0), low, high, start, self.origin, torch.arange(count))

    def violation(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))

    def take(self, rows: Tensor) -> LpRegion:
        by = self.channels and self.channels.take(rows)
        rows = rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows
        origin = self.origin.index_select(0, rows)
        part = LpRegion(
            origin, self.shape, self.p, self.eps, self.low, self.high, self.constrained, by
        )
        if self.p and by is None and "_slack" in vars(self):
            vars(part)["_slack"] = self._slack.index_select(0, rows)
        return part
