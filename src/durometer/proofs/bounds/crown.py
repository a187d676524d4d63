"""CROWN (Zhang et al. 2018): linear bounds of a network's outputs in its inputs, walked backwards.

To bound a linear function of the output from above, its weights are carried from the last operation
to the first. An affine one transposes them; at a curve each weight takes the line above where it is
positive and the line below where it is negative; in the end a linear function of the input is left,
and the domain says how high that reaches. Lines need bounds of what goes into a curve; these come
from intervals and, for the numbers that intervals leave open, from the same walk.

The line below an unstable ReLU may have any slope in [0, 1], and a network that is bounded only
where some ReLUs are on or off (`signs`) may have any multiple of that condition added to its
weights: `climb.py` looks for the best of both, `branches.py` chooses the conditions.

Weights behind convolutions stay on windows (`windows.py`), and only numbers that intervals leave
open are walked back, each row's own. With gradients (`climb.py`) all weights are whole tensors.

What a reader would get wrong: the bounds are those of what the model *computes*. Each operation's
rounding E widens its interval, and a walk adds |weight| E; the bounds' own double precision is part
of E (`aten/program.py`) and of the last sum here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from durometer.proofs.aten.affine import Add, Convolution, Linear, Scale
from durometer.proofs.aten.curves import Hinge
from durometer.proofs.aten.maxima import Maximum
from durometer.proofs.aten.moves import Gather
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
from durometer.proofs.bounds.windows import (
    Lines,
    Window,
    backward_by_windows,
    is_map,
    per_channel,
    widest,
)

_STILL = 1e-5  # what varies by less is as good as its interval: the walk ends there
_MEMORY = 8 * 10**6  # numbers carried backwards at a time
_OWN = 1e-11  # of the last sum, in double precision


@dataclass(eq=False)
class Free:
    """What a bound may choose, curve by curve (n, ...): any choice gives a valid bound."""

    alpha: dict[int, Tensor] = field(default_factory=dict)  # slopes below unstable ReLUs
    beta: dict[int, Tensor] = field(default_factory=dict)  # multiples (>= 0) of their signs
    seen: dict[int, Tensor] | None = None  # filled with the weights (n, m, ...) that arrive there

    @property
    def climbs(self) -> bool:
        """Is a gradient wanted?"""
        return any(v.requires_grad for v in (*self.alpha.values(), *self.beta.values()))

    def take(self, rows: Tensor) -> Free:
        """These rows (indices, repeats allowed)."""
        alpha, beta = ({k: v[rows] for k, v in d.items()} for d in (self.alpha, self.beta))
        return Free(alpha, beta)


Weights = Tensor | Window  # (n, m, *shape), or on windows of it


@dataclass(eq=False)
class Network:
    """A program on one batch of domains: bounds of its operations, found once."""

    program: Program
    domain: Domain
    signs: dict[int, Tensor] = field(default_factory=dict)  # of ReLUs: 1 on, -1 off, 0 either
    known: dict[int, Bound] = field(default_factory=dict)  # bounds on a larger set: none is walked
    bounds: dict[int, Bound] = field(default_factory=dict)
    relaxations: dict[int, Relaxation] = field(default_factory=dict)
    errors: dict[int, Tensor] = field(default_factory=dict)  # of the model's own arithmetic
    _walked: set[int] = field(default_factory=set)
    _still: set[int] = field(default_factory=set)
    _exact: set[int] = field(default_factory=set)  # a linear map of a box: intervals are exact
    _in_lines: set[int] = field(default_factory=set)  # whose error is in the next curve's lines
    _lines: dict[int, Lines] = field(default_factory=dict)

    def prepare(self) -> None:
        """Bounds of everything, and the lines of every curve."""
        low, high = self.domain.box
        n = len(low)
        users = _users(self.program)
        for k, op in enumerate(self.program.operations):
            if isinstance(op, Input):
                self.bounds[k] = (low.reshape(n, *op.shape), high.reshape(n, *op.shape))
                if self.domain.p == torch.inf and not self.domain.blocks:
                    self._exact.add(k)
                continue
            taken = [self.bounds[i] for i in op.inputs]
            if isinstance(op, Affine) and len(op.inputs) == 1 and op.inputs[0] in self._exact:
                self._exact.add(k)
            if isinstance(op, Curve | Product | Maximum):
                taken = [
                    self._tighter(i, side, op) for i, side in zip(op.inputs, taken, strict=True)
                ]
                if k in self.signs:
                    taken = [_on_its_side(taken[0], self.signs[k])]
                self.bounds |= zip(op.inputs, taken, strict=True)
            if isinstance(op, Curve):
                line = op.relaxation(*taken[0])
                source = op.inputs[0]
                if users[source] == 1 and source in self.errors and source not in self._still:
                    line = _with_error(line, self.errors[source])
                    self._in_lines.add(source)
                self.relaxations[k] = line
            found = op.interval(*taken)
            error = op.rounding(taken, found)
            if error is not None:
                self.errors[k] = error.expand(n, *op.shape)
                found = found[0] - error, found[1] + error
            found = op.hard(taken, found)
            if k in self.known:
                found = found[0].maximum(self.known[k][0]), found[1].minimum(self.known[k][1])
            self.bounds[k] = (found[0].expand(n, *op.shape), found[1].expand(n, *op.shape))
            if bool((found[1] - found[0] <= _STILL).all()):
                self._still.add(k)

    def unstable(self) -> int:
        """How many numbers of an input go through a curve."""
        return sum(line.lower_slope[0].numel() for line in self.relaxations.values())

    def unstable_of_rows(self) -> Tensor:
        """(n,): how many kinks lie inside their bounds."""
        total = torch.zeros(len(self.domain.centre), dtype=torch.int64)
        for line in self.relaxations.values():
            total += line.unstable.expand_as(line.upper_bias).flatten(1).sum(1)
        return total

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
        need = (~sure).flatten(1)
        if self.known or not bool(need.any()) or k in self._walked or k in self._exact:
            return side
        self._walked.add(k)
        n = len(low)
        count = need.sum(1)
        # each row's own numbers; rows with fewer repeat one of theirs
        order = need.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[
            :, : int(count.max())
        ]
        slot = torch.arange(order.shape[1]).expand_as(order)
        places = torch.where(slot < count[:, None], order, order[:, :1])
        down, up = low.flatten(1).clone(), high.flatten(1).clone()
        largest = max(_numbers(op) for op in self.program.operations[: k + 1])
        for some in torch.split(places, max(1, _MEMORY // (2 * n * largest)), dim=1):
            top = self._single(k, some)
            m = some.shape[1]
            up.scatter_(1, some, torch.minimum(up.gather(1, some), top[:, :m]))
            down.scatter_(1, some, torch.maximum(down.gather(1, some), -top[:, m:]))
        return down.reshape(low.shape), up.reshape(high.shape)

    def _single(self, k: int, places: Tensor) -> Tensor:
        """(n, 2 m): how high single numbers (n, m) of operation k reach; then minus them."""
        op = self.program.operations[k]
        n, m = places.shape
        both = torch.cat([places, places], 1)
        signs = torch.cat([torch.ones(m), -torch.ones(m)]).double()
        if isinstance(op, Linear) and len(op.shape) == 2 and op.shape[0] == 1:
            const = self.errors[k].flatten(1).gather(1, both)
            if op.bias is not None:
                const = const + signs * op.bias.expand(op.shape).flatten()[both]
            rows = op.weight[both] * signs[:, None]
            source = self.program.operations[op.inputs[0]]
            return self._reach(
                *self._walk(rows.reshape(n, 2 * m, *source.shape), op.inputs[0], const)
            )
        weight: Weights
        if is_map(op.shape):
            weight = Window.seeds(both, signs, op.shape)
        else:
            flat = torch.zeros(n, 2 * m, _numbers(op), dtype=torch.float64)
            flat.scatter_(2, both[..., None], signs.expand_as(both)[..., None])
            weight = flat.reshape(n, 2 * m, *op.shape)
        return self._reach(*self._walk(weight, k))

    def highest(self, weight: Tensor, at: int | None = None, free: Free | None = None) -> Tensor:
        """(n, m): how high weights (n, m, *shape) of operation `at` can reach."""
        at = len(self.program.operations) - 1 if at is None else at
        top = self._reach(*self._walk(weight, at, free=free))
        known = self.bounds.get(at)
        if known is None:
            return top
        low, high = (side[:, None] for side in known)
        return top.minimum(_total(weight.clamp_min(0) * high + weight.clamp_max(0) * low))

    def _reach(self, final: Weights | None, const: Tensor) -> Tensor:
        """(n, m): the most of a linear function of the input."""
        if final is None:  # nothing depends on the input
            return const + _OWN * const.abs()
        low, high = self.domain.box
        reach = torch.maximum(low.abs(), high.abs())
        if isinstance(final, Window) and self.domain.p == torch.inf and not self.domain.blocks:
            shape = final.shape
            most = widest((self.bounds[0][0], self.bounds[0][1]))
            own = (final.sizes() * most[:, None]).sum(2)
            sides = [t.reshape(len(low), *shape) for t in (low, high)]
            total = torch.zeros_like(const)
            final.relaxed(Lines.of(sides[1], sides[1], sides[0], sides[0]), total)
            return total + const + _OWN * (own + const.abs())
        flat = _flat(final)
        own = _OWN * ((flat.abs() * reach[:, None]).sum(2) + const.abs())
        return self.domain.highest(flat) + const + own

    def linear(
        self, weight: Tensor, at: int | None = None, free: Free | None = None
    ) -> tuple[Tensor, Tensor]:
        """(n, m, D) and (n, m): a linear function of the input that lies above the weights'."""
        at = len(self.program.operations) - 1 if at is None else at
        final, const = self._walk(weight, at, free=free)
        if final is None:
            return weight.new_zeros(*weight.shape[:2], self.domain.centre.shape[1]), const
        return _flat(final), const

    def _walk(
        self, weight: Weights, at: int, const: Tensor | None = None, free: Free | None = None
    ) -> tuple[Weights | None, Tensor]:
        """Weights of operation `at` as weights on the input (None: on nothing), and a constant."""
        first = weight.weight if isinstance(weight, Window) else weight
        n, m = first.shape[:2]
        if const is None:
            const = torch.zeros(n, m, dtype=torch.float64)
        grown = free is not None and free.climbs
        carried: dict[int, Weights] = {at: weight if grown else _own(weight)}

        def send(k: int, part: Weights) -> None:
            carried[k] = _joined(carried[k], part) if k in carried else part

        for k in range(at, -1, -1):
            w = carried.pop(k, None)
            if w is None:
                continue
            op = self.program.operations[k]
            if isinstance(op, Input):
                return w, const
            still = k in self._still
            if k in self.errors and not still and (k == at or k not in self._in_lines):
                const = const + _errors(w, self.errors[k])
            if isinstance(op, Affine) and not still:
                parts, shift = _affine(op, w, windows=not grown)
                const = const if shift is None else const + shift
                for i, part in zip(op.inputs, parts, strict=True):
                    send(i, part)
                continue
            if isinstance(op, Curve) and not still:
                const, part = self._curve(k, w, const, free)
                send(op.inputs[0], part)
                continue
            dense = w.dense() if isinstance(w, Window) else w
            up, down = dense.clamp_min(0), dense.clamp_max(0)
            if isinstance(op, Product) and not still:
                planes, shift = self._planes(op, dense)
                const = const + shift
                for i, part in zip(op.inputs[:2], planes, strict=True):
                    send(i, part)
            elif isinstance(op, Maximum) and not still:
                part, shift = self._largest(k, op, up, down)
                const = const + shift
                send(op.inputs[0], part)
            else:
                low, high = self.bounds[k]
                const = const + _total(up * high[:, None] + down * low[:, None])
        return None, const

    def _curve(
        self, k: int, w: Weights, const: Tensor, free: Free | None
    ) -> tuple[Tensor, Weights]:
        """Each weight takes one of the two lines of operation k."""
        line = self.relaxations[k]
        lower = line.lower_slope if free is None else free.alpha.get(k, line.lower_slope)
        if free is not None and free.seen is not None:
            free.seen[k] = w.dense().clone() if isinstance(w, Window) else w.clone()
        beta = None if free is None else free.beta.get(k)
        source = self.program.operations[k].inputs[0]
        if beta is not None and source in self._in_lines:  # the sign is one of computed numbers
            const = const + (beta.abs() * self.errors[source]).flatten(1).sum(1)[:, None]
        if free is not None and free.climbs:
            dense = w.dense() if isinstance(w, Window) else w
            up, down = dense.clamp_min(0), dense.clamp_max(0)
            part = up * line.upper_slope[:, None] + down * lower[:, None]
            const = const + _total(up * line.upper_bias[:, None])
            const = const + _total(down * line.lower_bias[:, None])
            return const, part if beta is None else part + beta[:, None]
        if k not in self._lines:
            self._lines[k] = Lines.of(
                line.upper_slope, line.upper_bias, line.lower_slope, line.lower_bias
            )
        lines = self._lines[k]
        if lower is not line.lower_slope:
            lines = Lines.of(line.upper_slope, line.upper_bias, lower, line.lower_bias)
        const = const.clone()
        shape = self.program.operations[k].shape
        if isinstance(w, Window) or is_map(shape):
            held = w if isinstance(w, Window) else Window.whole(w, shape)
            out: Weights = held.relaxed(lines, const)
        else:
            n, m = w.shape[:2]
            origin = torch.zeros(n, m, 2, dtype=torch.int64)
            one = Window(w.reshape(n, m, 1, 1, -1), origin, (1, w[0, 0].numel(), 1, 1))
            out = one.relaxed(lines, const).weight.reshape(w.shape)
        if beta is not None:
            out = (out.dense() if isinstance(out, Window) else out) + beta[:, None]
        return const, out

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


