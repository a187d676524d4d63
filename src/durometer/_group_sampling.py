"""sample_groups(): Rob over random choices of who attacks (S) and whom they want to be (T).

A group goal is a choice of classes, and Rob depends on it. Lin et al. (NDSS 2024, figures 4 and
7-9) draw S and T at random, again and again, for several sizes, and show the range. Attacking anew
for every choice would cost as much as the choices are many; here every input is attacked towards
every class once, and every choice is read off that one table:

    Rob(S, T) = share of the inputs of S that reach no class of T               (a `Group`)
              = share of all bands of S that do not fill the quota, exactly     (`k`: a `Quota`)

What a reader would get wrong: this is best guess, a run per target, so Rob is the lowest the inner
attack can make it, and the intervals are over inputs of one choice. How much Rob moves from choice
to choice is the spread between rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from durometer._evaluate import evaluate
from durometer.attacks.base import Attack
from durometer.attacks.campaign import Campaign
from durometer.core.errors import DurometerError
from durometer.core.spec import QuotaRule
from durometer.core.streams import Stream
from durometer.data.dataset import Dataset
from durometer.goals.classes import Targeted
from durometer.goals.coalition_probability import Pairs
from durometer.goals.goal import class_index
from durometer.goals.quota import AS
from durometer.report.figures.groups import robustness
from durometer.report.report import Report
from durometer.report.stats import wilson

if TYPE_CHECKING:
    import pandas as pd

Sizes = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class GroupSamples:
    """The outcome of `sample_groups`: one row per choice of classes.

    Args:
        table: A data frame with one row per choice; see `sample_groups` for its columns.
        pairs: The report on all pairs (input, target class) from which the table was computed.
    """

    table: pd.DataFrame
    pairs: Report = field(repr=False)

    def __str__(self) -> str:
        head = ("sources", "targets", "choices", "least", "median", "most", "targeted")
        lines = ["  ".join(f"{h:>8}" for h in head) + "    Rob; robustness to one random target"]
        for (s, t), rows in self.table.groupby(["size_s", "size_t"]):
            rob = rows["rob"]
            cells = (rob.min(), rob.median(), rob.max(), rows["targeted"].mean())
            counts = "  ".join(f"{c:>8}" for c in (s, t, len(rows)))
            lines.append(f"{counts}  " + "  ".join(f"{c:8.3f}" for c in cells))
        return "\n".join(lines)


def sample_groups(
    target: Any,
    data: Dataset,
    sources: Sequence[int | str] | None = None,
    targets: Sequence[int | str] | None = None,
    *,
    sizes: Sizes,
    space: Any,
    attack: Attack,
    count: int = 75,
    k: int | None = None,
    reuse: bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> GroupSamples:
    """Robustness to group attacks for many random choices of source and target classes (Lin et al.,
    NDSS 2024, figures 4 and 7-9).

    Every input is attacked towards every possible target once; each choice of classes is then read
    off these results. The inner attack gets a full run per target ("best guess").

    Args:
        target: The classifier, of any kind that `wrap` takes.
        data: The rows to evaluate.
        sources: Classes that attackers may belong to, by index or name. None: all classes of the
            data.
        targets: Classes that attackers may want to be taken for. None: all classes.
        sizes: Pairs (number of sources, number of targets), e.g. `[(5, 5), (10, 10)]`.
        space: What the attacker may change.
        attack: The attack of one input towards one class, e.g. `PGD(20)`.
        count: How many choices to draw for each of `sizes`; 75 is the published number.
        k: None: a choice is a `Group`. A number: a choice is a `Quota`, in which one attacker per
            source class must together be taken for `k` of the targets.
        reuse: With `k`: whether one attacker may be taken for several targets.
        seed: Seed of the attacks and of the draws.
        progress: Whether to show a progress bar. None shows it in a terminal or a notebook only.

    Returns:
        A `GroupSamples`. Columns of its table: `size_s`, `size_t`, `sources`, `targets`, `rob`
            (robustness of the choice) with its 95 % interval `low`, `high` over `n` inputs,
            `accuracy` on the sources, `accuracy_on_targets`, and `targeted`: robustness of the same
            inputs to one target drawn at random.

    Raises:
        DurometerError: A class does not exist, or the sizes cannot be drawn from the classes.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> found = du.sample_groups(
    ...     net, data, sizes=[(1, 1), (1, 2)], space=du.Linf(0.1), attack=du.PGD(5), count=3
    ... )
    >>> found.table.groupby("size_t")["rob"].mean().round(2).to_dict()
    {1: 0.38, 2: 0.3}
    """
    for given in (sources, targets):
        if isinstance(given, int | str):
            raise DurometerError(f"sample_groups: {given!r} is one class; expected a list")
    classes = len(data.classes) if data.classes else int(data.y.max()) + 1
    start, end = (
        list(range(classes)) if given is None
        else [class_index(c, classes, data.classes) for c in given]
        for given in (sources, targets)
    )  # fmt: skip
    start = [s for s in start if bool((data.y == s).any())]
    _check(sizes, start, end, count, k, reuse)
    rows, aims = _expanded(data, start, end)
    goal = Targeted(tuple(aims.tolist()))
    report = evaluate(
        target, rows, space=space, goal=goal, attack=Campaign(attack), seed=seed, progress=progress
    )
    pairs, right = _pairs(report, end), _right(report)
    import pandas as pd

    lines = []
    for size in sizes:
        for s, t in _draw(start, end, size, count, seed):
            lines.append(_line(pairs, right, s, t, k, reuse, data.classes))
    return GroupSamples(pd.DataFrame(lines), report)


def _expanded(data: Dataset, start: list[int], end: list[int]) -> tuple[Dataset, torch.Tensor]:
    """Every row of a possible source once per possible target; other rows once, as they are."""
    mine = torch.isin(data.y, torch.tensor(start))
    index, aims = [], []
    for i in range(len(data)):
        wanted = [t for t in end if t != int(data.y[i])] if bool(mine[i]) else []
        index += [i] * max(1, len(wanted))
        aims += wanted or [int(data.y[i])]
    name = data.classes or [str(c) for c in range(max(end) + 1)]
    ids = [
        f"{data.ids[i]}{AS}{name[t]}" if t != int(data.y[i]) else str(data.ids[i])
        for i, t in zip(index, aims, strict=True)
    ]
    return data.rows(torch.tensor(index), np.array(ids)), torch.tensor(aims)


def _pairs(report: Report, end: list[int]) -> Pairs:
    """All inputs against all targets; a class is no target of its own inputs."""
    t = report.table[report.table["target"] >= 0]
    name = np.array([str(i).rpartition(AS)[0] for i in t["id"]])
    ids, first, row = np.unique(name, return_index=True, return_inverse=True)
    hits = np.zeros((len(ids), len(end)), bool)
    column = [end.index(int(c)) for c in t["target"]]
    hits[row, column] = t["success"].to_numpy()
    return Pairs(ids, t["y"].to_numpy()[first], tuple(end), hits, hits * 0.0)


def _right(report: Report) -> pd.DataFrame:
    """Each input once, by its class: was it recognised?"""
    t = report.table
    once = t.assign(name=[str(i).partition(AS)[0] for i in t["id"]]).drop_duplicates("name")
    return once.assign(right=once["clean"] == once["y"])[["y", "right"]]


def _draw(
    start: list[int], end: list[int], size: tuple[int, int], count: int, seed: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Choices without a class on both sides, from a stream of their own."""
    places = torch.arange(count)
    purpose = f"choices of {size[0]} and {size[1]}"
    draws = Stream(seed, places, purpose=purpose).uniform(places, len(start) + len(end))
    for row in draws.numpy():
        order = np.argsort(row[: len(start)])
        left = np.argsort(row[len(start) :])
        s = sorted(start[i] for i in order[: size[0]])
        t = sorted([end[j] for j in left if end[j] not in s][: size[1]])
        yield s, t


