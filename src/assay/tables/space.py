"""The table space: records that keep their types, bounds and relations, near the original.

`decode` does, in this order: scale back; round whole features; categories to their largest
coordinate; bounds (the record's own where one is "original"); immutables as they were, bit for
bit; repair of equalities and linear relations; and, where a row has left the ball or broken a
relation, again from nearer to the original. The result is what would be handed in. Its gradient is
that of the smooth part of this map, straight through the rounding, with features that an equality
defines as functions of the others.

What a reader would get wrong: whole features are rounded to the nearest, not towards the original
as in the published attack, which loses every move of less than a unit (on URL a third of the rows
that seem robust then are not); only what leaves the ball by it is decoded again, carefully.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from assay.errors import AssayError
from assay.relations.repair import Repair
from assay.spaces.genes import Genes, of_table
from assay.spaces.lp import LpRegion
from assay.streams import Stream
from assay.tables.box import box
from assay.tables.encoding import Encoding
from assay.tables.few_changes import keep_largest
from assay.tables.rounding import rounded, tangent
from assay.tables.schema import Schema
from assay.tables.validate import bounded, one_hot, typed

_TRIES = 3  # decoding again, from nearer to the original, what the repair could not save
_NEARER, _INSIDE = 0.6, 0.97
_SLACK = 1e-9  # relative: what float64 arithmetic may add to a distance of eps


@dataclass(frozen=True, eq=False)
class TableSpace:
    """Within `eps` of the original in the `p` norm (0, 1, 2, inf) of scaled coordinates.

    `margin`: attacks search in a ball smaller by this share (the paper: 0.05). `tolerance` is the
    relative slack of relations. `cost`: an L1 budget in the currency of the features' `cost`s,
    instead of eps or, where both are given, besides it. `repair=False` leaves broken relations to
    the penalty alone.

    >>> import torch
    >>> import assay as ay
    >>> schema = ay.Schema(
    ...     [ay.Feature("a", low=0, high=9), ay.Feature("b", low=0, high=9)], ["a <= b"]
    ... )
    >>> region = ay.TableSpace(schema, eps=0.5).around(torch.tensor([[1.0, 2.0]]).double())
    >>> region.contains(torch.tensor([[1.5, 2.0]]).double()).item()
    True
    >>> region.contains(torch.tensor([[3.0, 2.0]]).double()).item()
    False
    """

    schema: Schema
    eps: float | None = None  # 0.5, unless a cost is given
    p: float = 2.0
    margin: float = 0.0
    tolerance: float = 1e-6
    cost: float | None = None
    repair: bool = True
    priced: bool | None = None  # distances are money; by default where only a cost is given
    norm: ClassVar[None] = None  # a ball of scaled coordinates, cut by relations: no Lp ball

    def __post_init__(self) -> None:
        if self.priced is None:
            object.__setattr__(self, "priced", self.eps is None and self.cost is not None)
        if self.cost is not None and not (self.cost > 0 and math.isfinite(self.cost)):
            raise AssayError(f"cost={self.cost!r}: expected a positive number")
        if self.priced:
            object.__setattr__(self, "eps", float(self.cost or 0.0))
            object.__setattr__(self, "p", 1.0)
        if self.eps is None:
            object.__setattr__(self, "eps", 0.5)
        if self.p not in (0, 1, 2, math.inf):
            raise AssayError(f"p={self.p}: expected one of 0, 1, 2, inf")
        number = isinstance(self.eps, int | float) and not isinstance(self.eps, bool)
        if not (number and self.radius > 0 and math.isfinite(self.radius)):
            raise AssayError(f"eps={self.eps!r}: expected a positive number")
        if not 0 <= self.margin < 1:
            raise AssayError(f"margin={self.margin}: expected a share in [0, 1)")
        if not self.tolerance >= 0:
            raise AssayError(f"tolerance={self.tolerance}: expected a number >= 0")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableSpace):
            return NotImplemented
        return self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.schema, self.eps, self.p, self.cost))

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of; what was compiled is compiled again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __repr__(self) -> str:
        size = "" if self.priced else f"eps={self.eps:g}, p={self.p:g}"
        size += "" if self.cost is None else f"{', ' if size else ''}cost={self.cost:g}"
        more = f", margin={self.margin:g}" if self.margin else ""
        return f"TableSpace({self.schema.name or len(self.schema)}, {size}{more})"

    @property
    def radius(self) -> float:
        """eps, or the cost where only that is given."""
        assert self.eps is not None
        return self.eps

    @property
    def in_words(self) -> str:
        """The threat as a sentence."""
        free, rules = int(self.schema.mutable.sum()), len(self.schema.relations)
        size = f"distance {self.eps:g} in the {self.p:g} norm of the scaled features"
        if self.cost is not None:
            size = f"{'' if self.priced else size + ' and '}a cost of {self.cost:g}"
        return (
            f"The attacker may change {free} of {len(self.schema)} features within {size}; types, "
            f"bounds and {rules} relation{'s' * (rules != 1)} between features must hold."
        )

    @cached_property
    def encoding(self) -> Encoding:
        """Search coordinates."""
        return Encoding(self.schema, bool(self.priced))

    @cached_property
    def prices(self) -> Encoding | None:
        """Coordinates in money, where a cost is to be kept besides a distance."""
        return None if self.cost is None or self.priced else Encoding(self.schema, True)

    @property
    def plan(self) -> Repair:
        """How broken relations are repaired."""
        return self.schema.repair

    @cached_property
    def sums(self) -> list[tuple[Tensor, Tensor]]:
        """Columns of z and coefficients in z of each linear equality."""
        encoding = self.encoding
        place = torch.full((len(self.schema),), -1)
        place[encoding.numeric] = torch.arange(len(encoding.numeric))
        found = []
        for places, weights in self.plan.sums:
            free = self.schema.mutable[places]
            columns = place[places[free]]
            if bool((columns >= 0).all()):  # else a category's code in a sum: left to the repair
                found.append((columns, weights[free] * encoding.width[columns]))
        return found

    def check(self, x: Tensor) -> None:
        """Refuse tables that no region can be made around."""
        if x.ndim != 2 or x.shape[1] != len(self.schema):
            raise AssayError(
                f"x has shape {tuple(x.shape)}; {self.schema!r} needs (rows, {len(self.schema)})"
            )
        if x.device.type != "cpu":
            raise AssayError(
                f"x is on {x.device}; tables are decoded and repaired on the CPU: Dataset(x.cpu(), "
                "y). The model may stay where it is"
            )
        if x.dtype != torch.float64:
            raise AssayError(
                f"x has dtype {x.dtype}; tables need float64 (sums of counts and ratios do not "
                "survive float32): Dataset(x.double(), y), or schema.tensor(df)"
            )
        if not bool(self.schema.mutable.any()):
            raise AssayError(f"{self.schema!r} has no mutable feature: there is nothing to attack")

    def around(self, x: Tensor) -> TableRegion:
        """The region around each record."""
        self.check(x)
        low, high = self.schema.bounds(x)
        frozen = ~self.schema.mutable
        # A record outside its bounds is invalid (`contains` says so), but must not break the box.
        whole = self.schema.whole  # nor must a bound of 0.5 make half a unit of it
        low = torch.where(frozen, x, torch.where(whole, low.ceil(), low)).minimum(x)
        high = torch.where(frozen, x, torch.where(whole, high.floor(), high)).maximum(x)
        z, m = self.encoding.encode(x), len(self.encoding.numeric)
        search = self.radius * (1 - self.margin) if self.p else self.radius
        sides = []
        for bound, way in ((low, -1.0), (high, 1.0)):
            number = (
                z[:, :m]
                + (bound[:, self.encoding.numeric] - x[:, self.encoding.numeric])
                / self.encoding.width
            )
            far = z[:, :m] + way * (
                2 * search if self.p else 1.0
            )  # no bound: the ball is the bound
            number = torch.where(number.isfinite(), number, far)
            blocks = [torch.full((len(x), len(places)), 0.0 if way < 0 else size, dtype=x.dtype)
                      for _, places, _, size in self.encoding.categories]  # fmt: skip
            sides.append(torch.cat([number, *blocks], dim=1))
        ball = LpRegion(z, (z.shape[1],), float(self.p), search, sides[0], sides[1])
        return TableRegion(self, x, low, high, ball)


@dataclass(frozen=True, eq=False)
class TableRegion:
    """The records an attacker may hand in instead of each row of x0."""

    space: TableSpace
    x0: Tensor  # (n, d)
    low: Tensor  # (n, d), the original value for immutables
    high: Tensor
    ball: LpRegion  # of the search coordinates, with the box as its box
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
        return self.space.encoding.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        """The records that would be handed in, (n, d); straight-through gradient."""
        if self._last and self._last[0] is z and self._last[1] == z._version:
            cached: Tensor = self._last[2]
            return cached
        hard, holds = self._hard(z.detach())
        out = hard
        if torch.is_grad_enabled() and z.requires_grad:
            soft = self.space.encoding.shift(self.x0, self.origin, z)
            if self.space.repair:
                soft = self.space.plan.smooth(soft, self.x0)
            out = hard + (soft - soft.detach())
        self._last[:] = [z, z._version, out, holds]
        return out

    @torch.no_grad()
    def _hard(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The records, and which of them satisfy their relations."""
        x, fine = self._rounded(z, self.x0, self.origin, self.low, self.high)
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
            found, good = part._rounded(
                z_near, part.x0, part.origin, part.low, part.high, careful=True
            )
            reach = part.share(found)
            fine[again], far[again] = good, reach
            done = (good | (not self.space.repair)) & (reach <= limit)
            x[again[done]], holds[again[done]] = found[done], good[done]
            again = again[~done]
        return x, holds

    def _rounded(
        self, z: Tensor, x0: Tensor, z0: Tensor, low: Tensor, high: Tensor, careful: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Round, bound, restore, repair; and which rows satisfy their relations then.

        `careful` rounds towards the original, which cannot leave the ball.
        """
        space, schema, encoding = self.space, self.space.schema, self.space.encoding
        lift = 1e-6 if careful else 0.5
        x = rounded(x0, z0, z, low, high, encoding.numeric, encoding.width, schema.whole, lift)
        if encoding.categories or encoding.blocks:
            x = encoding.snap(x0, z0, z, x, 1.0 if careful else 0.0)
            x = torch.where(schema.mutable, x.maximum(low).minimum(high), x0)
        if not space.repair:
            return x, schema.program.valid(x, x0, space.tolerance)
        return space.plan(x, x0, low, high, space.tolerance)

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
        good &= (schema.mutable | (x == self.x0)).all(1)
        good &= self.share(x) <= 1 + _SLACK
        return good & schema.program.valid(x, self.x0, self.space.tolerance)

    def distance(self, x: Tensor) -> Tensor:
        """(n,) in scaled coordinates (p=0: the number of changed features; cost: money)."""
        if self.p == 0:
            groups = [
                (x[:, m] != self.x0[:, m]).any(1) for m in self.space.schema.one_hot_groups.values()
            ]
            single = torch.tensor([not f.group for f in self.space.schema.features])
            changed = ((x != self.x0) & single).sum(1)
            return torch.stack([changed, *groups]).sum(0).to(torch.float64)
        far: Tensor = (self.encode(x) - self.origin).norm(self.p, dim=1)
        return far

    def share(self, x: Tensor) -> Tensor:
        """(n,) the part of its budget that a record takes: of the distance, or of the cost."""
        share = self.distance(x) / self.space.radius
        if self.space.prices is None:
            return share
        encode = self.space.prices.encode
        return share.maximum((encode(x) - encode(self.x0)).norm(1, dim=1) / self.space.cost)

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
        return of_table(self.space.schema.features, self.x0, self.low, self.high, far)

    def box(self) -> tuple[Tensor, Tensor]:
        """(n, d) bounds of each feature that hold for every valid record."""
        return box(self)

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
        return TableRegion(self.space, self.x0[rows], self.low[rows], self.high[rows], ball)