def _users(program: Program) -> list[int]:
    """How many operations take each one's result."""
    count = [0] * len(program.operations)
    for op in program.operations:
        for i in op.inputs:
            count[i] += 1
    return count


def _with_error(line: Relaxation, error: Tensor) -> Relaxation:
    """Lines over an argument that may be off by `error`, whatever slope is chosen below."""
    steepest = torch.where(
        line.unstable, line.lower_slope.abs().clamp_min(1.0), line.lower_slope.abs()
    )
    return replace(
        line,
        lower_bias=line.lower_bias - steepest * error,
        upper_bias=line.upper_bias + line.upper_slope.abs() * error,
    )


def _own(w: Weights) -> Weights:
    """A copy: curves change weights where they are."""
    return Window(w.weight.clone(), w.origin, w.shape) if isinstance(w, Window) else w.clone()


def _flat(w: Weights) -> Tensor:
    """(n, m, D)."""
    dense = w.dense() if isinstance(w, Window) else w
    return dense.reshape(*dense.shape[:2], -1)


def _joined(a: Weights, b: Weights) -> Weights:
    if isinstance(a, Window) and isinstance(b, Window):
        return a + b
    first, second = (w.dense() if isinstance(w, Window) else w for w in (a, b))
    return first + second


def _errors(w: Weights, error: Tensor) -> Tensor:
    """(n, m): what errors (n, *shape) may add; on windows by the largest of each channel."""
    if isinstance(w, Window):
        return (w.sizes() * error.amax((1, 3, 4))[:, None]).sum(2)
    return _total(w.abs() * error[:, None])


