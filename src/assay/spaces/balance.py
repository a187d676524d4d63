"""Balance: make broken linear relations hold by distributing what they are off over their features.

A sum that is off by r gets r distributed over its mutable features, within their bounds, by least
squares in scaled units: q_i = min(l * (c_i w_i)^2, room_i), with the l that makes them add up to r.
Whole features take whole parts; the remainder goes to whoever has room. Features that no other
relation names come first: moving them breaks nothing. A sum whose features have
not enough room together is left as it is: half a repair helps nobody.

Relations that share no feature are done at once, and only for the rows that need it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from assay.spaces.normal import Layout, is_whole, linear
from assay.spaces.relations import Compare

_SHARED = 1e-6  # share of features that other relations name too: moving them may break those


@dataclass(frozen=True, eq=False)
class Balance:
    """Linear relations that share no feature: sum_i c_i x_i + start (<= or ==) 0."""

    places: Tensor  # (k, t)
    weights: Tensor  # (k, t), 0 where padded
    past: list[tuple[Tensor, Tensor]]  # terms in the clean record
    start: Tensor  # (k, 1)
    both: bool  # equality
    strict: Tensor  # (k, 1): how far below 0 a strict inequality must get, 0 for others
    slack: Tensor  # (k, 1), NaN: the tolerance of the space
    whole: Tensor  # (k, 1): only whole numbers occur
    widths: Tensor  # (k, t): range of each feature
    steps: Tensor  # (k, t): 1 for whole features, 0 for real ones
    free: Tensor  # (k, t) bool
    ease: Tensor  # (k, t): 1 for features no other relation names, little for the others

    @cached_property
    def norm(self) -> Tensor:
        """(k, 1): what the sum changes by when its features cross their ranges."""
        return (self.weights * self.widths).square().sum(1, keepdim=True).sqrt().clamp_min(1e-300)

    def residual(self, x: Tensor, x0: Tensor) -> tuple[Tensor, Tensor]:
        """(k, n) value of the sum, and the size of its terms."""
        terms = x[self.places] * self.weights[..., None]
        value, size = terms.sum(1) + self.start, terms.abs().amax(1)
        for places, weights in self.past:
            was = x0[places] * weights[..., None]
            value, size = value + was.sum(1), size.maximum(was.abs().amax(1))
        return value, size

    def broken(self, x: Tensor, x0: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
        """(k, n): by how much the sum must fall (or, of an equality, change), and where it must."""
        value, size = self.residual(x, x0)
        # Half the tolerance of the check: what is repaired must hold beyond doubt.
        slack = 0.5 * tolerance * size.clamp_min(1.0)
        slack = torch.where(self.whole, slack.clamp_max(0.4), slack)
        slack = torch.where(self.slack.isnan(), slack, 0.99 * self.slack)
        goal = torch.where(self.strict > 0, self.strict.maximum(4 * slack), 0.0)
        excess = value + goal
        return excess, (value.abs() if self.both else excess) > torch.where(goal > 0, 0.0, slack)

    def __call__(
        self,
        x: Tensor,
        x0: Tensor,
        low: Tensor,
        high: Tensor,
        tolerance: float,
        only: Tensor | None = None,
    ) -> bool:
        """Change x (features, rows) in place; `only` (k, n) limits it. Was anything changed?"""
        excess, broken = self.broken(x, x0, tolerance)
        if only is not None:
            broken &= only
        which, row = broken.nonzero(as_tuple=True)
        if not len(which):
            return False
        places, amount = self.places[which], excess[which, row]  # (m, t), (m,)
        at = (places, row[:, None])
        now = x[at]
        change = self._spread(which, amount, now, low[at], high[at])
        if not bool((change != 0).any()):
            return False
        x.index_put_(at, change, accumulate=True)  # padding repeats a place, with change 0
        return True

    def _spread(self, which: Tensor, amount: Tensor, now: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """(m, t) changes that take `amount` off the sum; all 0 where there is no room for it."""
        weights, steps = self.weights[which], self.steps[which]
        down = weights * amount[:, None] > 0
        room = torch.where(down, now - low, high - now).clamp_min(0.0) * self.free[which]
        room = torch.where(steps > 0, (room + 1e-9).floor(), room) * weights.abs()
        need = amount.abs()
        enough = room.sum(1) >= need * (1 - 1e-12)
        share = (weights * self.widths[which]).square() * self.ease[which] * (room > 0)
        take = _fill(share, room, need)
        unit = weights.abs() * steps
        take = torch.where(unit > 0, (take / unit.clamp_min(1e-300) + 1e-9).floor() * unit, take)
        # What flooring left over: first to real features (they can take any part), then in order.
        left = (need - take.sum(1)).clamp_min(0.0)
        order = (steps * 1e6 - share / share.amax(1, keepdim=True).clamp_min(1e-300)).argsort(1)
        spare = (room - take).gather(1, order)
        units = unit.gather(1, order)
        before = spare.cumsum(1) - spare
        more = (left[:, None] - before).clamp_min(0.0).minimum(spare)
        more = torch.where(units > 0, (more / units.clamp_min(1e-300) + 1e-9).floor() * units, more)
        take = take.scatter_add(1, order, more)
        change = torch.where(down, -take, take) / weights.abs().clamp_min(1e-300)
        change = torch.where(steps > 0, change.round(), change)
        return torch.where(enough[:, None] & (weights != 0), change, 0.0)


@dataclass(frozen=True, eq=False)
class Either:
    """Relations "this or that" of linear parts: the cheaper part is balanced, else any that can be."""

    branches: tuple[Balance, ...]  # of k relations each

    def __call__(self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float) -> bool:
        moved = False
        for attempt in range(2):
            found = [b.broken(x, x0, tolerance) for b in self.branches]
            wrong = torch.stack([f[1] for f in found]).all(0)
            if not bool(wrong.any()):
                break
            costs = [f[0].abs() / b.norm for f, b in zip(found, self.branches, strict=True)]
            cheapest = torch.stack(costs).argmin(0)
            for j, branch in enumerate(self.branches):
                only = wrong & (cheapest == j) if attempt == 0 else wrong
                moved |= branch(x, x0, low, high, tolerance, only)
        return moved


def _fill(share: Tensor, room: Tensor, need: Tensor) -> Tensor:
    """min(l * share, room) that adds up to `need`: fill, cut at the room, fill the rest again."""
    take = torch.zeros_like(room)
    active = room > 0
    for _ in range(8):
        left = (need - take.sum(1)).clamp_min(0.0)
        weight = torch.where(active, share, 0.0)
        total = weight.sum(1)
        take = (take + weight * (left / total.clamp_min(1e-300))[:, None]).minimum(room)
        active &= take < room
        if not bool((left > 1e-12 * need).any()):
            break
    return take


def balances(
    clauses: list[tuple[Compare, ...]], layout: Layout, mutable: Tensor
) -> Iterator[Balance | Either]:
    """Steps for relations of one or several linear branches; in a step no two share a feature."""
    groups: list[tuple[object, set[str], list[tuple[Compare, ...]]]] = []
    mentions = Counter(n for clause in clauses for n in set().union(*map(_names, clause)))
    shared = {name for name, times in mentions.items() if times > 1}
    for clause in clauses:
        names = [_names(r) for r in clause]
        kind = tuple((r.op == "==", len(n).bit_length()) for r, n in zip(clause, names, strict=True))
        everything = set().union(*names)
        for key, taken, members in groups:
            if key == kind and not everything & taken:
                taken |= everything
                members.append(clause)
                break
        else:
            groups.append((kind, everything, [clause]))
    for _, _, members in groups:
        branches = [_balance(list(p), layout, mutable, shared) for p in zip(*members, strict=True)]
        yield branches[0] if len(branches) == 1 else Either(tuple(branches))


def _names(r: Compare) -> set[str]:
    form = linear(r.left - r.right)
    assert form is not None
    return {name for (name, clean), w in form[0].items() if not clean and w != 0}


def _balance(
    members: list[Compare], layout: Layout, mutable: Tensor, shared: set[str]
) -> Balance:
    forms = [linear(r.left - r.right) for r in members]
    rows: dict[bool, list[list[tuple[int, float]]]] = {False: [], True: []}
    starts = []
    for form in forms:
        assert form is not None
        starts.append([form[1]])
        for clean in (False, True):
            rows[clean].append(
                [(layout.place[n], w) for (n, was), w in form[0].items() if was == clean and w != 0]
            )
    places, weights = _pad(rows[False])
    names = list(layout.ranges)
    widths = torch.tensor([layout.width(n) for n in names], dtype=torch.float64)
    whole = torch.tensor([n in layout.whole for n in names])
    exact = [is_whole(r.left, layout) and is_whole(r.right, layout) for r in members]
    strict = [[0.0] if r.op != "<" else [1.0] if e else [1e-12] for r, e in zip(members, exact, strict=True)]
    own = [[math.nan if r.tolerance is None else r.tolerance] for r in members]
    return Balance(
        places, weights,
        [_pad(rows[True])] if any(rows[True]) else [],
        torch.tensor(starts, dtype=torch.float64), members[0].op == "==",
        torch.tensor(strict, dtype=torch.float64), torch.tensor(own, dtype=torch.float64),
        torch.tensor([[e] for e in exact]), widths[places], whole[places].double(),
        mutable[places] & (weights != 0),
        torch.where(torch.tensor([n in shared for n in names])[places], _SHARED, 1.0).double(),
    )  # fmt: skip


def _pad(rows: list[list[tuple[int, float]]]) -> tuple[Tensor, Tensor]:
    """(k, t) places and weights; padding repeats the first place with weight 0."""
    longest = max(1, *(len(r) for r in rows))
    padded = [r + [((r[0][0] if r else 0), 0.0)] * (longest - len(r)) for r in rows]
    places = torch.tensor([[p for p, _ in r] for r in padded])
    return places, torch.tensor([[w for _, w in r] for r in padded], dtype=torch.float64)
