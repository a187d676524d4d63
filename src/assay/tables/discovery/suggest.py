"""A first schema from data alone: kinds, bounds, one-hot groups, likely immutables, relations.

Meant to be read and edited: `print(Schema.suggest(df).toml())`. Each relation comes with its
support (rows that would break it if the columns were unrelated) and the rows that do break it, the
surest first; what follows from others or from the bounds is left out. The search itself is in
`evidence` (pairs of columns), `formulas` (equalities) and `families` (columns named alike).

What a reader would get wrong: data cannot tell a law from a habit. Every proposal holds in the
rows; whether an attacker must obey it is for the reader to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError
from assay.tables.discovery import equalities as formulas
from assay.tables.discovery import families
from assay.tables.discovery import pairs as evidence
from assay.tables.discovery.pairs import Candidate, Sample, tokens
from assay.tables.feature import Feature
from assay.tables.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

KINDS = (
    *("formula", "sum", "copy", "membership", "order", "parts", "multiple", "condition"),
    *("sum (by family)", "order (by family)", "multiple (by family)"),
)
_FIXED = {
    *("id", "age", "sex", "gender", "race", "ethnicity", "birth", "date", "day", "month", "year"),
    *("issue", "earliest", "history", "score", "grade", "country", "region"),
}
_MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Suggestion:
    """What was found; `schema` takes all of it, `table` shows the evidence."""

    features: tuple[Feature, ...]
    candidates: tuple[Candidate, ...]
    consider: tuple[str, ...]  # features an attacker probably cannot change
    rows: int

    @property
    def schema(self) -> Schema:
        """The schema with every relation found."""
        return Schema(self.features, [c.relation for c in self.candidates])

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
        if self.consider:
            hands = "# Probably not in an attacker's hands (set mutable = false): "
            notes.append(hands + ", ".join(self.consider))
        return "\n".join([*notes, *lines]) + "\n"


def suggest(table: Any, broken: float = 0.002, support: float = 10.0) -> Suggestion:
    """Propose a schema. `broken`: the share of rows a relation may fail on; `support`: how many
    rows would have to break it by chance. Searched on 20,000 rows, counted on all."""
    if not 0 <= broken < 0.5:
        raise AssayError(f"broken={broken}: expected a share of the rows, from 0 to 0.5")
    described = Schema(features(table))
    x = described.tensor(table)
    few = np.unique(np.linspace(0, len(x) - 1, min(_MOST_ROWS, len(x))).astype(int))
    sample = Sample(described.names, x.numpy()[few], int(broken * len(few)), support)
    # A category's code is no number, and a one-hot group has its own rule.
    skip = np.array([f.kind == "category" or bool(f.group) for f in described.features])
    found = list(_search(sample, skip))
    program = Schema(described.features, [c.relation for c in found]).program
    counts = (~program.holds(x, x)).sum(0).tolist()
    counted = [replace(c, broken=int(k)) for c, k in zip(found, counts, strict=True)]
    kept = [c for c in counted if c.broken <= broken * len(x)]
    kept.sort(key=lambda c: (KINDS.index(c.kind), -c.support))
    consider = [
        f.name for f in described.features
        if set(tokens(f.name.lower())) & _FIXED or (f.low == f.high and f.low is not None)
    ]  # fmt: skip
    return Suggestion(described.features, tuple(kept), tuple(consider), len(x))


def _search(t: Sample, skip: NDArray[np.bool_]) -> Iterator[Candidate]:
    """All proposals; what follows from an earlier one is left out."""
    wide = len(t.names) > formulas.WIDEST
    if not wide:
        copies = evidence.copies(t)
        yield from copies
        again = {c.names[1] for c in copies}
        skip = skip | np.array([name in again for name in t.names])
    made = [*formulas.months(t, skip), *formulas.annuities(t, skip), *formulas.ratios(t, skip)]
    yield from made
    yield from evidence.few_values(t, skip)
    named = families.cut(t.names)
    sums = families.totals(t, named, skip)
    yield from sums
    by_name = families.templates(t, named, skip)
    yield from by_name
    if wide:
        return  # so many pairs that unrelated columns are in order too: only names are trusted
    still = {name for name, constant in zip(t.names, t.constant, strict=True) if constant}
    known = {frozenset(c.names) - still for c in sums}
    alone = formulas.linear(t, t.x * ~skip, [[i] for i in range(len(t.names))])
    yield from (c for c in alone if frozenset(c.names) not in known)
    # What a formula defines follows from its parts, and so do its orders.
    skip = skip | np.array([name in {c.names[0] for c in made} for name in t.names])
    orders, ordered = evidence.orders(t, skip)
    pairs = {c.names for c in by_name}
    yield from (c for c in orders if c.names not in pairs)
    yield from (c for c in evidence.conditions(t, skip, ordered) if c.names not in pairs)
    yield from families.bounded_sums(t, skip)


def features(table: Any) -> list[Feature]:
    """Kinds and bounds of a DataFrame's columns, as found in the data."""
    if not hasattr(table, "columns") or not len(table):
        raise AssayError("expected a DataFrame with at least one row")
    found = [_feature(str(name), table[name].to_numpy()) for name in table.columns]
    return _grouped(found, table)


def _feature(name: str, values: np.ndarray) -> Feature:
    if values.dtype.kind in "OUS" or values.dtype.name in ("category", "str", "string"):
        labels = sorted({str(v) for v in values})
        if len(labels) > max(50, len(values) // 10):
            raise AssayError(
                f"column '{name}' holds {len(labels)} different texts; drop it (a name or an id?) "
                "or turn it into numbers first"
            )
        return Feature(name, "category", values=tuple(labels))
    numbers = values.astype(np.float64)
    gaps = int((~np.isfinite(numbers)).sum())
    if gaps:
        raise AssayError(
            f"column '{name}': {gaps} of {len(values)} values are missing; fill or drop them"
        )
    low, high = float(numbers.min()), float(numbers.max())
    if values.dtype.kind == "b" or set(np.unique(numbers)) <= {0.0, 1.0}:
        return Feature(name, "boolean", low, high)
    whole = bool((numbers == np.round(numbers)).all())
    return Feature(name, "integer" if whole else "real", low, high)


def _grouped(found: list[Feature], table: Any) -> list[Feature]:
    """0/1 columns whose names begin alike and of which exactly one is 1 in every row."""
    flags = [f for f in found if f.kind == "boolean" and f.low == 0 and f.high == 1]
    groups: dict[str, list[str]] = {}
    for f in flags:
        words = tokens(f.name)
        for cut in range(len(words) - 1, 0, -1):
            groups.setdefault("_".join(words[:cut]), []).append(f.name)
    member: dict[str, str] = {}
    for prefix, names in sorted(groups.items(), key=lambda g: -len(g[1])):
        if len(names) >= 2 and not any(n in member for n in names):
            total = sum(table[n].to_numpy(dtype=np.float64) for n in names)
            if bool((total == 1).all()):
                member |= dict.fromkeys(names, prefix)
    return [
        replace(f, group=member[f.name], low=None, high=None) if f.name in member else f
        for f in found
    ]
