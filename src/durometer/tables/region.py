"""The records an attacker may hand in instead of each row: `TableSpace` bound to a batch.

`decode` does, in this order: scale back; round whole features; categories to their largest
coordinate; bounds (the record's own where one is "original"); immutables as they were, bit for
bit; repair of equalities and linear relations; and, where a row has left the ball or broken a
relation, again from nearer to the original. The result is what would be handed in. Its gradient is
that of the smooth part of this map, straight through the rounding, with features that an equality
defines as functions of the others.

What a reader would get wrong: whole features are rounded to the nearest, not towards the original
as in the published attack, which loses every move of less than a unit (on URL a third of the rows
that seem robust then are not); only what leaves the ball by it is decoded again, carefully.

L0 in a table: at most eps *features* changed; a category or a one-hot group is one feature.

In search coordinates a category is a block of 0/1, and so is a one-hot group: to change it, two
coordinates must move together. A projection that keeps the eps largest *coordinates* moves one of
them, and the snap puts it back: with eps 1 no category would ever change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.core.streams import Stream
from durometer.spaces.ball import LpRegion
from durometer.spaces.genes import Genes, of_table
from durometer.tables import axes
from durometer.tables.box import box
from durometer.tables.missing import Gaps
from durometer.tables.rounding import rounded, tangent
from durometer.tables.validation import bounded, one_hot, typed

if TYPE_CHECKING:
    from durometer.tables.space import TableSpace


_TRIES = 3  # decoding again, from nearer to the original, what the repair could not save
_NEARER, _INSIDE = 0.6, 0.97
_SLACK = 1e-9  # relative: what float64 arithmetic may add to a distance of eps


@dataclass(frozen=True, eq=False)
class TableRegion:
    """The records an attacker may hand in instead of each row of x0."""

    space: TableSpace
    x0: Tensor  # (n, d)
    low: Tensor  # (n, d), the original value for immutables
    high: Tensor
    ball: LpRegion  # of the search coordinates, with the box as its box
    gaps: Gaps | None = None  # what is missing, where anything may be
    _last: list[Any] = field(default_factory=list, repr=False)

    @property
    def origin(self) -> Tensor:
        """(n, D) the clean records in search coordinates."""
        return self.ball.origin

    @property
    def eps(self) -> float:
        """The size of the ball that is searched."""
        return self.ball.eps

    @property
    def p(self) -> float:
        """The norm."""
        return self.ball.p

    @property
    def constrained(self) -> bool:
        """Are there relations?"""
        return len(self.space.schema.program) > 0

    def encode(self, x: Tensor) -> Tensor:
        """(n, D) search coordinates of records."""
        encode = self.space.encoding.encode
        if self.gaps is None:
            return encode(x)
        return torch.cat([encode(self.gaps.known(x)), self.gaps.coordinates(x)], dim=1)

    @property
    def filled(self) -> Tensor:
        """(n, d) the clean records, with a number in every cell."""
        return self.x0 if self.gaps is None else self.gaps.filled

    def decode(self, z: Tensor) -> Tensor:
        """The records that would be handed in, (n, d); straight-through gradient."""
        version = z._version  # noqa: SLF001 - torch counts the writes to a tensor here
        if self._last and self._last[0] is z and self._last[1] == version:
            cached: Tensor = self._last[2]
            return cached
        hard, holds = self._hard(z.detach())
        out = hard
        if torch.is_grad_enabled() and z.requires_grad:
            moved = z if self.gaps is None else self.gaps.stretched(z, self.origin)
            soft = self.space.encoding.shift(self.filled, self.origin, moved)
            if self.space.repair:
                soft = self.space.plan.smooth(soft, self.filled)
            out = hard + (soft - soft.detach())
        self._last[:] = [z, version, out, holds]
        return out

    @torch.no_grad()
    def _hard(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The records, and which of them satisfy their relations."""
        x, fine = _rounded(self, z)
        if self.p == 0:
            return x, fine
        holds = fine.clone()
        shrink = torch.ones(len(x), dtype=x.dtype)
        far = self.share(x)
        limit = 1 + _SLACK
        again = ((far > limit) | (~fine & self.space.repair)).nonzero()[:, 0]
        for _ in range(_TRIES):
            if not len(again):
                break
            nearer = (_INSIDE / far[again]).clamp(max=1.0)
            shrink[again] *= torch.where(fine[again] | (not self.space.repair), nearer, _NEARER)
            part = self.take(again)
            z_near = part.origin + (z[again] - part.origin) * shrink[again, None]
            found, good = _rounded(part, z_near, careful=True)
            reach = part.share(found)
            fine[again], far[again] = good, reach
            done = (good | (not self.space.repair)) & (reach <= limit)
            x[again[done]], holds[again[done]] = found[done], good[done]
            again = again[~done]
        return x, holds

    def project(self, z: Tensor) -> Tensor:
        """The nearest point within bounds and ball."""
        if self.p == 0:
            ball = self.ball
            return keep_largest(z, ball.origin, ball.low, ball.high, self.blocks, ball.eps)
        return self.ball.project(z)

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """The coordinates of each one-hot code: of categories, and of groups in the table itself.

        Exactly one of them is on; a search that moves one of them alone moves nothing.
        """
        return self.space.encoding.codes

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        """The steepest step that bounds and linear equalities allow."""
        return self.ball.ascend(z, self.tangent(z, grad), step)

    def tangent(self, z: Tensor, grad: Tensor) -> Tensor:
        """The part of a direction that can be followed: not out of the box, not off the sums."""
        sums = self.space.sums if self.space.repair else []
        return tangent(grad, z, self.ball.low, self.ball.high, sums)

    def repaired(self, z: Tensor) -> Tensor:
        """Search coordinates with what the repair changed taken over; a rounded number keeps its
        fraction, and codes stay as they are."""
        encoding, m = self.space.encoding, len(self.space.encoding.numeric)
        found = self.encode(self.decode(z))[:, :m]
        rounding = torch.where(self.space.schema.whole[encoding.numeric], 0.5, 0.0)
        moved = (found - z[:, :m]).abs() > (rounding + 1e-6) / encoding.width
        for _, places in encoding.blocks:
            moved[:, places] = False
        return torch.cat([torch.where(moved, found, z[:, :m]), z[:, m:]], dim=1)

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        """A random point within bounds and ball."""
        return self.ball.random(stream, rows)

    def penalty(self, z: Tensor) -> Tensor:
        """(n,) how far the decoded records are from their relations."""
        x = self.decode(z)
        total = x.new_zeros(len(x))
        rows = (~self._last[3]).nonzero()[:, 0]  # 0 for all others: most, and they need no gradient
        if not len(rows):
            return total
        found = self.space.schema.program.penalty(x[rows], self.x0[rows], self.space.tolerance)
        return total.index_put((rows,), found)

    def contains(self, x: Tensor) -> Tensor:
        """(n,) bool: kinds, bounds, immutables, one-hot groups, relations and distance."""
        schema = self.space.schema
        good = (typed(schema, x) & bounded(schema, x, self.x0)).all(1) & one_hot(schema, x).all(1)
        same = x == self.x0
        if self.gaps is not None:
            same |= x.isnan() & self.gaps.gone
            good &= self.gaps.allowed(x)
        good &= (schema.mutable | same).all(1)
        good &= self.share(x) <= 1 + _SLACK
        return good & schema.program.valid(x, self.x0, self.space.tolerance)

    def distance(self, x: Tensor) -> Tensor:
        """(n,) in scaled coordinates (p=0: the number of changed features; cost: money)."""
        if self.p == 0:
            groups = [
                (x[:, m] != self.x0[:, m]).any(1) for m in self.space.schema.one_hot_groups.values()
            ]
            single = torch.tensor([not f.group for f in self.space.schema.features])
            other = x != self.x0
            if self.gaps is not None:
                other &= ~(x.isnan() & self.gaps.gone)
            changed = (other & single).sum(1)
            return torch.stack([changed, *groups]).sum(0).to(torch.float64)
        if self.gaps is not None:
            moved = self.gaps.moved(self.space.encoding, x, bool(self.space.priced))
            return moved.norm(self.p, dim=1)  # type: ignore[no-any-return]
        far: Tensor = (self.encode(x) - self.origin).norm(self.p, dim=1)
        return far

    def share(self, x: Tensor) -> Tensor:
        """(n,) the part of its budget that a record takes: of the distance, or of the cost."""
        share = self.distance(x) / self.space.radius
        if self.space.prices is None:
            return share
        encode = self.space.prices.encode
        if self.gaps is not None:
            money = self.gaps.moved(self.space.prices, x, True)
        else:
            money = encode(x) - encode(self.x0)
        return share.maximum(money.norm(1, dim=1) / self.space.cost)

    def violation(self, x: Tensor) -> Tensor:
        """(n,) how far records are from their relations, neither decoded nor repaired."""
        return self.space.schema.program.penalty(x, self.x0, self.space.tolerance)

    def genes(self) -> Genes:
        """The mutable features, in raw units."""
        encoding = self.space.encoding
        far = torch.full_like(self.x0[0], torch.inf)
        far[encoding.numeric] = (
            2 * self.space.radius * encoding.width
        )  # no bound: the ball is the bound
        features = self.space.schema.features
        genes = of_table(features, self.filled, self.low, self.high, far)
        if self.gaps is None:
            return genes
        return genes.with_gaps(self.gaps.gone, self.gaps.may, self.gaps.features)

    def box(self) -> tuple[Tensor, Tensor]:
        """(n, d) bounds of each feature that hold for every valid record."""
        if self.gaps is not None and bool((self.gaps.gone | self.gaps.may).any()):
            raise Unsupported(
                "records with missing cells have no box: proofs need tables without them"
            )
        return box(self)

    def sizes(self) -> Tensor:
        """(n,) float64: how many records there may be; infinite where a real feature can move, or
        a cell may be missing."""
        found = axes.sizes(self)
        if self.gaps is None:
            return found
        return torch.where((self.gaps.gone | self.gaps.may).any(1), torch.inf, found)

    def points(self, row: int) -> Tensor:
        """(m, d): every valid record of a row is among them."""
        return axes.points(self, row)

    def unrepaired(self) -> TableRegion:
        """The same region, where broken relations are left to the penalty (judged as before)."""
        return replace(self, space=replace(self.space, repair=False), _last=[])

    def take(self, rows: Tensor) -> TableRegion:
        """The region of these rows."""
        ball = replace(
            self.ball,
            origin=self.ball.origin[rows],
            low=self.ball.low[rows],
            high=self.ball.high[rows],
        )
        gaps = None if self.gaps is None else self.gaps.take(rows)
        low, high = self.low[rows], self.high[rows]
        return TableRegion(self.space, self.x0[rows], low, high, ball, gaps)


