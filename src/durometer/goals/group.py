"""Group: a goal as a relation between classes, S -> T_s (group-based robustness, section 3), or as
a matrix of what each confusion costs.

A price is asked level by level: `Group(cost=, least=v)` is the relation of all confusions that cost
v or more, and every attack and every proof takes it as it takes any relation. What a row can cost
lies between the dearest confusion that was reached and the dearest that was not proven out of
reach. Climbing the expected cost of one softmax would stop where a cheap confusion is likely.

What a reader would get wrong: with a thousand classes the relation has half a million pairs. It is
read source by source, never pair by pair, and a batch reads only the sources it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.goals.goal import Aims, Goal, Names, class_index

_NAMED = 6  # sources, and targets of each, that a sentence names
Prices = Mapping[Any, Mapping[Any, float]] | Sequence[Sequence[float]]


@noun
class Group(Goal):
    """The attacker wants certain target classes, depending on the true class (group-based
    robustness, Lin et al., NDSS 2024).

    The goal implies the loss "mdmul". Rows of classes that are no source are left out. With `cost=`
    each confusion has a price: `evaluate` then plays every price as a goal of its own, and
    `report.metric("harm")` and `metric("harm_most")` say what a row costs at least and at most.

    Args:
        relation: Source class -> list of target classes, by index or name. None: `cost` says it.
        cost: What it costs that a row of one class is taken for another: {source: {target: price}},
            or a square matrix with a line per true class. What is not named, and what is right,
            costs 0. None: `relation` says which confusions count, and none is dearer.
        least: With `cost`: only confusions of at least this price count. None: all that cost
            anything, with the dearer ones played beside.

    Raises:
        DurometerError: Both or neither of `relation` and `cost` are given, or a price is no finite
            number of at least 0.

    >>> import torch
    >>> import durometer as du
    >>> slower = du.Group({"120": ["stop", "20"], "20": ["stop"]})
    >>> slower.allowed(3, ["120", "20", "stop"])
    tensor([[False,  True,  True],
            [False, False,  True],
            [False, False, False]])
    >>> priced = du.Group(cost={"ill": {"well": 50, "unclear": 5}, "well": {"ill": 1}}, least=5)
    >>> priced.allowed(3, ["ill", "unclear", "well"])
    tensor([[False,  True,  True],
            [False, False, False],
            [False, False, False]])
    """

    loss: ClassVar[str] = "mdmul"  # decided on several architectures: docs/how-to/groups.md
    relation: Mapping[Any, Sequence[Any]] | None = None
    cost: Prices | None = None
    least: float | None = field(default=None, metadata={"above": 0})

    def __post_init__(self) -> None:
        given: object = self.cost
        if isinstance(given, np.ndarray):
            object.__setattr__(self, "cost", tuple(map(tuple, given.tolist())))
        if self.cost is not None and self.relation is not None:
            raise DurometerError("Group got relation= and cost=: the prices say what counts")
        if self.cost is None and self.relation is None:
            raise DurometerError("Group() needs a relation, {source: [targets]}, or cost=")
        if self.cost is None and self.least is not None:
            raise DurometerError(f"Group(least={self.least:g}) counts prices: give cost=, too")
        if self.cost is None:
            return
        for source, target, price in _priced(self.cost):
            number = isinstance(price, int | float) and not isinstance(price, bool)
            if not number or not 0 <= price < float("inf"):
                raise DurometerError(
                    f"Group(cost=): {source!r} taken for {target!r} costs {price!r}; expected a "
                    "finite number of at least 0"
                )
        if not self.prices_named:
            raise DurometerError("Group(cost=): no confusion costs anything")

    @property
    def description(self) -> str:
        """What the attacker wants, as a sentence."""
        pairs = (f"{s} for {_listed(ts, ' or ')}" for s, ts in self.wanted.items())
        wins = f"It wins where the model takes {_listed(pairs, ', ', len(self.wanted))}."
        if self.cost is None:
            return wins
        dear = f", which costs {self.least:g} or more" if self.least is not None else ""
        return f"{wins[:-1]}{dear or '; each confusion has its price'}."

    @property
    def wanted(self) -> Mapping[Any, Sequence[Any]]:
        """Source -> targets: the relation, or the confusions that cost anything (`least` or more).

        >>> Group(cost=[[0, 3], [0, 0]]).wanted
        {0: [1]}
        """
        if self.cost is None:
            return {} if self.relation is None else self.relation
        found: dict[Any, list[Any]] = {}
        for source, target, price in _priced(self.cost):
            if price > 0 and price >= (self.least or 0):
                found.setdefault(source, []).append(target)
        return found

    @property
    def prices_named(self) -> list[float]:
        """The prices other than 0, each once, the cheapest first.

        >>> Group(cost={0: {1: 5, 2: 1}, 1: {2: 5}}).prices_named
        [1.0, 5.0]
        """
        said = () if self.cost is None else _priced(self.cost)
        return sorted({float(price) for _, _, price in said if price > 0})

    def prices(self, count: int, names: Names = None) -> np.ndarray:
        """What each confusion costs, as a matrix (C, C) of true and predicted class.

        Args:
            count: Number of classes C.
            names: Names of the classes. None: the prices must use indices.

        Raises:
            DurometerError: There is no such class, or what is right has a price.
        """
        matrix = np.zeros((count, count))
        number = {name: i for i, name in reversed(list(enumerate(names or ())))}
        for source, target, price in _priced(self.cost or {}):
            if price > 0:
                s, t = (_source(c, count, names, number) for c in (source, target))
                matrix[s, t] = price
        if np.diag(matrix).any():
            wrong = int(np.diag(matrix).nonzero()[0][0])
            raise DurometerError(
                f"Group(cost=): class {names[wrong] if names else wrong} costs "
                f"{matrix[wrong, wrong]:g} where it is right; expected 0"
            )
        return matrix

    def further(self, y: Tensor, count: int, names: Names = None) -> Mapping[str, Group]:
        """The dearer prices, each as a goal to be played beside this one; see `extend.Levelled`.

        Args:
            y: True classes of the rows (n,).
            count: Number of classes.
            names: Names of the classes, where they have any.
        """
        if self.cost is None or self.least is not None:
            return {}
        mine = self.prices(count, names)[np.unique(y.cpu().numpy())]
        levels = [v for v in self.prices_named[1:] if (mine >= v).any()]
        return {f"cost_at_least_{v:g}": replace(self, least=v) for v in levels}

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
        relation = self.wanted
        if not isinstance(relation, Mapping):
            raise DurometerError(f"Group({relation!r}): expected {{source: [targets]}}")
        if not relation:
            raise DurometerError("Group() got an empty relation; name at least one source class")
        number = {name: i for i, name in reversed(list(enumerate(names or ())))}
        row = {c: k for k, c in enumerate(classes)}
        matrix = np.zeros((len(row), count), dtype=bool)
        for source, wanted in relation.items():
            if isinstance(wanted, str | int):
                raise DurometerError(
                    f"Group(): targets of {source!r} must be a list, got {wanted!r}"
                )
            s = _source(source, count, names, number)
            if s not in row:
                continue
            if self.cost is not None:  # prices are keys of a table: text in TOML and JSON
                wanted = [_source(t, count, names, number) for t in wanted]
            matrix[row[s], _indices(wanted, count, names, number)] = True
            if matrix[row[s], s]:
                raise DurometerError(f"Group(): class {source!r} is named as its own target")
        return torch.from_numpy(matrix)


def _priced(cost: Prices) -> Iterator[tuple[Any, Any, float]]:
    """(source, target, price) of all that is named."""
    lines = cost.items() if isinstance(cost, Mapping) else enumerate(cost)
    for source, line in lines:
        if isinstance(line, str | int | float) or not hasattr(line, "__len__"):
            raise DurometerError(
                f"Group(cost=): the prices of {source!r} must be {{target: price}} or a line of the"
                f" matrix, got {line!r}"
            )
        if not isinstance(cost, Mapping) and len(line) != len(cost):
            raise DurometerError(
                f"Group(cost=): the line of class {source} has {len(line)} prices; expected "
                f"{len(cost)}, one per class"
            )
        pairs = line.items() if isinstance(line, Mapping) else enumerate(line)
        yield from ((source, target, price) for target, price in pairs)


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
