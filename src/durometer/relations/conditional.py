"""Numbers that depend on relations: how many of them hold, one value or another."""

from __future__ import annotations

from dataclasses import dataclass

from durometer.relations.expression import Expr, Relation


@dataclass(frozen=True, eq=False, repr=False)
class Count(Expr):
    """How many of these relations hold."""

    operands: tuple[Relation, ...]

    def __str__(self) -> str:
        return f"count({', '.join(str(p) for p in self.operands)})"


@dataclass(frozen=True, eq=False, repr=False)
class Where(Expr):
    """One value where a relation holds, another where it does not."""

    test: Relation
    yes: Expr
    no: Expr

    def __str__(self) -> str:
        return f"({self.yes} if {self.test} else {self.no})"
