"""Goals: what counts as success, as a relation between the true class and the predicted class.

A goal says, for each row, which classes the attacker may land in: `targets(y, clean, index)` is a
mask (n, C). Everything else follows from the mask: success is an arg-max inside it, every loss is a
function of (logits, mask), and a row with an empty mask has nothing to fear and is left out.

A `Quota` is more than a mask: a band of attackers must pass for `k` different targets together. It
is `Expandable`, no `Goal`: its facts are the pairs (row, target), each a targeted attack.

A reject option is one more class: name it with `reject=`, and landing there is never a success.
What a reader would get wrong: a goal other than untargeted is *not* reached by "any wrong class".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from durometer.core.errors import DurometerError, nearest
from durometer.core.spec import QuotaRule
from durometer.data.dataset import Dataset

Names = Sequence[str] | None


@dataclass(frozen=True)
class Aims:
    """Which classes the attacker wants, for the spec of a run.

    Args:
        classes: Their indices; None: any wrong class.
        quota: What a band of attackers must reach together; None: rows are judged one by one.
    """

    classes: tuple[int, ...] | None = None
    quota: QuotaRule | None = None


@runtime_checkable
class Expandable(Protocol):
    """What `evaluate(goal=)` takes: something that says which rows are played, and for which goal.

    A class attribute `together` says that rows are judged in bands and not one by one, so that all
    of them must be played. A property `description` may say what the attacker wants, as a sentence
    for the report.
    """

    together: ClassVar[bool] = False

    def expand(self, data: Dataset) -> tuple[Dataset, Goal]:
        """The rows to play, and the goal of each.

        Args:
            data: The data set.

        Returns:
            The rows (a data set, possibly with repeated rows) and a `Goal` for them.
        """
        ...

    def aims(self, count: int, names: Names = None) -> Aims:
        """For the report: which classes the attacker wants, where that is not all.

        Args:
            count: Number of classes.
            names: Names of the classes, where they have any.

        Returns:
            The classes, e.g. `Aims((3, 7))`; `Aims()` for all wrong ones.
        """
        return Aims()


@runtime_checkable
class Goal(Expandable, Protocol):
    """Which classes the attacker may reach, row by row.

    A subclass defines `targets`, and `loss` (a class attribute) where cross-entropy is not the loss
    that the goal implies.
    """

    loss: ClassVar[str] = "ce"

    def expand(self, data: Dataset) -> tuple[Dataset, Goal]:
        return data, self

    def take(self, rows: Tensor) -> Goal:
        """The goal for some rows of the data set.

        Args:
            rows: Positions of the rows.

        Returns:
            A goal in which what belongs to a row has moved with it; this one where nothing does.
        """
        return self

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        """The classes that count as a success, for each row.

        Args:
            y: True classes (n,).
            clean: Logits on the clean inputs (n, C).
            index: Positions of the rows in the data set (n,).
            names: Names of the classes, where they have any.

        Returns:
            (n, C) bool; a row without any true entry is left out.
        """
        ...


def reached(
    logits: Tensor, targets: Tensor, slack: float = 0.0, margin: Tensor | None = None
) -> Tensor:
    """Rows whose arg-max lies inside `targets`, by more than rounding (`slack`, relative).

    `margin` is their `gap`, where it is known already.
    """
    if slack == 0.0:
        return targets.gather(1, logits.argmax(1, keepdim=True))[:, 0]
    margin = gap(logits, targets) if margin is None else margin
    return margin > slack * logits.abs().amax(1)


def gap(logits: Tensor, targets: Tensor) -> Tensor:
    """Best logit inside `targets` minus best outside: positive where the goal is reached."""
    low = torch.finfo(logits.dtype).min
    best = logits.masked_fill(~targets, low).amax(1)
    return best - logits.masked_fill(targets, low).amax(1)


def class_index(c: int | str, count: int, names: Names) -> int:
    """A class by its number or name, as a number; refused where there is no such class."""
    if isinstance(c, str):
        if names is None:
            raise DurometerError(f"goal names class '{c}', but the data has no class names")
        if c not in names:
            raise DurometerError(f"goal names class '{c}'{nearest(c, names)}")
        return list(names).index(c)
    if isinstance(c, bool) or not hasattr(c, "__index__"):
        raise DurometerError(f"goal names class {c!r}: expected an index or a name")
    if not 0 <= int(c) < count:
        raise DurometerError(f"goal names class {c}, but the model has classes 0..{count - 1}")
    return int(c)