def _affine(op: Affine, w: Weights, windows: bool) -> tuple[list[Weights], Tensor | None]:
    """Weights on an affine operation's inputs, and what its constant adds."""
    if windows and isinstance(op, Convolution) and backward_by_windows(op):
        held = w if isinstance(w, Window) else Window.whole(w, op.shape)
        return [held.before(op)], None if op.bias is None else held.sums() @ op.bias
    if isinstance(w, Window):
        if isinstance(op, Add):
            factors = (torch.tensor(f, dtype=torch.float64) for f in (op.first, op.second))
            return [w.times(f) for f in factors], None
        if isinstance(op, Scale):
            factor, shift = (per_channel(t, op.shape) for t in (op.factor, op.shift))
            if factor is not None and shift is not None:
                return [w.times(factor)], None if op.shift is None else w.sums() @ shift
        if isinstance(op, Gather) and op.padding is not None:
            return [w.unpadded(op.padding, op.source)], None
    dense = w.dense() if isinstance(w, Window) else w
    n, m = dense.shape[:2]
    fixed = op.constant()
    parts: list[Weights] = [
        p.reshape(n, m, *p.shape[1:]) for p in op.adjoint(dense.reshape(n * m, *op.shape))
    ]
    return parts, None if fixed is None else _total(dense * fixed)


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
