"""CROWN (Zhang et al. 2018): linear bounds of a network's outputs in its inputs, walked backwards.

To bound a linear function of the output from above, its weights are carried from the last operation
to the first. An affine one transposes them; at a curve each weight takes the line above where it is
positive and the line below where it is negative; in the end a linear function of the input is left,
and the domain says how high that reaches. Lines need bounds of what goes into a curve; these come
from intervals and, for the numbers that intervals leave open, from the same walk.

The line below an unstable ReLU may have any slope in [0, 1], and a network that is bounded only
where some ReLUs are on or off (`signs`) may have any multiple of that condition added to its
weights: `climb.py` looks for the best of both, `branches.py` chooses the conditions.

What a reader would get wrong: the bounds are those of what the model *computes*. Each operation's
rounding E widens its interval, and a walk adds |weight| E; the bounds' own double precision is part
of E (`aten/program.py`) and of the last sum here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from durometer.proofs.aten.curves import Hinge
from durometer.proofs.aten.maxima import Maximum
from durometer.proofs.aten.program import (
    Affine,
    Bound,
    Curve,
    Input,
    Operation,
    Product,
    Program,
    Relaxation,
)
from durometer.proofs.bounds.domain import Domain

WIDE = 600  # open numbers of a layer: where there are more, all keep their intervals
_STILL = 1e-5  # what varies by less is as good as its interval: the walk ends there
_MEMORY = 3 * 10**7  # numbers carried backwards at a time
_OWN = 1e-11  # of the last sum, in double precision


@dataclass(eq=False)
class Free:
    """What a bound may choose, curve by curve (n, ...): any choice gives a valid bound."""

    alpha: dict[int, Tensor] = field(default_factory=dict)  # slopes below unstable ReLUs
    beta: dict[int, Tensor] = field(default_factory=dict)  # multiples (>= 0) of their signs
    seen: dict[int, Tensor] | None = None  # filled with the weights (n, m, ...) that arrive there

    def take(self, rows: Tensor) -> Free:
        """These rows (indices, repeats allowed)."""
        alpha, beta = ({k: v[rows] for k, v in d.items()} for d in (self.alpha, self.beta))
        return Free(alpha, beta)


@dataclass(eq=False)
class Network:
    """A program on one batch of domains: bounds of its operations, found once."""

    program: Program
    domain: Domain
    signs: dict[int, Tensor] = field(default_factory=dict)  # of ReLUs: 1 on, -1 off, 0 either
    bounds: dict[int, Bound] = field(default_factory=dict)
    relaxations: dict[int, Relaxation] = field(default_factory=dict)
    errors: dict[int, Tensor] = field(default_factory=dict)  # of the model's own arithmetic
    _walked: set[int] = field(default_factory=set)
    _still: set[int] = field(default_factory=set)

    def prepare(self) -> None:
        """Bounds of everything, and the lines of every curve."""
        low, high = self.domain.box
        n = len(low)
        for k, op in enumerate(self.program.operations):
            if isinstance(op, Input):
                self.bounds[k] = (low.reshape(n, *op.shape), high.reshape(n, *op.shape))
                continue
            taken = [self.bounds[i] for i in op.inputs]
            if isinstance(op, Curve | Product | Maximum):
                taken = [
                    self._tighter(i, side, op) for i, side in zip(op.inputs, taken, strict=True)
                ]
                if k in self.signs:
                    taken = [_on_its_side(taken[0], self.signs[k])]
                self.bounds |= zip(op.inputs, taken, strict=True)
            if isinstance(op, Curve):
                self.relaxations[k] = op.relaxation(*taken[0])
            found = op.interval(*taken)
            error = op.rounding(taken, found)
            if error is not None:
                self.errors[k] = error.expand(n, *op.shape)
                found = found[0] - error, found[1] + error
            found = op.hard(taken, found)
            self.bounds[k] = (found[0].expand(n, *op.shape), found[1].expand(n, *op.shape))
            if bool((found[1] - found[0] <= _STILL).all()):
                self._still.add(k)

    def unstable(self) -> int:
        """How many numbers of an input go through a curve."""
        return sum(line.lower_slope[0].numel() for line in self.relaxations.values())

    def empty(self) -> Tensor:
        """(n,) bool: no input has these signs."""
        none = torch.zeros(len(self.domain.centre), dtype=torch.bool)
        for a, b in self.bounds.values():
            none |= (a > b + 1e-9 * (1 + a.abs())).flatten(1).any(1)
        return none

    def _tighter(self, k: int, side: Bound, user: Operation) -> Bound:
        """The bounds of an operation by the walk back, where its intervals leave anything open."""
        low, high = side
        sure = (low >= 0) | (high <= 0) if isinstance(user, Hinge) else high - low <= _STILL
        need = (~sure).flatten(1).any(0).nonzero()[:, 0]
        if not len(need) or len(need) > WIDE or k in self._walked or not k:
            return side
        self._walked.add(k)
        n, size = len(low), low[0].numel()
        down, up = low.flatten(1).clone(), high.flatten(1).clone()
        largest = max(sum(_numbers(op) for op in self.program.operations[: k + 1]) // 4, size)
        for some in torch.split(need, max(1, _MEMORY // (2 * n * largest))):
            one = torch.zeros(len(some), size, dtype=low.dtype)
            one[torch.arange(len(some)), some] = 1.0
            weight = torch.cat([one, -one]).reshape(1, -1, *low.shape[1:])
            top = self.highest(weight.expand(n, *weight.shape[1:]), k)
            up[:, some] = torch.minimum(up[:, some], top[:, : len(some)])
            down[:, some] = torch.maximum(down[:, some], -top[:, len(some) :])
        return down.reshape(low.shape), up.reshape(high.shape)

    def highest(self, weight: Tensor, at: int | None = None, free: Free | None = None) -> Tensor:
        """(n, m): how high weights (n, m, *shape) of operation `at` can reach."""
        at = len(self.program.operations) - 1 if at is None else at
        final, const = self.linear(weight, at, free)
        reach = torch.maximum(*(side.abs() for side in self.domain.box))[:, None]
        own = _OWN * ((final.abs() * reach).sum(2) + const.abs())
        top = self.domain.highest(final) + const + own
        known = self.bounds.get(at)
        if known is None:
            return top
        low, high = (side[:, None] for side in known)
        return top.minimum(_total(weight.clamp_min(0) * high + weight.clamp_max(0) * low))

    def linear(
        self, weight: Tensor, at: int | None = None, free: Free | None = None
    ) -> tuple[Tensor, Tensor]:
        """(n, m, D) and (n, m): a linear function of the input that lies above the weights'."""
        at = len(self.program.operations) - 1 if at is None else at
        n, m = weight.shape[:2]
        carried: dict[int, Tensor] = {at: weight}
        const = weight.new_zeros(n, m)

        def send(k: int, part: Tensor) -> None:
            carried[k] = carried[k] + part if k in carried else part

        for k in range(at, -1, -1):
            w = carried.pop(k, None)
            if w is None:
                continue
            op = self.program.operations[k]
            if isinstance(op, Input):
                return w.reshape(n, m, -1), const
            if k in self.errors and k not in self._still:
                const = const + _total(w.abs() * self.errors[k][:, None])
            if isinstance(op, Affine) and k not in self._still:
                flat = w.reshape(n * m, *op.shape)
                fixed = op.constant()
                if fixed is not None:
                    const = const + _total(w * fixed)
                for i, part in zip(op.inputs, op.adjoint(flat), strict=True):
                    send(i, part.reshape(n, m, *part.shape[1:]))
                continue
            up, down = w.clamp_min(0), w.clamp_max(0)
            if isinstance(op, Curve) and k not in self._still:
                line = self.relaxations[k]
                lower = line.lower_slope if free is None else free.alpha.get(k, line.lower_slope)
                part = up * line.upper_slope[:, None] + down * lower[:, None]
                if free is not None and k in free.beta:
                    part = part + free.beta[k][:, None]
                if free is not None and free.seen is not None:
                    free.seen[k] = w
                const = const + _total(up * line.upper_bias[:, None])
                const = const + _total(down * line.lower_bias[:, None])
                send(op.inputs[0], part)
            elif isinstance(op, Product) and k not in self._still:
                parts, shift = self._planes(op, w)
                const = const + shift
                for i, part in zip(op.inputs[:2], parts, strict=True):
                    send(i, part)
            elif isinstance(op, Maximum) and k not in self._still:
                part, shift = self._largest(k, op, up, down)
                const = const + shift
                send(op.inputs[0], part)
            else:
                low, high = self.bounds[k]
                const = const + _total(up * high[:, None] + down * low[:, None])
        size = self.domain.centre.shape[1]
        return weight.new_zeros(n, m, size), const  # nothing depends on the input

    def _planes(self, op: Product, w: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """b' a + a' b - a' b' and what the error r s may add."""
        (a, r), (b, s) = (_middle(self.bounds[i]) for i in op.inputs[:2])
        parts = op.adjoint(w, a[:, None], b[:, None])
        at, off = op.multiply(a, b)[:, None], op.multiply(r, s)[:, None]
        return parts, _total(w.abs() * off - w * at)

    def _largest(self, k: int, op: Maximum, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
        """From below by the number that is surely large; from above by it, or by a constant."""
        low, high = self.bounds[op.inputs[0]]
        place, alone = op.chosen(low, high)
        n, m = up.shape[:2]
        up, down = up.reshape(n, m, -1), down.reshape(n, m, -1)
        top = self.bounds[k][1].flatten(1)
        const = (up * torch.where(alone, 0.0, top)[:, None]).sum(2)
        held = down + up * alone[:, None]
        size = low[0].numel()
        index = place[:, None].expand(n, m, -1)
        part = torch.zeros(n, m, size, dtype=up.dtype).scatter_add(2, index, held)
        return part.reshape(n, m, *low.shape[1:]), const


def _numbers(op: Operation) -> int:
    return int(torch.tensor(op.shape).prod())


def _middle(side: Bound) -> Bound:
    """Centre and radius."""
    return (side[0] + side[1]) / 2, (side[1] - side[0]) / 2


def _on_its_side(side: Bound, sign: Tensor) -> Bound:
    """Where a number is known to be above or below 0."""
    low, high = side
    low = torch.where(sign > 0, low.clamp_min(0), low)
    return low, torch.where(sign < 0, high.clamp_max(0), high)


def _total(x: Tensor) -> Tensor:
    """(n, m) the sums of (n, m, ...)."""
    return x.reshape(*x.shape[:2], -1).sum(2)
