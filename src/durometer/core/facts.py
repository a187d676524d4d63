"""Facts: what was seen of a model before a run, and noticed on the way.

The warnings of a report are functions of them (`report/checks.py`). A game fills in what it saw
while it prepared itself, a referee what it counted, a run how far it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

Versions = Mapping[str, str]


@dataclass(frozen=True)
class Facts:
    """What was seen of a model before a run, and noticed on the way.

    Args:
        classes: Number of the model's classes; 0 where nobody looked.
        training: Whether the model came in training mode.
        probabilities: Whether its outputs look like probabilities where logits were meant.
        saturated: Share of the rows looked at whose probabilities are exactly 0 and 1.
        half: Name of the model's type of number where it has half precision, else "".
        repeat_difference: How far two answers to one batch differ, as a share of the largest logit.
        batch_difference: How far a row's answer differs when it is asked alone, as the same share.
        agreed: Rows on which the model as it was read agreed with the model's own `predict`.
        score: The accuracy that its owner says it has.
        answers: What it answers: "logits", "probabilities", "labels" ...
        left_out: What the space leaves out although it might be meant.
        other_scale: Clean accuracy as it is asked and on another scale, where that is better.
        random: Whether a defender answers otherwise when it moves again; None where nobody looked.
        order_difference: Share of answers that change with the order of the rows of a batch.
        company_difference: Share of answers that change with the other rows of a batch.
        unattacked: Whether nobody attacked a defender.
        one_move: Whether a random defender moved only once.
        moved: How far an entry of the correlation matrix was moved to make a noise possible.
        tolerance: Width of the intervals of a game of noise; None in other games.
        tolerance_given: Whether somebody asked for that width.
        gradients: Gradients asked for on rows not solved.
        flat: Those of them that were exactly 0.
        nonfinite: Answers that were no finite numbers.
        apart: Candidates of which a faster copy said another thing than the model.
        put_back: Rows of an attack that were not its own or lay outside the space.
        searched: Rows that fell without a gradient.
        looked: Rows whose gradients were looked at.
        misled: Those of them whose gradients mislead.
        narrow: Rows of the data, where a run ended because its interval was narrow enough.
        decided: Rows of the data, where a run ended because its gate was decided.
        interrupted: Rows of the data, where a run was stopped by hand.
        broke_down: Rows of the data and the error, where a run broke down.
        unfinished: Chunks that are finished, and all, where a run goes on.
        versions: The versions that made the rows, where there is more than one set of them.
        all_rows: Rows played, where the records hold a sample of them.
    """

    classes: int = 0
    training: bool = False
    probabilities: bool = False
    saturated: float = 0.0
    half: str = ""
    repeat_difference: float = 0.0
    batch_difference: float = 0.0
    agreed: int = 0
    score: float | None = None
    answers: str = ""
    left_out: tuple[str, ...] = ()
    other_scale: tuple[float, float] | None = None
    random: bool | None = None
    order_difference: float = 0.0
    company_difference: float = 0.0
    unattacked: bool = False
    one_move: bool = False
    moved: float = 0.0
    tolerance: float | None = None
    tolerance_given: bool = False
    gradients: int = 0
    flat: int = 0
    nonfinite: int = 0
    apart: int = 0
    put_back: int = 0
    searched: int = 0
    looked: int = 0
    misled: int = 0
    narrow: int = 0
    decided: int = 0
    interrupted: int = 0
    broke_down: tuple[int, str] | None = None
    unfinished: tuple[int, int] | None = None
    versions: tuple[Versions, ...] = ()
    all_rows: int | None = None

    def plus(self, counts: Mapping[str, int]) -> Facts:
        """With what was counted on the way (`COUNTED`) added.

        Args:
            counts: How many of what.
        """
        return replace(self, **{k: getattr(self, k) + counts.get(k, 0) for k in COUNTED})

    def to_json(self) -> dict[str, Any]:
        """As a table of plain values; fields that say nothing are left out."""
        blank = Facts()
        return {k: v for k, v in asdict(self).items() if v != getattr(blank, k)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Facts:
        """From such a table; what it holds besides is not read.

        Args:
            table: What `to_json` wrote.

        Raises:
            ValueError: A value is of another kind than its field.
        """
        blank = cls()
        return cls(
            **{f.name: _read(f.name, table[f.name], blank) for f in fields(cls) if f.name in table}
        )


COUNTED = (
    "gradients",
    "flat",
    "nonfinite",
    "apart",
    "put_back",
    "searched",
    "looked",
    "misled",
)  # what a referee notices on the way
_PAIRS = {"other_scale": (float, float), "broke_down": (int, str), "unfinished": (int, int)}
_NUMBERS = {"score": float, "tolerance": float, "all_rows": int, "random": bool}


def _read(name: str, value: Any, blank: Facts) -> Any:
    usual = getattr(blank, name)
    if value is None and usual is None:
        return None
    if name in _PAIRS:
        if isinstance(value, list | tuple) and len(value) == 2:
            return tuple(_one(name, v, kind) for v, kind in zip(value, _PAIRS[name], strict=True))
        raise ValueError(f"{name}: {str(value)[:80]!r} is no pair")
    if isinstance(usual, tuple):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name}: {str(value)[:80]!r} is no list")
        return tuple(_one(name, v, dict if name == "versions" else str) for v in value)
    return _one(name, value, _NUMBERS[name] if name in _NUMBERS else type(usual))


def _one(name: str, value: Any, kind: type) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind is float and (whole or isinstance(value, float)):
        return float(value)
    if (kind is int and not whole) or not isinstance(value, kind):
        raise ValueError(f"{name}: {str(value)[:80]!r} is no {kind.__name__}")
    return value
