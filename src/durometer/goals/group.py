"""Group: a goal as a relation between classes, S -> T_s (group-based robustness, section 3).

What a reader would get wrong: with a thousand classes the relation has half a million pairs. It is
read source by source, never pair by pair, and a batch reads only the sources it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.goals.goal import Aims, Goal, Names, class_index

_NAMED = 6  # sources, and targets of each, that a sentence names


@noun
class Group(Goal):
    """The attacker wants certain target classes, depending on the true class (group-based
    robustness, Lin et al., NDSS 2024).

    The goal implies the loss "mdmul". Rows of classes that are no source are left out.

    Args:
        relation: Source class -> list of target classes, by index or name.

    >>> import torch
    >>> import durometer as du
    >>> slower = du.Group({"120": ["stop", "20"], "20": ["stop"]})
    >>> slower.allowed(3, ["120", "20", "stop"])
    tensor([[False,  True,  True],
            [False, False,  True],
            [False, False, False]])
    """

    loss: ClassVar[str] = "mdmul"  # decided on several architectures: docs/how-to/groups.md
    relation: Mapping[Any, Sequence[Any]]

    @property
    def description(self) -> str:
        """What the attacker wants, as a sentence."""
        pairs = (f"{s} for {_listed(ts, ' or ')}" for s, ts in self.relation.items())
        return f"It wins where the model takes {_listed(pairs, ', ', len(self.relation))}."

    def allowed(self, count: int, names: Names = None) -> Tensor:
        """The relation as a matrix (C, C) bool: may a row of class s be pushed to class t?

        Args:
            count: Number of classes C.
            names: Names of the classes. None: the relation must use indices.

        Raises:
            DurometerError: There is no such class, or a class is its own target.
        """
        return self._of(range(count), count, names)

    def aims(self, count: int, names: Names = None) -> Aims:
        return Aims(tuple(self.allowed(count, names).any(0).nonzero()[:, 0].tolist()))

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        sources, place = np.unique(y.cpu().numpy(), return_inverse=True)
        matrix = self._of(sources.tolist(), clean.shape[1], names)
        return matrix[torch.from_numpy(place)].to(y.device)

    def _of(self, classes: Iterable[int], count: int, names: Names) -> Tensor:
        """(len(classes), C): the rows of the relation's matrix that belong to these classes."""
        if not isinstance(self.relation, Mapping):
            raise DurometerError(f"Group({self.relation!r}): expected {{source: [targets]}}")
        if not self.relation:
            raise DurometerError("Group() got an empty relation; name at least one source class")
        number = {name: i for i, name in reversed(list(enumerate(names or ())))}
        row = {c: k for k, c in enumerate(classes)}
        matrix = np.zeros((len(row), count), dtype=bool)
        for source, wanted in self.relation.items():
            if isinstance(wanted, str | int):
                raise DurometerError(
                    f"Group(): targets of {source!r} must be a list, got {wanted!r}"
                )
            s = _source(source, count, names, number)
            if s not in row:
                continue
            matrix[row[s], _indices(wanted, count, names, number)] = True
            if matrix[row[s], s]:
                raise DurometerError(f"Group(): class {source!r} is named as its own target")
        return torch.from_numpy(matrix)


def _source(source: int | str, count: int, names: Names, number: Mapping[str, int]) -> int:
    """TOML and JSON keys are text: '3' is class 3 unless a class has that name."""
    if isinstance(source, str) and source in number:
        return number[source]
    if isinstance(source, str) and source.isdigit():
        source = int(source)
    return class_index(source, count, names)


def _indices(
    wanted: Sequence[Any], count: int, names: Names, number: Mapping[str, int]
) -> np.ndarray:
    """Classes by index or name as indices, all at once where all are good."""
    kinds = set(map(type, wanted))
    if kinds <= {int}:
        found = np.fromiter(wanted, np.int64, len(wanted))
        if not len(found) or (found.min() >= 0 and found.max() < count):
            return found
    elif kinds <= {str} and all(t in number for t in wanted):
        return np.fromiter((number[t] for t in wanted), np.int64, len(wanted))
    return np.array([class_index(t, count, names) for t in wanted], dtype=np.int64)


def _listed(things: Iterable[Any], between: str, count: int | None = None) -> str:
    """The first few of them, and how many there are beside."""
    if count is None:
        things = list(things)
        count = len(things)
    first = [str(thing) for thing, _ in zip(things, range(_NAMED), strict=False)]
    return between.join(first) + (f" and {count - _NAMED} more" if count > _NAMED else "")
