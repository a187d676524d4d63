"""Curves, one number at a time: two lines around each between its bounds, with all its arguments.

Hinge     two straight sides that meet in 0 (ReLU, leaky and parametric ReLU, abs): exact lines
Convex    chord above, tangent below (or the other way round): exp, log, square, root, reciprocal
Smooth    pieces with a bounded second derivative: compared with a line on a grid of K points, of
          which the curve between two can miss M h^2 / 8; the best of a few slopes
Step      rounding to whole numbers

What a reader would get wrong: `units`, the rounding of torch's transcendental kernels, is measured
(tests compare with float64), not proven; everything else here is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from durometer.proofs.aten.program import OWN, Bound, Curve, Relaxation, least, overflows

GRID = 24  # points of a piece
_OUT = 8 * OWN  # of the bounds' own arithmetic, per value


def _size(side: Bound) -> Tensor:
    return torch.maximum(side[0].abs(), side[1].abs())


@dataclass(frozen=True, eq=False)
class Hinge(Curve):
    """x above 0, slope * x below."""

    slope: Tensor  # broadcast to `shape`, float64

    def value(self, x: Tensor) -> Tensor:
        return torch.where(x >= 0, x, self.slope * x)

    def interval(self, *taken: Bound) -> Bound:
        low, high = taken[0]
        a, b = self.value(low), self.value(high)
        across = (low < 0) & (high > 0)
        least_, most = torch.minimum(a, b), torch.maximum(a, b)
        return (
            torch.where(across, least_.clamp_max(0), least_),
            torch.where(across, most.clamp_min(0), most),
        )

    def relaxation(self, low: Tensor, high: Tensor) -> Relaxation:
        on, off = low >= 0, high <= 0
        slope = self.slope.expand_as(low)
        straight = torch.where(on, 1.0, slope)
        chord = (high - slope * low) / torch.where(on | off, 1.0, high - low)
        bias = high - chord * high
        free = torch.where(high > -low, 1.0, slope)  # through 0: on the side that is wider
        convex = slope <= 1
        stable, zero = on | off, torch.zeros_like(low)
        blur = _OUT * (low.abs() + high.abs()) * (1 + slope.abs())
        return Relaxation(
            torch.where(stable, straight, torch.where(convex, free, chord)),
            torch.where(stable | convex, zero, bias - blur),
            torch.where(stable, straight, torch.where(convex, chord, free)),
            torch.where(stable | ~convex, zero, bias + blur),
            ~stable & convex,
        )

    def range(self) -> tuple[Tensor, Tensor]:
        """What `lower_slope` may be where the curve is unstable."""
        return self.slope.clamp_max(1.0), torch.ones_like(self.slope)

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        if bool(((self.slope == 0) | (self.slope.abs() == 1)).all()):
            return None
        return (2 * self.unit + _OUT) * self.slope.abs() * _size(taken[0]) + least(self.unit)

    def hard(self, taken: list[Bound], found: Bound) -> Bound:
        never = (self.slope <= 0).expand_as(found[0])
        return torch.where(never, found[0].clamp_min(0), found[0]), found[1]


@dataclass(frozen=True, eq=False)
class Convex(Curve):
    """A curve with its slope: convex on all it is defined for, or concave (`sign` = -1)."""

    name: str
    units: float

    @property
    def sign(self) -> float:
        return -1.0 if self.name in ("log", "sqrt", "log1p", "log_sigmoid") else 1.0

    def interval(self, *taken: Bound) -> Bound:
        low, high = self._inside(*taken[0])
        a, b = self._value(low), self._value(high)
        bottom, top = torch.minimum(a, b), torch.maximum(a, b)
        if self.name == "square":
            bottom = torch.where((low <= 0) & (high >= 0), 0.0, bottom)
        return bottom, top

    def relaxation(self, low: Tensor, high: Tensor) -> Relaxation:
        low, high = self._inside(low, high)
        a, b = self._value(low), self._value(high)
        wide = high - low
        sure = wide > 1e-12 * (low.abs() + high.abs()) + 1e-300
        slope = torch.where(sure, (b - a) / torch.where(sure, wide, 1.0), 0.0)
        ends = torch.minimum(a - slope * low, b - slope * high)
        most = torch.maximum(a - slope * low, b - slope * high)
        at = self._touching(low, high)
        tangent = torch.where(sure, self._slope(at), 0.0)
        bias = self._value(at) - tangent * at
        blur = 64 * _OUT * (_size((a, b)) + (slope.abs() + tangent.abs()) * _size((low, high)))
        flat = torch.zeros_like(low, dtype=torch.bool)
        # the reciprocal is convex above 0 and concave below
        up = low > 0 if self.name == "reciprocal" else torch.full_like(low, self.sign) > 0
        bias = torch.where(sure, bias, torch.where(up, torch.minimum(a, b), torch.maximum(a, b)))
        return Relaxation(
            torch.where(up, tangent, slope), torch.where(up, bias, ends) - blur,
            torch.where(up, slope, tangent), torch.where(up, most, bias) + blur, flat,
        )  # fmt: skip

    def _touching(self, low: Tensor, high: Tensor) -> Tensor:
        """Where the tangent touches: halfway, where the curve falls off steeply nearer its end."""
        if self.name in ("reciprocal", "rsqrt"):
            return torch.where(low > 0, (low * high).abs().sqrt(), -(low * high).abs().sqrt())
        if self.name == "exp":
            return torch.minimum((low + high) / 2, low + 1.0 + 0.5 * (high - low).clamp_max(2.0))
        if self.name == "sqrt":
            return ((low + high) / 2).clamp_min(1e-300)
        return (low + high) / 2

    def _inside(self, low: Tensor, high: Tensor) -> Bound:
        """Where the curve is not defined, nothing is known."""
        if self.name == "sqrt":
            bad = low < 0
        elif self.name in ("log", "rsqrt"):
            bad = low <= 0
        elif self.name == "log1p":
            bad = low <= -1
        elif self.name == "reciprocal":
            bad = (low <= 0) & (high >= 0)
        else:
            return low, high
        return torch.where(bad, torch.nan, low), torch.where(bad, torch.nan, high)

    def _value(self, x: Tensor) -> Tensor:
        return _CONVEX[self.name][0](x)

    def _slope(self, x: Tensor) -> Tensor:
        return _CONVEX[self.name][1](x)

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        return _rounded(self.unit, self.units, taken[0], found)

    def hard(self, taken: list[Bound], found: Bound) -> Bound:
        if self.name in ("square", "sqrt", "exp", "rsqrt"):
            return found[0].clamp_min(0), found[1]
        return found


_CONVEX: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "square": (torch.square, lambda x: 2 * x),
    "exp": (torch.exp, torch.exp),
    "expm1": (torch.expm1, torch.exp),
    "log": (torch.log, torch.reciprocal),
    "log1p": (torch.log1p, lambda x: 1 / (1 + x)),
    "sqrt": (torch.sqrt, lambda x: 0.5 * x.rsqrt()),
    "rsqrt": (torch.rsqrt, lambda x: -0.5 * x.pow(-1.5)),
    "reciprocal": (torch.reciprocal, lambda x: -x.pow(-2)),
    "log_sigmoid": (functional.logsigmoid, lambda x: torch.sigmoid(-x)),
}


@dataclass(frozen=True)
class Piece:
    """A curve between two ends, and the most its second derivative can be there."""

    value: Callable[[Tensor], Tensor]
    start: float
    end: float
    second: Callable[[Tensor, Tensor], Tensor] | float


@dataclass(frozen=True, eq=False)
class Smooth(Curve):
    """Pieces that together are the curve; `name` and `arguments` say which."""

    name: str
    arguments: tuple[float | str, ...]
    pieces: tuple[Piece, ...]
    units: float
    limits: tuple[float, float]  # no computed value is outside

    def interval(self, *taken: Bound) -> Bound:
        _, low, high = self._range(*taken[0], torch.zeros_like(taken[0][0])[None])
        return low[0], high[0]

    def _range(self, low: Tensor, high: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(k, n, ...): the least and most of curve - slope x, for k slopes."""
        steps = torch.linspace(0, 1, GRID, dtype=low.dtype).reshape(-1, *[1] * low.ndim)
        least_, most = torch.full_like(slopes, torch.inf), torch.full_like(slopes, -torch.inf)
        for piece in self.pieces:
            a, b = low.clamp_min(piece.start), high.clamp_max(piece.end)
            there = a <= b
            a, b = torch.where(there, a, low), torch.where(there, b, low)
            x = a + steps * (b - a)
            x[-1] = b
            inside = x.clamp(piece.start, piece.end)  # or a curve may overflow where it is not
            y = piece.value(torch.where(there, x, inside))
            bend = piece.second(a, b) if callable(piece.second) else piece.second
            missed = bend * ((b - a) / (GRID - 1) * (1 + 1e-9)).square() / 8
            missed = missed + _OUT * (y.abs().amax(0) + slopes.abs().amax(0) * _size((a, b)))
            for j, slope in enumerate(slopes):
                off = y - slope * x
                least_[j] = torch.where(
                    there, torch.minimum(least_[j], off.amin(0) - missed), least_[j]
                )
                most[j] = torch.where(there, torch.maximum(most[j], off.amax(0) + missed), most[j])
        return slopes, least_, most

    def value(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for piece in self.pieces:
            there = (x >= piece.start) & (x <= piece.end)
            out = torch.where(there, piece.value(x.clamp(piece.start, piece.end)), out)
        return out

    def relaxation(self, low: Tensor, high: Tensor) -> Relaxation:
        middle, wide = (low + high) / 2, high - low
        sure = wide > 1e-9
        step = torch.where(sure, wide, 1.0)
        d = 1e-3 * step
        a, b = self.value(low), self.value(high)
        slopes = [
            torch.zeros_like(low), (b - a) / step,
            (self.value(middle + d) - self.value(middle - d)) / (2 * d),
            (self.value(low + d) - a) / d, (b - self.value(high - d)) / d,
        ]  # fmt: skip
        held = torch.stack([torch.where(sure, s, 0.0) for s in slopes])
        _, least_, most = self._range(low, high, held)
        below = (held * middle + least_).argmax(0, keepdim=True)
        above = (held * middle + most).argmin(0, keepdim=True)

        def pick(t: Tensor, at: Tensor) -> Tensor:
            return t.gather(0, at)[0]

        return Relaxation(
            pick(held, below), pick(least_, below), pick(held, above), pick(most, above),
            torch.zeros_like(low, dtype=torch.bool),
        )  # fmt: skip

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        return _rounded(self.unit, self.units, taken[0], found)

    def hard(self, taken: list[Bound], found: Bound) -> Bound:
        bottom, top = self.limits
        below, above = (4 * self.unit * max(1.0, abs(v)) for v in (bottom, top))
        low = found[0] if bottom == -_FAR else found[0].clamp_min(bottom - below)
        return low, found[1] if top == _FAR else found[1].clamp_max(top + above)


def _rounded(unit: float, units: float, taken: Bound, found: Bound) -> Tensor:
    """So many units of the value and, as kernels compute with it, of the argument."""
    size = _size(found) + _size(taken)
    return torch.where(overflows(unit, size), torch.inf, (units * unit + _OUT) * size + least(unit))


@dataclass(frozen=True, eq=False)
class Whole(Curve):
    """Rounded to whole numbers: "floor", "ceil", "round" (half to even) or "trunc" (casts)."""

    how: str
    limits: tuple[float, float]  # of the whole type it is cast to

    def _value(self, x: Tensor) -> Tensor:
        out: Tensor = {
            "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc
        }[self.how](x)  # fmt: skip
        return out

    def interval(self, *taken: Bound) -> Bound:
        low, high = self._value(taken[0][0]), self._value(taken[0][1])
        fits = (low >= self.limits[0]) & (high <= self.limits[1])
        return torch.where(fits, low, -torch.inf), torch.where(fits, high, torch.inf)

    def relaxation(self, low: Tensor, high: Tensor) -> Relaxation:
        first, last = self.interval((low, high))  # infinite where the type does not hold it
        down = {"floor": -1.0, "ceil": 0.0, "round": -0.5, "trunc": -1.0}[self.how]
        up = {"floor": 0.0, "ceil": 1.0, "round": 0.5, "trunc": 1.0}[self.how]
        fits = first.isfinite() & last.isfinite()
        flat = ~fits | (last - first <= 1)  # one or two values: no line says more than the interval
        slope = torch.where(flat, 0.0, 1.0).to(low.dtype)
        blur = _OUT * (1 + _size((low, high)))
        return Relaxation(
            slope, torch.where(flat, first, torch.full_like(low, down)) - blur, slope,
            torch.where(flat, last, torch.full_like(low, up)) + blur,
            torch.zeros_like(flat),
        )  # fmt: skip

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        return None


_FAR = math.inf


def smooth(  # noqa: C901 (a list of curves)
    name: str, arguments: tuple[float | str, ...]
) -> tuple[tuple[Piece, ...], float, tuple[float, float]]:
    """The pieces of a named curve, the units its kernel rounds by, and limits of its values."""
    if name == "sigmoid":
        return (Piece(torch.sigmoid, -_FAR, _FAR, 0.0963),), 8, (0.0, 1.0)
    if name == "tanh":
        return (Piece(torch.tanh, -_FAR, _FAR, 0.77),), 8, (-1.0, 1.0)
    if name == "erf":
        return (Piece(torch.erf, -_FAR, _FAR, 0.97),), 8, (-1.0, 1.0)
    if name == "silu":
        return (Piece(functional.silu, -_FAR, _FAR, 0.5001),), 12, (-0.2785, _FAR)
    if name == "mish":
        return (Piece(functional.mish, -_FAR, _FAR, 0.72),), 16, (-0.309, _FAR)
    if name == "gelu":
        how = str(arguments[0])
        bend = 0.7980 if how == "none" else 0.81

        def gelu(x: Tensor) -> Tensor:
            return functional.gelu(x, approximate=how)

        return (Piece(gelu, -_FAR, _FAR, bend),), 16, (-0.1702, _FAR)
    if name in ("sin", "cos"):
        call = torch.sin if name == "sin" else torch.cos
        return (Piece(call, -_FAR, _FAR, 1.0),), 8, (-1.0, 1.0)
    numbers = [float(a) for a in arguments]
    if name == "elu":
        alpha, scale, inner = numbers
        bend = abs(alpha * scale) * inner * inner

        def below(x: Tensor) -> Tensor:
            return scale * alpha * torch.expm1(inner * x.clamp_max(0.0))

        def above(x: Tensor) -> Tensor:
            return scale * x

        return (Piece(below, -_FAR, 0.0, bend), Piece(above, 0.0, _FAR, 0.0)), 12, (-_FAR, _FAR)
    if name == "softplus":
        beta, threshold = numbers

        def log(x: Tensor) -> Tensor:
            return functional.softplus(x, beta, 1e9) if beta > 0 else x * torch.nan

        turn = threshold / beta
        about = 2.0**-6 * abs(turn) + 1e-9  # the kernel compares rounded numbers
        return (
            (
                Piece(log, -_FAR, turn + about, abs(beta) / 4 * 1.0001),
                Piece(lambda x: x, turn - about, _FAR, 0.0),
            ),
            16,
            (0.0 if threshold >= 0 else -_FAR, _FAR),
        )
    if name == "clamp":
        low, high = numbers
        parts = []
        if low > -_FAR:
            parts.append(Piece(lambda x: torch.full_like(x, low), -_FAR, low, 0.0))
        parts.append(Piece(lambda x: x, low, high, 0.0))
        if high < _FAR:
            parts.append(Piece(lambda x: torch.full_like(x, high), high, _FAR, 0.0))
        return tuple(parts), 2, (low, high)
    if name == "hardswish":
        return (
            (
                Piece(torch.zeros_like, -_FAR, -3.0, 0.0),
                Piece(lambda x: x * (x + 3) / 6, -3.0, 3.0, 1 / 3 + 1e-9),
                Piece(lambda x: x, 3.0, _FAR, 0.0),
            ),
            8,
            (-0.3751, _FAR),
        )
    if name == "hardsigmoid":
        return (
            (
                Piece(torch.zeros_like, -_FAR, -3.0, 0.0),
                Piece(lambda x: (x + 3) / 6, -3.0, 3.0, 0.0),
                Piece(torch.ones_like, 3.0, _FAR, 0.0),
            ),
            8,
            (0.0, 1.0),
        )
    if name == "cube":
        return (
            (
                Piece(
                    lambda x: x.pow(3),
                    -_FAR,
                    _FAR,
                    lambda a, b: 6 * torch.maximum(a.abs(), b.abs()),
                ),
            ),
            4,
            (-_FAR, _FAR),
        )
    raise KeyError(name)
