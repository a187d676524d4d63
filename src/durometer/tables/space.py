"""The table space: records that keep their types, bounds and relations, near the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, fields
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from durometer.core import serialization
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.relations.repair import Repair
from durometer.spaces.ball import LpRegion
from durometer.tables.encoding import Encoding
from durometer.tables.missing import Gaps
from durometer.tables.region import TableRegion
from durometer.tables.schema import Schema

_LISTED = 30  # prices that a sentence names


@noun(eq=False)
class TableSpace:
    """Records near the original that keep their types, bounds and relations.

    Distances are measured in scaled coordinates: a change counts as a share of its feature's range.

    Args:
        schema: The features and their relations.
        eps: Largest distance from the original record. None: 0.5, unless a cost is given.
        p: The norm: 0 (number of changed features), 1, 2 or infinity.
        margin: Attacks search in a ball smaller by this share, so that repairs do not leave the
            ball. 0 by default; 0.05 in CAA (Simonetto et al., 2024).
        tolerance: Relative slack of the relations.
        cost: Largest total cost, in the currency of the features' `cost`. Instead of `eps` or
            besides it.
        repair: Whether candidates that break a relation are repaired. False leaves that to the
            penalty of the attack's loss.
        priced: Whether distances are costs. None: where only `cost` is given.

    Raises:
        DurometerError: A size is not positive, or `p` is no such norm.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema(
    ...     [du.Feature("a", low=0, high=9), du.Feature("b", low=0, high=9)], ["a <= b"]
    ... )
    >>> region = du.TableSpace(schema, eps=0.5).around(torch.tensor([[1.0, 2.0]]).double())
    >>> region.contains(torch.tensor([[1.5, 2.0]]).double()).item()
    True
    >>> region.contains(torch.tensor([[3.0, 2.0]]).double()).item()
    False
    """

    schema: Schema
    eps: float | None = None  # 0.5, unless a cost is given
    p: float = field(default=2.0, metadata={"most": math.inf})
    margin: float = field(default=0.0, metadata={"below": 1})
    tolerance: float = 1e-6
    cost: float | None = field(default=None, metadata={"above": 0})
    repair: bool = True
    priced: bool | None = None  # distances are money; by default where only a cost is given
    norm: ClassVar[None] = None  # a ball of scaled coordinates, cut by relations: no Lp ball
    cpu_only: ClassVar[bool] = True  # relations are compiled for the processor

    def __post_init__(self) -> None:
        if self.priced is None:
            object.__setattr__(self, "priced", self.eps is None and self.cost is not None)
        if self.cost is not None:
            self._check_prices()
        if self.priced:
            object.__setattr__(self, "eps", float(self.cost or 0.0))
            object.__setattr__(self, "p", 1.0)
        if self.eps is None:
            object.__setattr__(self, "eps", 0.5)
        if self.p not in (0, 1, 2, math.inf):
            raise DurometerError(f"p={self.p}: expected one of 0, 1, 2, inf")
        number = isinstance(self.eps, int | float) and not isinstance(self.eps, bool)
        if not (number and self.radius > 0 and math.isfinite(self.radius)):
            several = "; a change counts as a share of its feature's range: give the features of a "
            several += "schema other ranges, or costs and schema.space(cost=)"
            said = several if isinstance(self.eps, Sequence) else ""
            raise DurometerError(f"eps={self.eps!r}: expected a positive number{said}")

    def _check_prices(self) -> None:
        """Every feature that can change has a price; what relations compute from others is free."""
        derived = set(self.schema.repair.defined.tolist())
        missing = [
            f.name
            for i, f in enumerate(self.schema.features)
            if f.mutable and f.cost is None and i not in derived
        ]
        if missing:
            names = ", ".join(f"'{n}'" for n in missing[:5]) + (" ..." if len(missing) > 5 else "")
            raise DurometerError(
                f"cost={self.cost:g}: {len(missing)} features have no price ({names}); give each "
                f"what a unit of it costs, e.g. Feature('{missing[0]}', ..., cost=2.5), 0 where it "
                "is free, or mutable=False where it cannot change"
            )

    @property
    def price_list(self) -> dict[str, float]:
        """What a unit of each feature that can change costs; 0: free, or computed from others."""
        return {f.name: float(f.cost or 0.0) for f in self.schema.features if f.mutable}

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

    def to_dict(self, whole: bool = False) -> serialization.Table:
        """The space as plain values for a file or a report, with the schema by its name.

        Args:
            whole: Ignored: eps and p are always written, other parameters where they differ from
                the default.
        """
        size: serialization.Table = {} if self.priced else {"eps": self.eps, "p": self.p}
        size |= {} if self.cost is None else {"cost": self.cost}
        rest = serialization.non_default_fields(
            self, leave=("schema", "eps", "p", "cost", "priced")
        )
        return {"type": "TableSpace", "schema": self.schema.name or len(self.schema)} | size | rest

    @property
    def radius(self) -> float:
        """eps, or the cost where only that is given."""
        assert self.eps is not None
        return self.eps

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        free, rules = int(self.schema.mutable.sum()), len(self.schema.relations)
        size = f"distance {self.eps:g} in the {self.p:g} norm of the scaled features"
        if self.cost is not None:
            size = f"{'' if self.priced else size + ' and '}a cost of {self.cost:g}"
            listed = ", ".join(f"{n} {c:g}" for n, c in list(self.price_list.items())[:_LISTED])
            more = " ..." if len(self.price_list) > _LISTED else ""
            size += f" (a unit costs: {listed}{more})"
        return (
            f"The attacker may change {free} of {len(self.schema)} features within {size}; types, "
            f"bounds and {rules} relation{'s' * (rules != 1)} between features must hold."
        )

    @cached_property
    def encoding(self) -> Encoding:
        """The search coordinates: scaled numbers, one-hot categories."""
        return Encoding(self.schema, bool(self.priced))

    @cached_property
    def prices(self) -> Encoding | None:
        """Coordinates in the currency of costs, where a cost limits the region besides eps; else
        None.
        """
        return None if self.cost is None or self.priced else Encoding(self.schema, True)

    @property
    def plan(self) -> Repair:
        """How broken relations are repaired."""
        return self.schema.repair

    @cached_property
    def sums(self) -> list[tuple[Tensor, Tensor]]:
        """Columns and coefficients, in search coordinates, of each linear equality."""
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
        """Checks that regions can be made around these records.

        Args:
            x: The records (n, d).

        Raises:
            DurometerError: Shape, type or device is wrong, a cell is missing that must not be, or
                no feature is mutable.
        """
        if x.ndim != 2 or x.shape[1] != len(self.schema):
            raise DurometerError(
                f"x has shape {tuple(x.shape)}; {self.schema!r} needs (rows, {len(self.schema)})"
            )
        if x.device.type != "cpu":
            raise DurometerError(
                f"x is on {x.device}; tables are decoded and repaired on the CPU: Dataset(x.cpu(), "
                "y). The model may stay where it is"
            )
        if x.dtype != torch.float64:
            raise DurometerError(
                f"x has dtype {x.dtype}; tables need float64 (sums of counts and ratios do not "
                "survive float32): Dataset(x.double(), y), or schema.tensor(df)"
            )
        lacking = (x.isnan() & ~self.schema.gaps).nonzero()
        if len(lacking):
            row, column = lacking[0].tolist()
            name = self.schema.names[column]
            raise DurometerError(
                f"row {row} has no '{name}' ({len(lacking)} cells in all are missing that must "
                f"not be); say so in the schema: Feature('{name}', ..., missing=True)"
            )
        if not bool(self.schema.mutable.any()):
            raise DurometerError(
                f"{self.schema!r} has no mutable feature: there is nothing to attack"
            )

    def around(self, x: Tensor) -> TableRegion:
        """The region around each record.

        Args:
            x: The records (n, d), float64.
        """
        self.check(x)
        gaps, records = Gaps.of(self.schema, x, self.encoding), x
        low, high = self.schema.bounds(x)
        if gaps is not None:
            x = gaps.filled
            ends = torch.tensor([f.range for f in self.schema.features], dtype=x.dtype)
            low = torch.where(low.isnan(), ends[:, 0], low)
            high = torch.where(high.isnan(), ends[:, 1], high)
            fixed = gaps.gone & ~gaps.may
            low, high = torch.where(fixed, x, low), torch.where(fixed, x, high)
        frozen = ~self.schema.mutable
        # A record outside its bounds is invalid (`contains` says so), but must not break the box.
        whole = self.schema.whole  # nor must a bound of 0.5 make half a unit of it
        low = torch.where(frozen, x, torch.where(whole, low.ceil(), low)).minimum(x)
        high = torch.where(frozen, x, torch.where(whole, high.floor(), high)).maximum(x)
        z, m = self.encoding.encode(x), len(self.encoding.numeric)
        search = self.radius * (1 - self.margin) if self.p else self.radius
        if self.p == math.inf:
            low, high = self._within(x, low, high, search)
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
        if gaps is not None:
            fixed = self.encoding.columns(gaps.gone & ~gaps.may)
            sides = [torch.where(fixed, z, side) for side in sides]
            sides = [*gaps.sides(z, *sides)]
            z = torch.cat([z, gaps.origin], dim=1)
        ball = LpRegion(z, (z.shape[1],), float(self.p), search, sides[0], sides[1])
        return TableRegion(self, records, low, high, ball, gaps)

    def _within(self, x: Tensor, low: Tensor, high: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Bounds within the ball of Linf, where each number keeps its distance by itself.

        One whole number that rounding takes out of the ball would take all features back otherwise.
        """
        numeric = self.encoding.numeric
        reach = eps * self.encoding.width
        units = (reach * (1 + 1e-9)).floor()
        reach = torch.where(self.schema.whole[numeric], units, reach)
        low, high, here = low.clone(), high.clone(), x[:, numeric]
        low[:, numeric] = low[:, numeric].maximum(here - reach)
        high[:, numeric] = high[:, numeric].minimum(here + reach)
        return low, high
