"""Criterion: a figure, a bound, and of which rows; written as one would say it.

    robust >= 0.80
    robust[y="default"] >= 0.7
    broken <= 0.3
    robust no lower than runs/main by more than 0.02

A figure is one that every row has a share in (`FIGURES`): what is decided is the mean over rows
like these, not over the rows at hand, so a figure that only sums up a run cannot be a criterion.

What a reader would get wrong: under noise a row gives a probability, known between two ends. Only
the lower end speaks for "at least" and only the upper one for "at most": bounds that are too wide
leave a gate undecided, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import noun

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
}
_NOISE = {"robust": 1, "broken": -1}  # figures that a row's probability is a share in
_PLAIN = re.compile(
    r"\s*(?P<figure>\w+)\s*(?:\[\s*(?P<column>\w+)\s*=\s*(?P<value>[^\]]+?)\s*\])?\s*"
    r"(?P<sign><=|>=)\s*(?P<bound>[-+.\w]+)\s*"
)
_PAIRED = re.compile(
    r"\s*(?P<figure>\w+)\s*(?:\[\s*(?P<column>\w+)\s*=\s*(?P<value>[^\]]+?)\s*\])?\s+"
    r"no lower than\s+(?P<baseline>.+?)\s+by more than\s+(?P<bound>[-+.\w]+)\s*"
)


@noun
class Criterion:
    """An acceptance criterion: a figure of some rows, and its bound.

    As text: `robust >= 0.8`, `robust[y="default"] >= 0.7`, `broken <= 0.3`, `robust no lower than
    runs/main by more than 0.02`.

    Args:
        figure: "robust", "broken", "proven", "open" or "clean".
        bound: The bound, between 0 and 1, both excluded. With a baseline: by how much the figure
            may fall.
        at_most: Whether the figure must be at most the bound. Default: at least.
        column: Restricts the criterion to rows with a value in this column of the records, e.g.
            "y". None: all rows.
        value: That value, as text; classes by name where they have names.
        baseline: The folder of a run on the same rows to compare with. None: no comparison.

    Raises:
        DurometerError: There is no such figure, or the bound is not between 0 and 1.

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
            raise DurometerError(f"criterion '{self}': no figure '{self.figure}'"
                             f"{nearest(self.figure, FIGURES)}")  # fmt: skip
        if not 0 < self.bound < 1:
            raise DurometerError(
                f"criterion '{self}': bound {self.bound:g}; expected a number between 0 and 1, "
                "both left out: no number of rows could show that a share is 0 or 1"
            )

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """Reads a criterion from text.

        Args:
            text: One line, as in the examples above.

        Raises:
            DurometerError: The text is no criterion.
        """
        found = _PAIRED.fullmatch(text) or _PLAIN.fullmatch(text)
        if found is None:
            raise DurometerError(
                f"criterion '{text}': expected e.g. 'robust >= 0.8', 'robust[y=\"stop\"] >= 0.7' "
                "or 'robust no lower than runs/main by more than 0.02'"
            )
        parts = found.groupdict()
        try:
            bound = float(parts["bound"])
        except ValueError:
            raise DurometerError(f"criterion '{text}': '{parts['bound']}' is no number") from None
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

    def rows(self, table: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What each row of a table contributes to the figure.

        Args:
            table: The records, as `report.table`.

        Returns:
            Lower and upper ends (n,), in [0, 1]; they differ under noise only. NaN: the row has no
                part.
        """
        low, high = (table[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
        if np.isfinite(low).any() and self.figure != "clean":
            if self.figure in _NOISE:
                return (low, high) if _NOISE[self.figure] > 0 else (1 - high, 1 - low)
            held = np.where(np.isfinite(low), FIGURES[self.figure](table), np.nan)
        else:
            held = FIGURES[self.figure](table).astype(float)
        return held, held
