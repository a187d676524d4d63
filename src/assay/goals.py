"""Goals: what counts as success, as a relation between the true class and the predicted class.

A goal says, for each row, which classes the attacker may land in: `targets(y, clean, index)` is a
mask (n, C). Everything else follows from the mask: success is an arg-max inside it, every loss is a
function of (logits, mask), and a row with an empty mask has nothing to fear and is left out.

A `Quota` is more than a mask: a band of attackers must pass for `k` different targets together. Its
facts are the pairs (row, target), each a targeted attack; `assay.quota` computes the rest.

A reject option is one more class: name it with `reject=`, and landing there is never a success.
What a reader would get wrong: a goal other than untargeted is *not* reached by "any wrong class".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from assay.data import Dataset
from assay.errors import AssayError, nearest
from assay.streams import Stream

Names = Sequence[str] | None
AS = " as "  # the id of a pair: "s7/8 as s3"


@runtime_checkable
class Goal(Protocol):
    """Which classes the attacker may land in, row by row.

    `loss` names the loss the goal implies. It belongs to the goal and not to the rows at hand, or
    a row could be steered differently in another batch.
    """

    loss: ClassVar[str]

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        """(n, C) bool. `clean`: clean logits; `index`: the rows' places in the data set."""
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


def _class(c: int | str, count: int, names: Names) -> int:
    if isinstance(c, str):
        if names is None:
            raise AssayError(f"goal names class '{c}', but the data has no class names")
        if c not in names:
            raise AssayError(f"goal names class '{c}'{nearest(c, names)}")
        return list(names).index(c)
    if not 0 <= int(c) < count:
        raise AssayError(f"goal names class {c}, but the model has classes 0..{count - 1}")
    return int(c)


@dataclass(frozen=True)
class untargeted:
    """Any class but the true one (and but `reject`, where the model has such a class)."""

    loss: ClassVar[str] = "ce"
    reject: int | str | None = None

    def __repr__(self) -> str:
        return "untargeted()" if self.reject is None else f"untargeted(reject={self.reject!r})"

    @property
    def in_words(self) -> str:
        """What the attacker wants, as a sentence."""
        return "It wins where the predicted class is wrong."

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        mask = torch.ones_like(clean, dtype=torch.bool).scatter_(1, y[:, None], False)
        if self.reject is not None:
            mask[:, _class(self.reject, clean.shape[1], names)] = False
        return mask


@dataclass(frozen=True)
class targeted:
    """One class for all rows, or one per row of the data set (indices or names).

    A row whose true class is its target has nothing to reach and is left out.
    """

    loss: ClassVar[str] = "ce"
    target: int | str | Sequence[int | str]

    @property
    def in_words(self) -> str:
        """What the attacker wants, as a sentence."""
        aim = f"class {self.target}" if isinstance(self.target, int | str) else "its own target"
        return f"It wins where the predicted class is {aim}."

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        count = clean.shape[1]
        if isinstance(self.target, int | str):
            t = torch.full_like(y, _class(self.target, count, names))
        else:
            if not hasattr(self.target, "__len__"):
                raise AssayError(f"targeted({self.target!r}): expected a class, or one per row")
            if int(index.max()) >= len(self.target):
                raise AssayError(
                    f"targeted() got {len(self.target)} targets, but the data has a row "
                    f"{int(index.max())}; give one target per row, or a single one"
                )
            wanted = np.asarray(self.target).tolist()
            t = torch.tensor([_class(wanted[i], count, names) for i in index.tolist()])
            t = t.to(y.device)
        mask = torch.zeros_like(clean, dtype=torch.bool).scatter_(1, t[:, None], True)
        return mask.scatter_(1, y[:, None], False)

    def take(self, rows: Tensor) -> targeted:
        """The goal of the data set's rows at these places: one target per row moves with its row.

        >>> targeted((2, 0, 1)).take(torch.tensor([2, 0]))
        targeted(target=(1, 2))
        """
        if isinstance(self.target, int | str):
            return self
        wanted = np.asarray(self.target).tolist()
        if len(wanted) <= int(rows.max()):
            return self  # too few: `targets` says so
        return targeted(tuple(wanted[i] for i in rows.tolist()))


@dataclass(frozen=True)
class random_target:
    """One wrong class per row, drawn uniformly: the targeted robustness of the papers.

    The draw depends on the seed and the row's place in the data set.
    """

    loss: ClassVar[str] = "md"
    seed: int = 0

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        rows, count = torch.arange(len(y)), clean.shape[1]
        shift = 1 + Stream(self.seed, index.cpu()).integers(rows, 1, count - 1).to(y.device)
        t = (y[:, None] + shift) % count
        return torch.zeros_like(clean, dtype=torch.bool).scatter_(1, t, True)


@dataclass(frozen=True)
class least_likely:
    """The class the model finds least likely on the clean input."""

    loss: ClassVar[str] = "ce"

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        t = clean.scatter(1, y[:, None], torch.finfo(clean.dtype).max).argmin(1, keepdim=True)
        return torch.zeros_like(clean, dtype=torch.bool).scatter_(1, t, True)


