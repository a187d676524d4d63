"""`GlobalAnswer`: what is known of a whole model, with its pair of records as evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["found", "proven", "open"]
IN_WORDS: dict[Status, str] = {
    "found": "found: a valid record does",
    "proven": "proven: no valid record does",
    "open": "open: neither found nor excluded",
}


@dataclass(frozen=True)
class Beside:
    """The largest value of the same question about other records, beside an answer.

    Args:
        about: Which records, in words.
        low: The largest value that was found among them. None: none was found.
        high: None of them exceeds it.

    >>> print(Beside("within 0.05 of a record", 0.25, 0.5))
    within 0.05 of a record: at least 0.25, at most 0.5
    """

    about: str
    low: float | None
    high: float

    def __str__(self) -> str:
        return f"{self.about}: {_between(self.low, self.high)}"


@dataclass(frozen=True, eq=False, repr=False)
class GlobalAnswer:
    """What `influence`, `flips`, `monotone` or `reachable` found out about a whole model.

    Args:
        question: The question, in words.
        status: "found" (records that do it, kept in `pair`), "proven" (no valid record does it) or
            "open" (neither was shown in the time given). Of `influence` without `most=`: "proven"
            where `low` and `high` are within the gap.
        low: The largest value that a valid record or pair reaches, as the model's own sums have it;
            None where no valid record was found.
        high: No valid record or pair exceeds it, rounding included.
        unit: What `low` and `high` are measured in.
        pair: The records behind `low`, as rows of a data frame: one, or two that differ in the
            asked features only. None where there are none.
        labels: The classes that the model itself gives to the rows of `pair`.
        rounding: What the model's own arithmetic may add, in the same unit; `high` includes it.
        records: Number of records that the question was asked of one by one (0: no data given).
        share: Share of these records that do it themselves; None without data.
        strongest: The largest value that one of these records reaches; None without data.
        sampled: Whether only some values of the asked features were tried on the records, so that
            `share` and `strongest` are lower bounds.
        beside: The same question about other records: near the data, or without the relations that
            bind the asked features.
        left_out: Relations that the bound could not use. A proof without them holds with them;
            records were checked against all.
        notes: What else a reader should know.
        audited: Number of valid records or pairs that the model itself was asked about to refute
            the proof; none did. 0: nothing was proven.
        nodes: Number of boxes that were looked at.
        seconds: Computing time of the search, in seconds.

    >>> answer = GlobalAnswer("does age alone flip a decision?", "proven", None, -0.2, "score")
    >>> print(answer)
    does age alone flip a decision? proven: no valid record does
      largest value: none, whatever the records (score)
    """

    question: str
    status: Status
    low: float | None
    high: float
    unit: str
    pair: pd.DataFrame | None = None
    labels: tuple[str, ...] = ()
    rounding: float = 0.0
    records: int = 0
    share: float | None = None
    strongest: float | None = None
    sampled: bool = False
    beside: tuple[Beside, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    audited: int = 0
    nodes: int = 0
    seconds: float = 0.0

    def __repr__(self) -> str:
        low = "none known" if self.low is None else f"{self.low:.6g}"
        return f"GlobalAnswer({self.status}, low={low}, high={self.high:.6g}, {self.question!r})"

    @property
    def verdict(self) -> str:
        """The status as a sentence."""
        if self.status == "proven" and self.low is not None:
            return "proven: the value lies between these bounds"
        return IN_WORDS[self.status]

    @property
    def value(self) -> str:
        """The largest value, as what it lies between."""
        return f"{_between(self.low, self.high)} ({self.unit})"

    @property
    def on_records(self) -> str:
        """What the records that were given do themselves; empty without data."""
        if self.share is None:
            return ""
        least = "at least " if self.sampled else ""
        by = "" if self.strongest is None else f", by up to {self.strongest:.6g}"
        return f"of {self.records} records {least}{self.share:.2%} do it themselves{by}"

    def __str__(self) -> str:
        lines = [f"{self.question} {self.verdict}", f"  largest value: {self.value}"]
        if self.pair is not None:
            lines += ["  " + line for line in self.pair.to_string().splitlines()]
            lines.append(f"  the model says: {', '.join(self.labels)}")
        if self.on_records:
            lines.append(f"  {self.on_records}")
        lines += [f"  {beside}" for beside in self.beside]
        if self.left_out:
            lines.append(f"  not used by the bound: {'; '.join(self.left_out)}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def table(self) -> dict[str, Any]:
        """The answer as plain values for JSON; the pair as one table per record."""
        pair = None if self.pair is None else [
            {str(k): _plain(v) for k, v in row.items()} for row in self.pair.to_dict("records")
        ]  # fmt: skip
        return {
            "question": self.question, "status": self.status, "low": self.low,
            "high": _plain(self.high), "unit": self.unit, "pair": pair,
            "labels": list(self.labels), "rounding": self.rounding, "records": self.records,
            "share": self.share, "strongest": self.strongest, "sampled": self.sampled,
            "beside": [
                {"about": b.about, "low": b.low, "high": _plain(b.high)} for b in self.beside
            ],
            "left_out": list(self.left_out), "notes": list(self.notes), "audited": self.audited,
            "nodes": self.nodes, "seconds": round(self.seconds, 3),
        }  # fmt: skip


def _between(low: float | None, high: float) -> str:
    if low is None and high < 0:
        return "none, whatever the records"
    if low is None:
        return "no upper bound yet" if math.isinf(high) else f"at most {high:.6g}"
    return f"at least {low:.6g}, " + (
        "no upper bound yet" if math.isinf(high) else f"at most {high:.6g}"
    )


def _plain(value: Any) -> Any:
    """A cell as JSON has it: what is no finite number is text, a gap is null."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return str(value)
