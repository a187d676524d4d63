"""Numeric repair: an equality that no formula solves is solved by trying values.

`a**2 + b**2 == c**2 + d**2` names no feature that it could define. A record that breaks it gets one
feature moved to the nearest value that makes it hold: whole numbers are tried one after the other,
reals by bisection where the difference of both sides changes its sign. Where no single feature can
(sums of squares of whole numbers rarely), a whole number is moved by one before another is solved
for.

What a reader would get wrong: nearest counts in parts of a feature's range, and the values tried
are few. This is a repair, no solver: what it does not find may exist all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from durometer.relations.expression import Compare, changing, columns
from durometer.relations.functions import Value
from durometer.relations.normal_form import Layout, linear
from durometer.relations.program import Program, numbers

_WINDOW = 3  # whole numbers tried on either side
_FAR = 100  # whole numbers of a wider range are also looked for by bisection
_STEPS = (1.0, -1.0)  # of a whole number, before another is solved for
_PARTS = 24  # of a real's range, looked at for a change of sign
_HALVES = 50
_PAIRED = 6  # features: more have too many pairs


@dataclass(frozen=True, eq=False)
class Numeric:
    """One equality, and which of its features may be written."""

    places: Tensor  # (k,) in the record
    free: tuple[int, ...]  # among these
    whole: tuple[bool, ...]  # (k,)
    width: tuple[float, ...]  # (k,)
    alone: Program  # the equality, as if the table had no other feature
    difference: Callable[[Tensor, Tensor, float], Value]

    @staticmethod
    def of(r: Compare, layout: Layout, free: Iterable[str]) -> Numeric | None:
        """None where a formula or a balance does it, or nothing may move."""
        named = {c.name for c in columns(r)}
        moves = changing(r) & set(free)
        if r.op != "==" or not moves or linear(r.left - r.right) is not None:
            return None
        names = [n for n in layout.ranges if n in named]
        small = replace(layout, ranges={n: layout.ranges[n] for n in names})
        return Numeric(
            torch.tensor([layout.place[n] for n in names]),
            tuple(i for i, n in enumerate(names) if n in moves),
            tuple(n in layout.whole for n in names),
            tuple(layout.width(n) for n in names),
            Program((r,), small),
            numbers([r.left - r.right], small),
        )

    def __call__(
        self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float
    ) -> Tensor:
        """The records (n, d), with the equality made to hold where that was found."""
        at = self.places
        bad = (~self.alone.holds(x[:, at], x0[:, at], tolerance)[:, 0]).nonzero()[:, 0]
        if not len(bad):
            return x
        given = torch.cat([t[bad][:, at] for t in (x, x0, low, high)], dim=1)
        once, again = torch.unique(given, dim=0, return_inverse=True)  # searches repeat themselves
        parts = once.chunk(4, dim=1)
        asked = _Asked(self, parts[0], parts[1], parts[2], parts[3], tolerance)
        asked.one()
        if len(self.free) <= _PAIRED:
            asked.two()
        out = x.clone()
        out[bad[:, None], at] = asked.best[again]
        return out


class _Asked:
    """The rows that break an equality, and the nearest solution of each found so far."""

    def __init__(
        self, on: Numeric, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float
    ) -> None:
        self._on, self._tolerance = on, tolerance
        self._x, self._x0, self._low, self._high = x, x0, low, high
        self.best = x.clone()  # (m, k)
        self._cost = torch.full((len(x),), torch.inf, dtype=x.dtype)

    def one(self) -> None:
        """Solve for each feature by itself."""
        every = torch.arange(len(self._x))
        for j in self._on.free:
            self._keep(every, self._x, j, 0.0)

    def two(self) -> None:
        """Where none does it alone: a whole number by a step, then solve for another."""
        unsolved = self._cost.isinf()
        for u in (u for u in self._on.free if self._on.whole[u]):
            for step in _STEPS:
                moved = self._x[:, u] + step
                room = (moved >= self._low[:, u]) & (moved <= self._high[:, u])
                rows = (unsolved & room).nonzero()[:, 0]
                if not len(rows):
                    continue
                x = self._x[rows].clone()
                x[:, u] = moved[rows]
                for j in self._on.free:
                    if j != u:
                        self._keep(rows, x, j, abs(step) / self._on.width[u])

    def _keep(self, rows: Tensor, x: Tensor, j: int, price: float) -> None:
        """Solve records x of these rows for feature j, and keep what is nearer than before."""
        value, found = self._nearest(rows, x, j)
        cost = price + (value - x[:, j]).abs() / self._on.width[j]
        better = found & (cost < self._cost[rows])
        self._cost[rows[better]] = cost[better]
        new = x[better].clone()
        new[:, j] = value[better]
        self.best[rows[better]] = new

    def _nearest(self, rows: Tensor, x: Tensor, j: int) -> tuple[Tensor, Tensor]:
        """(m,) the value of feature j nearest to what it is, and whether it solves."""
        now = x[:, j]
        if not self._on.whole[j]:
            return self._first(rows, x, j, self._root(rows, x, j)[:, None])
        off = torch.arange(1, _WINDOW + 1, dtype=x.dtype).repeat_interleave(2)
        off[1::2] *= -1
        tried = now[:, None] + torch.cat([off.new_zeros(1), off])
        if self._on.width[j] > _FAR:
            root = self._root(rows, x, j)[:, None]
            tried = torch.cat([tried, root.floor(), root.ceil()], dim=1)
        return self._first(rows, x, j, tried)

    def _first(self, rows: Tensor, x: Tensor, j: int, tried: Tensor) -> tuple[Tensor, Tensor]:
        """The first of the values tried (m, c) with which the equality holds."""
        m, c = tried.shape
        inside = (tried >= self._low[rows, j, None]) & (tried <= self._high[rows, j, None])
        put = x.repeat_interleave(c, dim=0)
        put[:, j] = torch.where(inside, tried, x[:, j, None]).flatten()
        x0 = self._x0[rows].repeat_interleave(c, dim=0)
        holds = self._on.alone.holds(put, x0, self._tolerance)[:, 0].reshape(m, c) & inside
        first = holds.byte().argmax(1, keepdim=True)
        return tried.gather(1, first)[:, 0], holds.any(1)

    def _off(self, rows: Tensor, x: Tensor, j: int, value: Tensor) -> Tensor:
        """(m, c) left - right with feature j at these values; NaN where it is undefined."""
        m, c = value.shape
        put = x.repeat_interleave(c, dim=0)
        put[:, j] = value.flatten()
        x0 = self._x0[rows].repeat_interleave(c, dim=0)
        found, bad = self._on.difference(put.t(), x0.t(), self._tolerance)
        found = found.expand(1, m * c)[0]
        if bad is not None:
            found = torch.where(bad.expand(1, m * c)[0], torch.nan, found)
        return found.reshape(m, c)

    def _root(self, rows: Tensor, x: Tensor, j: int) -> Tensor:
        """(m,) where the difference changes sign, nearest to now; NaN where it never does."""
        now, width = x[:, j, None], self._on.width[j]
        low = self._low[rows, j, None].maximum(now - width)
        high = self._high[rows, j, None].minimum(now + width)
        share = torch.linspace(0, 1, _PARTS + 1, dtype=x.dtype)
        at = torch.cat([low + share * (high - low), now], dim=1).sort(dim=1).values
        sign = self._off(rows, x, j, at)
        change = sign[:, :-1] * sign[:, 1:] <= 0  # False beside what is undefined
        away = torch.maximum(at[:, :-1] - now, now - at[:, 1:]).clamp_min(0.0)
        k = torch.where(change, away, torch.inf).argmin(1, keepdim=True)
        a, b = at.gather(1, k), at.gather(1, k + 1)
        up = sign.gather(1, k) <= 0  # the difference rises from a to b
        for _ in range(_HALVES):
            middle = (a + b) / 2
            below = (self._off(rows, x, j, middle) <= 0) == up
            a, b = torch.where(below, middle, a), torch.where(below, b, middle)
        return torch.where(change.any(1), ((a + b) / 2)[:, 0], torch.nan)