@dataclass(frozen=True)
class group:
    """A relation S -> T_s: `{source: [targets]}`, by class index or name.

    Sources that are not named have nothing to fear and their rows are left out.

    >>> slow = group({"120": ["stop", "20"], "20": ["stop"]})
    """

    loss: ClassVar[str] = "lse"  # odds is behind it, mdmul undecided: docs/groups.md
    relation: Mapping[Any, Sequence[Any]]

    @property
    def in_words(self) -> str:
        """What the attacker wants, as a sentence."""
        pairs = [f"{s} for {' or '.join(str(t) for t in ts)}" for s, ts in self.relation.items()]
        return f"It wins where the model takes {', '.join(pairs)}."

    def allowed(self, count: int, names: Names = None) -> Tensor:
        """The relation as a matrix (C, C): may class s be pushed to class t?"""
        if not isinstance(self.relation, Mapping):
            raise AssayError(f"group({self.relation!r}): expected {{source: [targets]}}")
        if not self.relation:
            raise AssayError("group() got an empty relation; name at least one source class")
        matrix = torch.zeros(count, count, dtype=torch.bool)
        for source, wanted in self.relation.items():
            if isinstance(wanted, str | int):
                raise AssayError(f"group(): targets of {source!r} must be a list, got {wanted!r}")
            s = self._source(source, count, names)
            for t in wanted:
                if _class(t, count, names) == s:
                    raise AssayError(f"group(): class {source!r} is named as its own target")
                matrix[s, _class(t, count, names)] = True
        return matrix

    @staticmethod
    def _source(source: int | str, count: int, names: Names) -> int:
        """TOML and JSON keys are text: '3' is class 3 unless a class has that name."""
        if isinstance(source, str) and source.isdigit() and source not in (names or ()):
            source = int(source)
        return _class(source, count, names)

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        return self.allowed(clean.shape[1], names).to(y.device)[y]


@dataclass(frozen=True)
class Quota:
    """A band of attackers, one input of each source class, must pass for `k` different targets.

    Without `reuse` every attacker may be used once (all are seen at the same time). At least
    `least` of the `k` must be among the `managers`, where there are any.

    >>> vault = Quota(k=3, sources=("s1", "s2", "s3"), targets=("s7", "s8", "s9"), reuse=False)
    """

    loss: ClassVar[str] = "ce"
    k: int = 1
    sources: Sequence[int | str] = ()
    targets: Sequence[int | str] = ()
    reuse: bool = True
    managers: Sequence[int | str] = ()
    least: int = 1

    @property
    def in_words(self) -> str:
        """What the attackers want, as a sentence."""
        again = "may be used again" if self.reuse else "is used once"
        return (
            f"A band of {len(self.sources)}, one input each, wins when it passes for {self.k} of "
            f"{len(self.targets)} targets; an attacker {again}."
        )

    def __post_init__(self) -> None:
        for field in ("sources", "targets", "managers"):
            if isinstance(getattr(self, field), int | str):
                raise AssayError(f"Quota({field}={getattr(self, field)!r}): expected a list")
        for field in ("k", "least"):
            count = getattr(self, field)
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise AssayError(f"Quota({field}={count!r}): expected a whole number from 1 on")
        self._check(self.sources, self.targets, self.managers)

    def _check(
        self, sources: Sequence[Any], targets: Sequence[Any], managers: Sequence[Any]
    ) -> None:
        """Refuse a quota nobody can fill or that contradicts itself."""
        both = set(sources) & set(targets)
        for wrong, text in (
            (not sources or not targets, "name at least one source and target"),
            (
                any(len(set(c)) < len(c) for c in (sources, targets, managers)),
                "a class is named twice",
            ),
            (both, f"class {sorted(both, key=str)} is both a source and a target"),
            (self.k > len(set(targets)), f"k={self.k}: expected 1..the targets"),
            (not self.reuse and self.k > len(set(sources)), f"k={self.k} > the sources"),
            (not set(managers) <= set(targets), "a manager must be a target"),
            (
                managers and self.least > min(self.k, len(set(managers))),
                f"least={self.least}: too many",
            ),
        ):
            if wrong:
                raise AssayError(f"Quota: {text}; got {self!r}")

    def rule(self, count: int, names: Names = None) -> dict[str, Any]:
        """The quota in class indices, as plain values, checked."""
        number = {
            field: [_class(c, count, names) for c in getattr(self, field)]
            for field in ("sources", "targets", "managers")
        }
        self._check(**number)  # once more: a class may be given by its name and by its number
        return {
            "k": self.k,
            "reuse": self.reuse,
            "least": self.least if self.managers else 0,
        } | number

    def pairs(self, data: Dataset) -> tuple[Dataset, targeted]:
        """Every row of a source once per target, then the other rows once, without a target."""
        named = [c for c in (*self.sources, *self.targets) if isinstance(c, int)]
        count = len(data.classes) if data.classes else 1 + max([int(data.y.max()), *named])
        rule = self.rule(count, data.classes)
        wanted = torch.tensor(rule["targets"])
        attackers = torch.isin(data.y, torch.tensor(rule["sources"]))
        if not bool(attackers.any()):
            raise AssayError(f"no row of this data is of a source class of {self!r}")
        mine, others = attackers.nonzero()[:, 0], (~attackers).nonzero()[:, 0]
        rows = torch.cat([mine.repeat_interleave(len(wanted)), others])
        # A row whose true class is its target has nothing to reach and is left out of the game.
        aims = torch.cat([wanted.repeat(len(mine)), data.y[others]])
        name = data.classes or [str(c) for c in range(count)]
        ids = [str(data.ids[i]) for i in rows.tolist()]
        for k in range(len(mine) * len(wanted)):
            ids[k] += f"{AS}{name[int(aims[k])]}"
        expanded = replace(data, x=data.x[rows], y=data.y[rows], ids=np.array(ids))
        return expanded, targeted(tuple(aims.tolist()))
