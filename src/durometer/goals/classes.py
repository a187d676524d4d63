"""Goals named by single classes: any wrong one, a given one, a random one, the least likely one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.core.streams import Stream
from durometer.core.validation import noun
from durometer.goals.goal import Goal, Names, class_index


@noun
class Untargeted(Goal):
    """The attacker wants any class but the true one.

    Args:
        reject: Index or name of the class that means "no answer"; reaching it is no success. None:
            there is no such class.

    >>> import torch
    >>> import durometer as du
    >>> du.Untargeted().targets(torch.tensor([0]), torch.zeros(1, 3), torch.tensor([0]))
    tensor([[False,  True,  True]])
    """

    reject: int | str | None = field(default=None, metadata={"least": 0})

    def __repr__(self) -> str:
        return "Untargeted()" if self.reject is None else f"Untargeted(reject={self.reject!r})"

    @property
    def description(self) -> str:
        """What the attacker wants, as a sentence."""
        return "It wins where the predicted class is wrong."

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        mask = torch.ones_like(clean, dtype=torch.bool).scatter_(1, y[:, None], False)
        if self.reject is not None:
            mask[:, class_index(self.reject, clean.shape[1], names)] = False
        return mask


@noun
class Targeted(Goal):
    """The attacker wants a given class.

    Rows whose true class is their target are left out.

    Args:
        target: The class, by index or name: one for all rows, or a sequence with one per row of the
            data set.

    >>> import torch
    >>> import durometer as du
    >>> clean = torch.zeros(2, 3)
    >>> du.Targeted(2).targets(torch.tensor([0, 2]), clean, torch.arange(2))
    tensor([[False, False,  True],
            [False, False, False]])
    """

    target: int | str | Sequence[int | str] = field(metadata={"least": 0})

    @property
    def description(self) -> str:
        """What the attacker wants, as a sentence."""
        aim = f"class {self.target}" if isinstance(self.target, int | str) else "its own target"
        return f"It wins where the predicted class is {aim}."

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        count = clean.shape[1]
        if isinstance(self.target, int | str):
            t = torch.full_like(y, class_index(self.target, count, names))
        else:
            if not hasattr(self.target, "__len__"):
                raise DurometerError(f"Targeted({self.target!r}): expected a class, or one per row")
            if int(index.max()) >= len(self.target):
                raise DurometerError(
                    f"Targeted() got {len(self.target)} targets, but the data has a row "
                    f"{int(index.max())}; give one target per row, or a single one"
                )
            t = torch.tensor([class_index(c, count, names) for c in self._at(index)]).to(y.device)
        mask = torch.zeros_like(clean, dtype=torch.bool).scatter_(1, t[:, None], True)
        return mask.scatter_(1, y[:, None], False)

    def take(self, rows: Tensor) -> Targeted:
        """The goal for some rows of the data set; a target per row moves with its row.

        Args:
            rows: Positions of the rows.

        >>> Targeted((2, 0, 1)).take(torch.tensor([2, 0]))
        Targeted(target=(1, 2))
        """
        if isinstance(self.target, int | str):
            return self
        if len(self.target) <= int(rows.max()):
            return self  # too few: `targets` says so
        return Targeted(tuple(self._at(rows)))

    def _at(self, rows: Tensor) -> list[int | str]:
        """The targets of these rows only: there may be a million others."""
        if isinstance(self.target, list | tuple):
            return [self.target[i] for i in rows.tolist()]
        try:
            wanted: list[int | str] = np.asarray(self.target)[rows.cpu().numpy()].tolist()
        except (TypeError, ValueError, RuntimeError) as error:
            raise DurometerError(f"Targeted({type(self.target).__name__}): {error}") from None
        return wanted


@noun
class RandomTarget(Goal):
    """The attacker wants one wrong class per row, drawn uniformly.

    The draw depends on the seed and on the row's position in the data set. The goal implies the
    loss "md".

    Args:
        seed: Seed of the draw.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net, data, space=du.Linf(0.1), goal=du.RandomTarget(), attack=du.PGD(5)
    ... ).metric("robust").value
    0.5625
    """

    loss: ClassVar[str] = "md"
    seed: int = 0

    @property
    def description(self) -> str:
        """What the attacker wants, as a sentence."""
        return "It wins where the predicted class is the one drawn for the input."

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        rows, count = torch.arange(len(y)), clean.shape[1]
        shift = 1 + Stream(self.seed, index.cpu(), purpose="target").integers(
            rows, 1, count - 1
        ).to(y.device)
        t = (y[:, None] + shift) % count
        return torch.zeros_like(clean, dtype=torch.bool).scatter_(1, t, True)


@noun
class LeastLikely(Goal):
    """The attacker wants the class that the model finds least likely on the clean input.

    >>> import torch
    >>> import durometer as du
    >>> clean = torch.tensor([[0.2, 0.7, 0.1]])
    >>> du.LeastLikely().targets(torch.tensor([1]), clean, torch.tensor([0]))
    tensor([[False, False,  True]])
    """

    @property
    def description(self) -> str:
        """What the attacker wants, as a sentence."""
        return "It wins where the predicted class is the one that seemed least likely."

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        t = clean.scatter(1, y[:, None], torch.finfo(clean.dtype).max).argmin(1, keepdim=True)
        return torch.zeros_like(clean, dtype=torch.bool).scatter_(1, t, True)
