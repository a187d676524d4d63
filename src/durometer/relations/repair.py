"""Repair: make a record satisfy its equalities and linear inequalities, as far as it can.

Three kinds of step, in this order, for up to three rounds:

* define: an equality solvable for one mutable feature (`ratio == a / b`, `a * b == c`) writes that
  feature. Defined features are chosen so that none needs itself, and written in dependency order.
* balance: a linear equality or inequality that is broken gets what it is off distributed over its
  mutable features (`balance.py`). CTU-13's sums over 90 features on both sides are of this kind.
* solve: an equality that is neither (`a**2 + b**2 == c**2`) is solved by trying (`numeric.py`).

What a reader would get wrong: writing the right-hand side into the left (the published repair) can
leave the bounds or touch what is immutable. Here a step that finds no room does nothing, and a row
whose total penalty has grown in the end is given back as it came.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from durometer.relations.balance import Balance
from durometer.relations.functions import Value
from durometer.relations.normal_form import Layout, normal_form
from durometer.relations.numeric import Numeric
from durometer.relations.program import Program, numbers
from durometer.relations.solve import Definition, choose, clauses, conjuncts, stages

_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Repair:
    """The repair plan of a program; `mutable` (d,) says what may be written."""

    program: Program
    mutable: Tensor

    def __post_init__(self) -> None:
        self._plan  # noqa: B018  (made once, before the first batch)

    @property
    def idle(self) -> bool:
        """True if there is nothing this plan could repair."""
        return not self._plan[0] and not len(self._plan[1]) and not self._plan[2]

    @cached_property
    def defined(self) -> Tensor:
        """Positions of the features that are computed from others."""
        places = [step.places for step in self._plan[0]]
        return torch.cat(places) if places else torch.empty(0, dtype=torch.int64)

    @property
    def sums(self) -> list[tuple[Tensor, Tensor]]:
        """Positions and weights of the linear equalities."""
        return self._plan[1].sums()

    @cached_property
    def _plan(self) -> tuple[list[Define], Balance, list[Numeric]]:
        layout = self.program.layout
        free = {n for n, i in layout.place.items() if bool(self.mutable[i])}
        relations = [normal_form(r, layout) for r in self.program.relations]
        equal = [p for r in relations for p in conjuncts(r) if p.op == "=="]
        chosen = choose(equal, free, layout)
        defines = [Define.of(stage, layout) for stage in stages(chosen)]
        left = free - {target.name for target, _ in chosen.values()}
        solved = [Numeric.of(r, layout, left) for r in equal if r not in chosen]
        # Equalities last: they are the hardest to keep while others move.
        linears = sorted(clauses(relations, free), key=lambda c: (c[0].op == "==", len(c) == 1))
        balance = Balance.of(linears, layout, self.mutable)
        return defines, balance, [each for each in solved if each is not None]

    def smooth(self, x: Tensor, x0: Tensor) -> Tensor:
        """Differentiable: defined features as functions of the others (no bounds, no rounding)."""
        if not self._plan[0]:
            return x
        rows, rows0 = x.t(), x0.t()
        for step in self._plan[0]:
            value, bad = step.value(rows, rows0, 0.0)
            value = value.expand(len(step.places), rows.shape[1])
            if bad is not None:
                value = torch.where(bad, rows[step.places], value)
            rows = rows.index_copy(0, step.places, value)
        return rows.t()

    @torch.no_grad()
    def __call__(
        self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float
    ) -> tuple[Tensor, Tensor]:
        """The repaired records (n, d), within their bounds, and which satisfy all relations."""
        defines, balance, solved = self._plan
        kinds = bool(defines) + bool(len(balance)) + len(solved)
        out, rounds = x.clone(), _ROUNDS if kinds > 1 else 1
        for _ in range(rounds):
            before = out
            out = self._define(out, x0, low, high, tolerance)
            if len(balance):
                moved = balance(out, x0, low, high, tolerance)
                gone = moved.isnan()
                if bool(gone.any()):
                    # What is missing is in no sum: a row that would lose a value to it stays.
                    moved = torch.where((gone & ~out.isnan()).any(1, keepdim=True), out, moved)
                out = self._define(moved, x0, low, high, tolerance)
            for each in solved:
                out = each(out, x0, low, high, tolerance)
            if solved:
                out = self._define(out, x0, low, high, tolerance)
            if rounds > 1 and bool((out == before).all()):
                break
        fine = self.program.valid(out, x0, tolerance)
        bad = (~fine).nonzero()[:, 0]
        if len(bad):
            was = self.program.penalty(x[bad], x0[bad], tolerance)
            now = self.program.penalty(out[bad], x0[bad], tolerance)
            worse = bad[now > was]
            out[worse] = x[worse]
        return out, fine

    def _define(self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float) -> Tensor:
        if not self._plan[0]:
            return x
        rows, rows0, lows, highs = x.t().contiguous(), x0.t(), low.t(), high.t()
        for step in self._plan[0]:
            step(rows, rows0, lows, highs, tolerance)
        return rows.t().contiguous()


@dataclass(frozen=True, eq=False)
class Define:
    """feature := expression of others, for features of one stage and shape."""

    places: Tensor  # (k,)
    value: Callable[[Tensor, Tensor, float], Value]
    whole: Tensor  # (k, 1)
    slack: Tensor  # (k, 1): the relation's own tolerance, or NaN
    width: Tensor  # (k, 1): the range of each feature, at most 1

    @staticmethod
    def of(stage: list[Definition], layout: Layout) -> Define:
        place = torch.tensor([layout.place[target.name] for target, _, _ in stage])
        own = [math.nan if r.tolerance is None else r.tolerance for _, _, r in stage]
        return Define(
            place,
            numbers([e for _, e, _ in stage], layout),
            torch.tensor([[t.name in layout.whole] for t, _, _ in stage]),
            torch.tensor(own, dtype=torch.float64)[:, None],
            torch.tensor([min(1.0, layout.width(t.name)) for t, _, _ in stage]).double()[:, None],
        )

    def __call__(self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float) -> None:
        """Write x (features, rows) in place."""
        value, bad = self.value(x, x0, tolerance)
        now = x[self.places]
        value = torch.where(self.whole, value.expand_as(now).round(), value)
        value = value.maximum(low[self.places]).minimum(high[self.places])
        # What holds is left alone, bit for bit; half the tolerance keeps clear of its edge.
        slack = 0.5 * tolerance * now.abs().maximum(value.abs()).maximum(self.width)
        slack = torch.where(self.slack.isnan(), slack, 0.99 * self.slack)
        broken = ((now - value).abs() > slack) & value.isfinite()
        if bad is not None:
            broken &= ~bad
        x[self.places] = torch.where(broken, value, now)
