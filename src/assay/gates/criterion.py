"""Criterion: a figure, a bound, and of which rows; written as one would say it.

    robust >= 0.80
    robust[y="default"] >= 0.7
    success <= 0.3
    robust no lower than runs/main by more than 0.02

A figure is one that every row has a share in (`FIGURES`): what is decided is the mean over rows
like these, not over the rows at hand, so a figure that only sums up a run cannot be a criterion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError, nearest

if TYPE_CHECKING:
    import pandas as pd

Rows = Callable[["pd.DataFrame"], NDArray[Any]]


def _verdict(word: str) -> Rows:
    return lambda t: (t["verdict"] == word).to_numpy(bool)


# figure -> what each row gives to it, in [0, 1]
FIGURES: dict[str, Rows] = {
    "robust": lambda t: ~t["success"].to_numpy(bool),
    "broken": lambda t: t["success"].to_numpy(bool),
    "proven": _verdict("proven"),
    "open": _verdict("open"),
    "clean": lambda t: (t["clean"] == t["y"]).to_numpy(bool),
    "stays": lambda t: t["probability_low"].to_numpy(float),
}
_PLAIN = re.compile(
    r"\s*(?P<figure>\w+)\s*(?:\[\s*(?P<column>\w+)\s*=\s*(?P<value>[^\]]+?)\s*\])?\s*"
    r"(?P<sign><=|>=)\s*(?P<bound>[-+.\w]+)\s*"
)
_PAIRED = re.compile(
    r"\s*(?P<figure>\w+)\s*(?:\[\s*(?P<column>\w+)\s*=\s*(?P<value>[^\]]+?)\s*\])?\s+"
    r"no lower than\s+(?P<baseline>.+?)\s+by more than\s+(?P<bound>[-+.\w]+)\s*"
)


@dataclass(frozen=True)
class Criterion:
    """`figure` of the rows where `column` is `value`, at least (or at most) `bound`.

    With a `baseline` (the folder of a run on the same rows) the figure may lie at most `bound`
    below the baseline's, row by row.

    >>> print(Criterion.parse('robust[y="default"] >= 0.7'))
    robust[y="default"] >= 0.7
    """

    figure: str
    bound: float
    at_most: bool = False
    column: str | None = None
    value: str | None = None
    baseline: str | None = None

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise AssayError(f"criterion '{self}': no figure '{self.figure}'"
                             f"{nearest(self.figure, FIGURES)}")  # fmt: skip
        if not 0 < self.bound < 1:
            raise AssayError(
                f"criterion '{self}': bound {self.bound:g}; expected a number between 0 and 1, "
                "both left out: no number of rows could show that a share is 0 or 1"
            )

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """From one line of text."""
        found = _PAIRED.fullmatch(text) or _PLAIN.fullmatch(text)
        if found is None:
            raise AssayError(
                f"criterion '{text}': expected e.g. 'robust >= 0.8', 'robust[y=\"stop\"] >= 0.7' "
                "or 'robust no lower than runs/main by more than 0.02'"
            )
        parts = found.groupdict()
        try:
            bound = float(parts["bound"])
        except ValueError:
            raise AssayError(f"criterion '{text}': '{parts['bound']}' is no number") from None
        value = parts["value"] and parts["value"].strip("\"'")
        baseline = parts.get("baseline")
        return cls(parts["figure"], bound, parts.get("sign") == "<=", parts["column"], value,
                   baseline)  # fmt: skip

    def __str__(self) -> str:
        where = f'[{self.column}="{self.value}"]' if self.column else ""
        if self.baseline is not None:
            by = f"by more than {self.bound:g}"
            return f"{self.figure}{where} no lower than {self.baseline} {by}"
        return f"{self.figure}{where} {'<=' if self.at_most else '>='} {self.bound:g}"

    def rows(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """What each row of the table gives to the figure."""
        return FIGURES[self.figure](table).astype(float)