def _rounded(region: TableRegion, z: Tensor, careful: bool = False) -> tuple[Tensor, Tensor]:
    """Round, bound, restore, repair; and which rows satisfy their relations then.

    `careful` rounds towards the original, which cannot leave the ball.
    """
    space, schema, encoding = region.space, region.space.schema, region.space.encoding
    start, z0, low, high = region.filled, region.origin, region.low, region.high
    if region.gaps is not None:
        z = region.gaps.stretched(z, z0)
    x = rounded(start, z0, z, low, high, encoding.coordinates, 1e-6 if careful else 0.5)
    if encoding.categories or encoding.blocks:
        x = encoding.snap(start, z0, z, x, 1.0 if careful else 0.0)
        x = torch.where(schema.mutable, x.maximum(low).minimum(high), start)
    if region.gaps is not None:
        x = region.gaps.put(x, z[:, encoding.size :])
    if not space.repair:
        return x, schema.program.valid(x, region.x0, space.tolerance)
    return space.plan(x, region.x0, low, high, space.tolerance)


def keep_largest(
    z: Tensor, origin: Tensor, low: Tensor, high: Tensor, blocks: Sequence[Tensor], eps: float
) -> Tensor:
    """(n, D): of all changes from `origin` the `eps` largest features', within the box.

    `blocks` are the coordinates of each one-hot code. A code counts as changed where another of its
    coordinates is the largest now; it is set to that one, and how far ahead it is, is its size.
    """
    boxed = z.maximum(low).minimum(high)
    size = (boxed - origin).abs()
    codes = []
    for places in blocks:
        home = origin[:, places].argmax(1)
        pick = z[:, places].argmax(1)
        at_home = z[:, places].gather(1, home[:, None])[:, 0]
        ahead = z[:, places].amax(1) - at_home
        pick = torch.where(ahead > 0, pick, home)  # ties go to the original
        one = origin[:, places].amax(1, keepdim=True)  # a 1 as the encoding writes it
        code = torch.nn.functional.one_hot(pick, len(places)).to(z.dtype) * one
        codes.append((places, code, ahead.clamp_min(0.0)))
        size = size.index_fill(1, places, -1.0)  # they do not count one by one
    total = torch.cat([size, *(a[:, None] for _, _, a in codes)], dim=1)
    count = min(int(eps), total.shape[1])
    kept = torch.zeros_like(total, dtype=torch.bool)
    kept.scatter_(1, total.topk(count, dim=1).indices, True)
    kept &= total > 0
    out = torch.where(kept[:, : z.shape[1]], boxed, origin)
    for k, (places, code, _) in enumerate(codes, z.shape[1]):
        out[:, places] = torch.where(kept[:, k, None], code, origin[:, places])
    return out