def _line(
    pairs: Pairs, right: pd.DataFrame, s: list[int], t: list[int], k: int | None, reuse: bool,
    names: Sequence[str] | None,
) -> dict[str, Any]:  # fmt: skip
    inputs = np.isin(pairs.source, s)
    columns = [pairs.targets.index(c) for c in t]
    part = Pairs(
        pairs.ids[inputs], pairs.source[inputs], tuple(t), pairs.hits[inputs][:, columns],
        pairs.scores[inputs][:, columns],
    )  # fmt: skip
    if k is None:
        held = np.asarray(~part.hits.any(axis=1))
        rob = wilson(int(held.sum()), len(held))
    else:
        rob = robustness(part, QuotaRule(k, reuse, sources=tuple(s), targets=tuple(t)))
    said = (lambda cs: tuple(names[c] for c in cs)) if names else tuple
    return {
        "size_s": len(s), "size_t": len(t), "sources": said(s), "targets": said(t),
        "rob": rob.value, "low": rob.low, "high": rob.high, "n": rob.n,
        "accuracy": float(right[right["y"].isin(s)]["right"].mean()),
        "accuracy_on_targets": float(right[right["y"].isin(t)]["right"].mean()),
        "targeted": 1 - float(part.hits.mean()),
    }  # fmt: skip


def _check(
    sizes: Any, start: list[int], end: list[int], count: int, k: int | None, reuse: bool
) -> None:
    if not isinstance(sizes, list | tuple) or not sizes:
        raise DurometerError(f"sizes={sizes!r}: expected pairs (sources, targets), e.g. [(5, 5)]")
    if not isinstance(count, int) or count < 1:
        raise DurometerError(f"count={count!r}: expected how many choices to draw, e.g. 75")
    common = len(set(start) & set(end))
    for size in sizes:
        if not isinstance(size, tuple | list) or len(size) != 2 or min(size) < 1:
            raise DurometerError(f"sizes: {size!r} is no pair (sources, targets), e.g. (5, 5)")
        s, t = size
        if s > len(start) or t > len(end) - min(s, common):
            raise DurometerError(
                f"sizes: {s} sources and {t} targets that are not among them cannot always be "
                f"drawn from {len(start)} classes with rows and {len(end)} to be taken for"
            )
        most = t if reuse else min(s, t)
        if k is not None and not 1 <= k <= most:
            raise DurometerError(f"k={k}: {s} sources can pass for 1 to {most} of {t} targets")
