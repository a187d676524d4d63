"""CROWN (Zhang et al. 2018): linear bounds of a network's outputs in its inputs, walked backwards.

To bound a linear function of the output from above, its weights are carried from the last step to
the first. An affine step transposes them; at a bent step each weight takes the line above the curve
where it is positive and the line below where it is negative; in the end a linear function of the
input is left, and the domain says how high that reaches. Lines need bounds of what goes into a bent
step; these come from intervals and, where a layer is not too wide, from the same walk.

The line below an unstable ReLU may have any slope in [0, 1], and a network that is bounded only
where some ReLUs are on or off (`signs`) may have any multiple of that condition added to its
weights: `climb.py` looks for the best of both, `branches.py` chooses the conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from durometer.proofs.bounds.bilinear import middle
from durometer.proofs.bounds.domain import Domain
from durometer.proofs.bounds.rounding import rounding
from durometer.proofs.bounds.steps import Bound, Step

WIDE = 600  # numbers of a layer: wider ones keep their intervals
_STILL = 1e-5  # what varies by less is as good as its interval: the walk ends there
_GRID = 65  # points on which a smooth curve is compared with its chord
# A smooth curve, and the most its second derivative can be: what the grid may have missed.
SMOOTH: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "sigmoid": (torch.sigmoid, 0.1),
    "tanh": (torch.tanh, 0.77),
    "gelu": (functional.gelu, 0.8),
    "silu": (functional.silu, 0.5),
    "elu": (functional.elu, 1.0),
    "softplus": (functional.softplus, 0.25),
}
# A convex curve, and where it has a given slope: below its chord, above the parallel that touches.
CONVEX: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "square": (torch.square, lambda slope: slope / 2),
    "exp": (torch.exp, lambda slope: slope.clamp_min(1e-300).log()),
    "rsqrt": (torch.rsqrt, lambda slope: (-2 * slope).clamp_min(1e-300).pow(-2 / 3)),
}


@dataclass(frozen=True, eq=False)
class Lines:
    """Of a bent step, number by number: below * x + floor <= curve <= above * x + roof."""

    below: Tensor
    floor: Tensor
    above: Tensor
    roof: Tensor
    loose: Tensor  # where `below` may be any slope between the curve's two


def lines(step: Step, side: Bound) -> Lines:
    """The lines of a curve between these bounds."""
    low, high = side
    if step.curve in ("relu", "leaky"):
        slope = step.slope
        up, down = low >= 0, high <= 0
        wide = (high - low).clamp_min(1e-12)
        chord = (high - slope * low) / wide
        above = torch.where(up, 1.0, torch.where(down, slope, chord))
        roof = torch.where(up | down, 0.0, high - chord * high)
        steep = torch.where(high > -low, 1.0, slope)
        below = torch.where(up, 1.0, torch.where(down, slope, steep))
        return Lines(below, torch.zeros_like(below), above, roof, ~(up | down))
    convex = step.curve in CONVEX
    curve = CONVEX[step.curve][0] if convex else SMOOTH[step.curve][0]
    wide = high - low
    slope_ = torch.where(wide > 1e-9, (curve(high) - curve(low)) / wide.clamp_min(1e-9), 0.0)
    if convex:
        touch = CONVEX[step.curve][1](slope_).maximum(low).minimum(high)
        ends = curve(low) - slope_ * low, curve(high) - slope_ * high
        blur = 1e-9 * (1 + ends[0].abs().maximum(ends[1].abs()))
        floor = curve(touch) - slope_ * touch - blur
        return Lines(slope_, floor, slope_, ends[0].maximum(ends[1]) + blur, wide < 0)
    bent = SMOOTH[step.curve][1]
    share = torch.linspace(0, 1, _GRID, dtype=low.dtype).reshape(-1, *[1] * low.ndim)
    at = low + share * wide
    off = curve(at) - slope_ * at
    missed = bent * (wide / (_GRID - 1)).square() / 8 + 1e-9
    floor, roof = off.amin(0) - missed, off.amax(0) + missed
    return Lines(slope_, floor, slope_, roof, torch.zeros_like(low, dtype=torch.bool))


@dataclass(eq=False)
class Free:
    """What a bound may choose, step by step (n, ...): any choice gives a valid bound."""

    below: dict[str, Tensor] = field(default_factory=dict)  # slopes below unstable ReLUs
    pushed: dict[str, Tensor] = field(default_factory=dict)  # multiples (>= 0) of their signs
    seen: dict[str, Tensor] | None = None  # filled with the weights (n, m, ...) that arrive there

    def take(self, rows: Tensor) -> Free:
        """These rows (indices, repeats allowed)."""
        below, pushed = ({n: v[rows] for n, v in d.items()} for d in (self.below, self.pushed))
        return Free(below, pushed)


@dataclass(eq=False)
class Network:
    """A traced network on one batch of domains: bounds of its steps, found once."""

    steps: list[Step]
    shape: tuple[int, ...]  # of one input, as the first step takes it
    domain: Domain
    signs: dict[str, Tensor] = field(default_factory=dict)  # of ReLUs: 1 on, -1 off, 0 either
    bounds: dict[str, Bound] = field(default_factory=dict)
    bent: dict[str, Lines] = field(default_factory=dict)
    errors: dict[str, Tensor] = field(default_factory=dict)  # of the model's own arithmetic
    _walked: set[str] = field(default_factory=set)
    _still: set[str] = field(default_factory=set)

    def prepare(self) -> None:
        """Bounds of everything that a bent step takes in, and its lines."""
        low, high = self.domain.box
        n = len(low)
        for step in self.steps:
            if step.kind == "input":
                self.bounds[step.name] = (low.reshape(n, *self.shape), high.reshape(n, *self.shape))
                continue
            taken = [self.bounds[name] for name in step.inputs]
            if step.kind in ("bent", "bilinear"):
                cut = step.curve in ("relu", "leaky")  # straight on either side of 0
                taken = [
                    self._tighter(name, side, cut)
                    for name, side in zip(step.inputs, taken, strict=True)
                ]
                if step.name in self.signs:
                    taken = [_on_its_side(taken[0], self.signs[step.name])]
                self.bounds |= zip(step.inputs, taken, strict=True)
            if step.kind == "bent":
                self.bent[step.name] = lines(step, taken[0])
            found = cast(Bound, tuple(t.double() for t in step.interval(*taken)))
            error = rounding(step, taken, found)
            if error is not None:
                self.errors[step.name] = error
                found = found[0] - error, found[1] + error
            self.bounds[step.name] = found
            if bool((found[1] - found[0] <= _STILL).all()):
                self._still.add(step.name)

    def bends(self) -> int:
        """How many numbers of an input go through a bent step."""
        return sum(line.below[0].numel() for line in self.bent.values())

    def empty(self) -> Tensor:
        """(n,) bool: no input has these signs."""
        none = torch.zeros(len(self.domain.centre), dtype=torch.bool)
        for a, b in self.bounds.values():
            none |= (a > b + 1e-9 * (1 + a.abs())).flatten(1).any(1)
        return none

    def _tighter(self, name: str, side: Bound, cut: bool) -> Bound:
        """The bounds of a step by the walk back, where its intervals leave anything open."""
        low, high = side
        size = low[0].numel()
        sure = (low >= 0) | (high <= 0) if cut else high - low <= _STILL
        if size > WIDE or name in self._walked or bool(sure.all()):
            return side
        self._walked.add(name)
        at = next(k for k, s in enumerate(self.steps) if s.name == name)
        eye = torch.eye(size, dtype=low.dtype).reshape(1, size, *low.shape[1:])
        eye = eye.expand(len(low), *eye.shape[1:])
        top = self.highest(eye, at).reshape(low.shape)
        bottom = -self.highest(-eye, at).reshape(low.shape)
        return low.maximum(bottom), high.minimum(top)

    def highest(self, weight: Tensor, at: int | None = None, free: Free | None = None) -> Tensor:
        """(n, m): how high weights (n, m, *shape) of step `at` can reach."""
        final, const = self.linear(weight, at, free)
        top = self.domain.highest(final) + const
        known = self.bounds.get(self.steps[-1 if at is None else at].name)
        if known is None:
            return top
        low, high = (side[:, None] for side in known)
        return top.minimum(_total(weight.clamp_min(0) * high + weight.clamp_max(0) * low))

    def linear(
        self, weight: Tensor, at: int | None = None, free: Free | None = None
    ) -> tuple[Tensor, Tensor]:
        """(n, m, D) and (n, m): a linear function of the input that lies above the weights'."""
        at = len(self.steps) - 1 if at is None else at
        n, m = weight.shape[:2]
        carried: dict[str, Tensor] = {self.steps[at].name: weight}
        const = weight.new_zeros(n, m)
        for step in reversed(self.steps[: at + 1]):
            w = carried.pop(step.name, None)
            if w is None:
                continue
            if step.kind == "input":
                return w.reshape(n, m, -1), const
            if step.name in self._still:
                low, high = self.bounds[step.name]
                const = const + _total(w.clamp_min(0) * high[:, None])
                const = const + _total(w.clamp_max(0) * low[:, None])
                continue
            if step.name in self.errors:
                const = const + _total(w.abs() * self.errors[step.name][:, None])
            if step.kind in ("affine", "bilinear"):
                back = self._back if step.kind == "affine" else self._back_product
                parts, shift = back(step, w)
                const = const + shift
                for name, part in zip(step.inputs, parts, strict=True):
                    carried[name] = carried[name] + part if name in carried else part
                continue
            up, down = w.clamp_min(0), w.clamp_max(0)
            if step.kind == "bent":
                line = self.bent[step.name]
                below = line.below if free is None else free.below.get(step.name, line.below)
                part = up * line.above[:, None] + down * below[:, None]
                if free is not None and step.name in free.pushed:
                    part = part + free.pushed[step.name][:, None]
                if free is not None and free.seen is not None:
                    free.seen[step.name] = w
                const = const + _total(up * line.roof[:, None] + down * line.floor[:, None])
            elif step.kind == "pooled":
                low, high = self.bounds[step.inputs[0]]
                const = const + _total(up * step.call(high)[:, None])
                part = _unpooled(step, low, down)
            else:
                low, high = self.bounds[step.name]
                const = const + _total(up * high[:, None] + down * low[:, None])
                continue
            name = step.inputs[0]
            carried[name] = carried[name] + part if name in carried else part
        size = self.domain.centre.shape[1]
        return weight.new_zeros(n, m, size), const  # nothing depends on the input

    def _back(self, step: Step, w: Tensor) -> tuple[list[Tensor], Tensor]:
        """An affine step's transpose, and what its constant part adds."""
        n, m = w.shape[:2]
        with torch.enable_grad():
            zeros = [
                torch.zeros(1, *self.bounds[name][0].shape[1:], dtype=w.dtype)
                .expand(n * m, *self.bounds[name][0].shape[1:])
                .requires_grad_()
                for name in step.inputs
            ]
            out = step.call(*zeros)
            grads = torch.autograd.grad(
                out, zeros, w.reshape(out.shape), create_graph=w.requires_grad, allow_unused=True
            )
        parts = [
            (torch.zeros_like(z) if g is None else g).reshape(n, m, *z.shape[1:])
            for g, z in zip(grads, zeros, strict=True)
        ]
        shift = (w.reshape(out.shape) * out.detach()).reshape(n, m, -1).sum(2)
        return parts, shift

    def _back_product(self, step: Step, w: Tensor) -> tuple[list[Tensor], Tensor]:
        """b' a + a' b as an affine step, and what -a' b' and the error add."""
        (a, r), (b, s) = (middle(self.bounds[name]) for name in step.inputs)
        m = w.shape[1]
        a_, b_ = (t.repeat_interleave(m, dim=0) for t in (a, b))

        def linear(u: Tensor, v: Tensor) -> Tensor:
            out: Tensor = step.call(u, b_) + step.call(a_, v)
            return out

        parts, shift = self._back(replace(step, call=linear), w)
        at, off = step.call(a, b)[:, None], step.call(r, s)[:, None]
        return parts, shift + _total(w.abs() * off - w * at)


def _on_its_side(side: Bound, sign: Tensor) -> Bound:
    """Where a number is known to be above or below 0."""
    low, high = side
    low = torch.where(sign > 0, low.clamp_min(0), low)
    return low, torch.where(sign < 0, high.clamp_max(0), high)


def _total(x: Tensor) -> Tensor:
    """(n, m) the sums of (n, m, ...)."""
    return x.reshape(*x.shape[:2], -1).sum(2)


def _unpooled(step: Step, low: Tensor, down: Tensor) -> Tensor:
    """Weights of the largest, on the one of its window that is surely large: its slope there."""
    n, m = down.shape[:2]
    with torch.enable_grad():
        at = low.detach().repeat_interleave(m, dim=0).requires_grad_()
        out = step.call(at)
        (part,) = torch.autograd.grad(
            out, at, down.reshape(out.shape), create_graph=down.requires_grad
        )
    return part.reshape(n, m, *low.shape[1:])
