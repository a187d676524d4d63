"""A first schema from data alone: kinds, bounds, one-hot groups, likely immutables, relations.

Meant to be read and edited: `print(Schema.suggest(df).toml())`. Each relation comes with its
support (rows that would break it if the columns were unrelated) and the rows that do break it, the
surest first; what follows from others or from the bounds is left out. The search itself is in
`pairs` (of columns), `equalities`, `families` (columns named alike, and what a
category implies, amounts that exclude each other).

What a reader would get wrong: data cannot tell a law from a habit. Every proposal holds in the
rows; whether an attacker must obey it is for the reader to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from durometer.core import serialization
from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats
from durometer.tables.discovery import equalities, families, pairs
from durometer.tables.discovery.kinds import kinds
from durometer.tables.discovery.pairs import Candidate, Sample, tokens
from durometer.tables.feature import Feature, plain
from durometer.tables.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

KINDS = (
    *("formula", "sum", "copy", "membership", "order", "parts", "multiple", "condition"),
    *("category", "exclusive"),
    *("sum (by family)", "order (by family)", "multiple (by family)"),
)
_FIXED = {
    *("id", "age", "sex", "gender", "race", "ethnicity", "birth", "date", "day", "month", "year"),
    *("issue", "earliest", "history", "score", "grade", "country", "region"),
}
_MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A schema proposed from data, with the evidence; it can be used as a schema at once.

    Args:
        features: The features found.
        candidates: The relations found, each with its support.
        consider: Features that an attacker probably cannot change.
        rows: Number of rows it was found in.
        reasons: Why a feature is what it is, by name.
        left_out: Columns that are no features, and why.
    """

    features: tuple[Feature, ...]
    candidates: tuple[Candidate, ...]
    consider: tuple[str, ...]  # features an attacker probably cannot change
    rows: int
    reasons: dict[str, str] = field(default_factory=dict)  # why a feature is what it is
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are no features, and why

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    @cached_property
    def schema(self) -> Schema:
        """The schema with every relation found."""
        return Schema(self.features, [c.relation for c in self.candidates])

    def __getattr__(self, name: str) -> Any:
        """Whatever a schema can do: it may be used as one at once."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.schema, name)

    def __len__(self) -> int:
        return len(self.features)

    def __str__(self) -> str:
        """What was found with the reasons, and the code to paste."""
        lines = [f"From {self.rows} rows: {len(self.features)} features"]
        for f in self.features:
            span = ", ".join(map(str, f.values[:4])) + (" ..." if len(f.values) > 4 else "")
            span = span if f.values else "" if f.low is None else f"{f.low:g} to {f.high:g}"
            lines.append(f"  {f.name:<24} {f.kind:<9} {span:<32} {self.reasons.get(f.name, '')}")
        lines += [f"  {name:<24} left out: {why}" for name, why in self.left_out.items()]
        lines.append(f"{len(self.candidates)} relations, each with the rows that would break it")
        for c in self.candidates:
            lines.append(f"  {c.relation!s:<48} {c.kind}, {c.support:.0f}, broken by {c.broken}")
        return "\n".join([*lines, "As code:", self.code()])

    def code(self) -> str:
        """The schema as Python to paste and edit."""
        lines = ["schema = du.Schema(", "    ["]
        for f in self.features:
            rest = "".join(f", {k}={v!r}" for k, v in plain(f).items() if k != "kind")
            lines.append(f"        du.Feature({f.name!r}, {f.kind!r}{rest}),")
        lines += ["    ],", "    ["]
        lines += [f"        {str(c.relation)!r}," for c in self.candidates]
        return "\n".join([*lines, "    ],", ")"])

    @property
    def table(self) -> pd.DataFrame:
        """The relations with their evidence, surest first."""
        import pandas as pd

        return pd.DataFrame(
            [(str(c.relation), c.kind, round(c.support, 1), c.broken) for c in self.candidates],
            columns=["relation", "kind", "support", "broken"],
        )

    def __repr__(self) -> str:
        found = f"{len(self.features)} features, {len(self.candidates)} relations"
        return f"Suggestion({found} from {self.rows} rows)"

    def toml(self) -> str:
        """The schema as TOML to edit, with the evidence as comments."""
        lines = self.schema.toml().splitlines()
        start = lines.index("relations = [") + 1
        for k, c in enumerate(self.candidates):
            lines[start + k] += f"  # {c.kind}; support {c.support:.0f} rows, broken by {c.broken}"
        notes = [
            f"# Proposed from {self.rows} rows. Delete what is a coincidence, add what you know."
        ]
        notes += [f"# Left out: {name} ({why})" for name, why in self.left_out.items()]
        if self.consider:
            hands = "# Probably not in an attacker's hands (set mutable = false): "
            notes.append(hands + ", ".join(self.consider))
        return "\n".join([*notes, *lines]) + "\n"


def suggest(table: Any, broken: float = 0.002, support: float = 10.0) -> Suggestion:
    """Proposes a schema from data; relations are searched on 20,000 rows and counted on all.

    Args:
        table: The data frame.
        broken: Share of the rows that a relation may fail on, from 0 to 0.5.
        support: How many rows would have to break a relation by chance for it to be proposed.

    Returns:
        A `Suggestion`, to be reviewed before it is used.

    Raises:
        DurometerError: `broken` is no such share.
    """
    if not 0 <= broken < 0.5:
        raise DurometerError(f"broken={broken}: expected a share of the rows, from 0 to 0.5")
    seen = kinds(table)
    described = Schema(seen.features)
    x = described.tensor(table)
    # A category's code is no number, and a one-hot group has its own rule.
    skip = np.array([f.kind == "category" or bool(f.group) for f in described.features])
    known, skip = _complete(x.numpy(), skip)
    few = np.unique(np.linspace(0, len(known) - 1, min(_MOST_ROWS, len(known))).astype(int))
    sample = Sample(described.names, known[few], int(broken * len(few)), support)
    found = list(_search(sample, skip))
    if len(described.names) <= equalities.WIDEST:
        found += [*families.implications(sample, described.features)]
        found += [*families.exclusive(sample, skip)]
    program = Schema(described.features, [c.relation for c in found]).program
    counts = (~program.holds(x, x)).sum(0).tolist()
    counted = [replace(c, broken=int(k)) for c, k in zip(found, counts, strict=True)]
    kept = [c for c in counted if c.broken <= broken * len(x)]
    kept.sort(key=lambda c: (KINDS.index(c.kind), -c.support))
    consider = [
        f.name for f in described.features
        if set(tokens(f.name.lower())) & _FIXED or (f.low == f.high and f.low is not None)
    ]  # fmt: skip
    return Suggestion(
        described.features, tuple(kept), tuple(consider), len(x), seen.reasons, seen.left_out
    )


def _complete(x: Floats, skip: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Rows to look for relations in: those that lack nothing. Where they are few, the columns with
    the most gaps are not looked at."""
    gaps = np.isnan(x)
    while True:
        whole = ~gaps[:, ~skip].any(1)
        if whole.mean() >= 0.5 or not gaps[:, ~skip].any():
            return np.nan_to_num(x[whole]), skip
        worst = int(np.where(skip, -1, gaps.sum(0)).argmax())
        skip = skip.copy()
        skip[worst] = True


