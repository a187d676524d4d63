"""A first schema from data alone: kinds, bounds, one-hot groups, what might be immutable, relations.

Meant to be read and edited: `print(Schema.suggest(df).toml())`. Each relation comes with its
support (rows that would be expected to break it if the columns were unrelated) and the rows that do
break it, the surest first; what follows from others or from the bounds is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import AssayError
from assay.spaces import discover
from assay.spaces.discover import Candidate
from assay.spaces.schema import Feature, Schema

if TYPE_CHECKING:
    import pandas as pd

_FIXED = ("age", "sex", "gender", "race", "birth", "date", "year", "month", "day", "id", "issue", "country")
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
        return f"Suggestion({len(self.features)} features, {len(self.candidates)} relations from {self.rows} rows)"

    def toml(self) -> str:
        """The schema as TOML to edit, with the evidence as comments."""
        lines = self.schema.toml().splitlines()
        start = lines.index("relations = [") + 1
        for k, c in enumerate(self.candidates):
            lines[start + k] += f"  # {c.kind}; support {c.support:.0f} rows, broken by {c.broken}"
        notes = [f"# Proposed from {self.rows} rows. Delete what is a coincidence, add what you know."]
        if self.consider:
            notes.append("# Probably not in an attacker's hands (set mutable = false): " + ", ".join(self.consider))
        return "\n".join([*notes, *lines]) + "\n"


def suggest(
    table: Any, broken: float = 0.002, support: float = 10.0, alike: float = 0.3, seed: int = 0
) -> Suggestion:
    """Propose a schema. `broken` is the share of rows a relation may fail on, `alike` how much of
    their names two columns must share to be compared (0 compares everything)."""
    found = features(table)
    rows = len(table)
    if rows > _MOST_ROWS:
        table = table.iloc[np.sort(np.random.default_rng(seed).choice(rows, _MOST_ROWS, replace=False))]
    columns = {
        f.name: table[f.name].to_numpy(dtype=np.float64)
        for f in found if f.kind in ("real", "integer", "boolean") and not f.group
    }  # fmt: skip
    allowed = int(broken * len(table))
    orders = discover.transitive(list(discover.orders(columns, allowed, support, alike)))
    ordered = {c.names for c in orders}
    conditions = [
        c for c in discover.conditions(columns, 0.05, support) if c.names not in ordered
    ]
    candidates = [
        *discover.formulas(columns, allowed), *discover.sums(columns, allowed),
        *discover.memberships(columns), *orders, *discover.multiples(columns, support),
        *sorted(conditions, key=lambda c: -c.support),
    ]  # fmt: skip
    rank = ["formula", "sum", "membership", "order", "order (by family)", "multiple", "condition"]
    candidates.sort(key=lambda c: (rank.index(c.kind), -c.affinity, -c.support))
    consider = [
        f.name for f in found
        if set(discover.tokens(f.name.lower())) & set(_FIXED) or f.low == f.high and f.low is not None
    ]  # fmt: skip
    return Suggestion(tuple(found), tuple(candidates), tuple(consider), rows)


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
        raise AssayError(f"column '{name}': {gaps} of {len(values)} values are missing; fill or drop them")
    low, high = float(numbers.min()), float(numbers.max())
    if values.dtype.kind == "b" or set(np.unique(numbers)) <= {0.0, 1.0}:
        return Feature(name, "boolean", low, high)
    whole = bool((numbers == np.round(numbers)).all())
    return Feature(name, "integer" if whole else "real", low, high)


def _grouped(found: list[Feature], table: Any) -> list[Feature]:
    """0/1 columns with a common beginning of their names, of which exactly one is 1 in every row."""
    flags = [f for f in found if f.kind == "boolean" and f.low == 0 and f.high == 1]
    groups: dict[str, list[str]] = {}
    for f in flags:
        words = discover.tokens(f.name)
        for cut in range(len(words) - 1, 0, -1):
            groups.setdefault("_".join(words[:cut]), []).append(f.name)
    member: dict[str, str] = {}
    for prefix, names in sorted(groups.items(), key=lambda g: -len(g[1])):
        if len(names) >= 2 and not any(n in member for n in names):
            total = sum(table[n].to_numpy(dtype=np.float64) for n in names)
            if bool((total == 1).all()):
                member |= dict.fromkeys(names, prefix)
    return [replace(f, group=member[f.name], low=None, high=None) if f.name in member else f for f in found]
