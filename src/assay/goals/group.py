"""Group: a goal as a relation between classes, S -> T_s (group-based robustness, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from assay.errors import AssayError
from assay.goals.goal import Goal, Names, _class


@dataclass(frozen=True)
class Group(Goal):
    """A relation S -> T_s: `{source: [targets]}`, by class index or name.

    Sources that are not named have nothing to fear and their rows are left out.

    >>> slow = Group({"120": ["stop", "20"], "20": ["stop"]})
    """

    loss: ClassVar[str] = "mdmul"  # decided on several architectures: docs/groups.md
    relation: Mapping[Any, Sequence[Any]]

    @property
    def in_words(self) -> str:
        """What the attacker wants, as a sentence."""
        pairs = [f"{s} for {' or '.join(str(t) for t in ts)}" for s, ts in self.relation.items()]
        return f"It wins where the model takes {', '.join(pairs)}."

    def allowed(self, count: int, names: Names = None) -> Tensor:
        """The relation as a matrix (C, C): may class s be pushed to class t?"""
        if not isinstance(self.relation, Mapping):
            raise AssayError(f"Group({self.relation!r}): expected {{source: [targets]}}")
        if not self.relation:
            raise AssayError("Group() got an empty relation; name at least one source class")
        matrix = torch.zeros(count, count, dtype=torch.bool)
        for source, wanted in self.relation.items():
            if isinstance(wanted, str | int):
                raise AssayError(f"Group(): targets of {source!r} must be a list, got {wanted!r}")
            s = self._source(source, count, names)
            for t in wanted:
                if _class(t, count, names) == s:
                    raise AssayError(f"Group(): class {source!r} is named as its own target")
                matrix[s, _class(t, count, names)] = True
        return matrix

    @staticmethod
    def _source(source: int | str, count: int, names: Names) -> int:
        """TOML and JSON keys are text: '3' is class 3 unless a class has that name."""
        if isinstance(source, str) and source.isdigit() and source not in (names or ()):
            source = int(source)
        return _class(source, count, names)

    def aims(self, count: int, names: Names = None) -> dict[str, Any]:
        return {"aims": self.allowed(count, names).any(0).nonzero()[:, 0].tolist()}

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        return self.allowed(clean.shape[1], names).to(y.device)[y]