def _search(t: Sample, skip: NDArray[np.bool_]) -> Iterator[Candidate]:
    """All proposals; what follows from an earlier one is left out."""
    wide = len(t.names) > equalities.WIDEST
    if not wide:
        copies = pairs.copies(t)
        yield from copies
        again = {c.names[1] for c in copies}
        skip = skip | np.array([name in again for name in t.names])
    made = [
        *equalities.months(t, skip),
        *equalities.annuities(t, skip),
        *equalities.ratios(t, skip),
    ]
    if not wide:
        made += equalities.rounded(t, skip, made)
    yield from made
    yield from pairs.few_values(t, skip)
    named = families.cut(t.names)
    sums = families.totals(t, named, skip)
    yield from sums
    by_name = families.templates(t, named, skip)
    yield from by_name
    if wide:
        return  # so many pairs that unrelated columns are in order too: only names are trusted
    still = {name for name, constant in zip(t.names, t.constant, strict=True) if constant}
    known = {frozenset(c.names) - still for c in sums}
    alone = equalities.linear(t, t.x * ~skip, [[i] for i in range(len(t.names))])
    yield from (c for c in alone if frozenset(c.names) not in known)
    # What a formula defines follows from its parts, and so do its orders.
    skip = skip | np.array([name in {c.names[0] for c in made} for name in t.names])
    orders, ordered = pairs.orders(t, skip)
    shown = {c.names for c in by_name}
    yield from (c for c in orders if c.names not in shown)
    yield from (c for c in pairs.conditions(t, skip, ordered) if c.names not in shown)
    yield from families.bounded_sums(t, skip)


def features(table: Any) -> list[Feature]:
    """Kinds and bounds of a DataFrame's columns, as found in the data."""
    return list(kinds(table).features)
