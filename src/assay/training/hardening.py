"""harden(): refit trees against their exact counterexamples, round after round.

    fit; find the counterexample of every training row an attacker would start from (`decide`: found
    or proven, milliseconds a row); add all found so far with their true label, together weighing as
    much as the attacked rows; fit again, from scratch, the user's own estimator with its parameters

Every round is judged on rows held out from all of it: accuracy by class, and the shares proven,
broken and open, which are exact. The path is a trade; `max_loss` or `min_proven` says which round.

What a reader would get wrong: progress is not monotone from round to round (a new ensemble has new
holes), so the last round is rarely the best. And a model that has retreated to features nobody can
change is robust without having learnt anything: `vacuous` is the share of proofs that would hold at
any size of the region, and `unmovable` what such a model scores, the line any hardening must beat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from assay.data import Dataset
from assay.errors import AssayError, Unsupported
from assay.goals.classes import Untargeted
from assay.goals.goal import Goal
from assay.kernels.arrays import Bools, Floats, Ints
from assay.model.classifier import wrap
from assay.model.frames import fitted
from assay.proofs.search.asked import ensemble_of, own_classes
from assay.proofs.search.decide import Decision, decide
from assay.spaces.region import Space
from assay.training.holdout import holdout
from assay.training.refit import refit

FAR = 1e100  # a radius at which only what cannot move at all stays


@dataclass(frozen=True)
class Round:
    """One model on the held-out rows; the shares are of the rows an attacker would start from."""

    number: int
    accuracy: float
    recall: tuple[float, ...]  # accuracy within each class
    proven: float
    broken: float
    open: float
    vacuous: float  # of the proven rows
    counterexamples: int  # found on training rows so far

    def __str__(self) -> str:
        return (
            f"round {self.number:2d}  accuracy {self.accuracy:.3f} "
            f"({', '.join(f'{r:.3f}' for r in self.recall)})  proven {self.proven:.3f}  "
            f"broken {self.broken:.3f}  open {self.open:.3f}  vacuous {self.vacuous:.2f}"
        )


@dataclass(frozen=True, eq=False)
class Hardened:
    """The chosen model, the path to it, and what made the first one weak.

    >>> print(Hardened(None, 0, (), 100, 60, {"age": 0.5}, None))
    held out: 100 rows, 60 attacked
      weak by: age 0.50
    """

    model: Any
    chosen: int
    path: tuple[Round, ...]
    rows: int  # held out, of which `attacked` are those an attacker would start from
    attacked: int
    weak: dict[str, float]  # feature -> share of the first model's counterexamples that change it
    unmovable: tuple[float, float] | None  # accuracy and robust accuracy without movable features
    models: tuple[Any, ...] = field(repr=False, default=())

    def __str__(self) -> str:
        lines = [f"held out: {self.rows} rows, {self.attacked} attacked"]
        lines += [f"{'*' if r.number == self.chosen else ' '} {r}" for r in self.path]
        if self.unmovable is not None:
            accuracy, robust = self.unmovable
            lines.append(f"  with features nobody can move alone: {accuracy:.3f}, {robust:.3f}")
        top = sorted(self.weak.items(), key=lambda kv: -kv[1])[:6]
        lines.append("  weak by: " + ", ".join(f"{name} {share:.2f}" for name, share in top))
        return "\n".join(lines)


def harden(
    model: Any,
    data: Dataset,
    space: Space,
    goal: Goal | None = None,
    *,
    rounds: int = 15,
    max_loss: float | None = 0.015,
    min_proven: float | None = None,
    share: float = 0.25,
    most: int | None = None,
    keep: float = 1.0,
    curriculum: Sequence[float] = (1.0,),
    seconds: float = 1.0,
    seed: int = 0,
    progress: bool | None = None,
) -> Hardened:
    """Refit a fitted tree ensemble until no attacker of this `space` and `goal` finds much.

    `max_loss`: at most this much accuracy may be lost; of those rounds the one with the largest
    proven share is chosen. `min_proven` instead: the most accurate round that reaches it. A `share`
    of the rows is held out to judge by; `most` training rows are attacked a round; counterexamples
    lose weight by `keep` a round; `curriculum` are shares of eps for the first rounds.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import assay as ay
    >>> x = np.random.default_rng(0).random((300, 3))
    >>> y = (x[:, 0] + x[:, 1] > 1).astype(int)
    >>> forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(x, y)
    >>> hardened = ay.training.harden(forest, ay.Dataset(x, y), ay.Linf(0.05), rounds=2)
    >>> len(hardened.path)
    3
    """
    if rounds < 1:
        raise AssayError(f"harden(rounds={rounds}): expected at least 1")
    if not curriculum or any(not 0 < c <= 1 for c in curriculum):
        raise AssayError(f"curriculum={curriculum!r}: expected shares of eps, e.g. (0.25, 0.5, 1)")
    goal = Untargeted() if goal is None else goal
    train, held = holdout(data, share, seed)
    judge = _Judge(held, space, goal)
    pool = _Pool(train, space, goal, most, seed)
    bar = _bar(rounds, progress)
    first = refit(model, train)  # the model as given may have seen the rows held out
    models, path, weak = [first], [judge(first, 0, 0)], {}
    with bar:
        for number in range(1, rounds + 1):
            size = curriculum[min(number - 1, len(curriculum) - 1)]
            found = pool.attack(models[-1], size, seconds, number)
            if number == 1:
                weak = pool.changed(found)
            if not len(found) and size == curriculum[-1]:
                break
            models.append(refit(model, train, *pool.rows(keep, number)))
            path.append(judge(models[-1], number, len(pool.x)))
            bar.advance(path[-1])
    chosen = _choice(path, max_loss, min_proven)
    return Hardened(
        models[chosen], chosen, tuple(path), len(held), judge.count, weak,
        _unmovable(model, train, judge), tuple(models),
    )  # fmt: skip


def counterexamples(
    model: Any, data: Dataset, space: Space, goal: Goal, seconds: float, size: float = 1.0
) -> Decision:
    """What is known of each row of the data, with a counterexample where it is broken."""
    classifier = fitted(wrap(model), data)
    ensemble = ensemble_of(classifier)
    count = ensemble.n_classes
    rows = torch.arange(len(data))
    mask = goal.targets(data.y, torch.zeros(len(data), count), rows, data.classes)
    if size < 1:
        eps = getattr(space, "eps", None)
        if eps is None:
            raise Unsupported(f"a curriculum shrinks eps, and {space!r} has none")
        space = replace(space, eps=eps * size)  # type: ignore[type-var]
    region = space.around(data.x)
    return decide(ensemble, region, own_classes(classifier, ensemble, mask.numpy()), seconds)


def attacked(data: Dataset, goal: Goal) -> Bools:
    """Rows that the goal gives a class to be pushed to."""
    count = len(data.classes or ()) or int(data.y.max()) + 1
    blank = torch.zeros(len(data), max(2, count))
    some: Bools = goal.targets(data.y, blank, torch.arange(len(data)), data.classes).any(1).numpy()
    return some


class _Judge:
    """Each round's model on the same held-out rows."""

    def __init__(self, held: Dataset, space: Space, goal: Goal) -> None:
        self.held, self.space, self.goal = held, space, goal
        self.mask = attacked(held, goal)
        self.count = int(self.mask.sum())
        if not self.count:
            raise AssayError(f"goal {goal!r}: no held-out row has any class to be pushed to")

    def __call__(self, model: Any, number: int, counterexamples_so_far: int) -> Round:
        held = self.held
        right = self.right(model)
        y = held.y.numpy()
        recall = tuple(float(right[y == c].mean()) for c in np.unique(y))
        part = held.take(self.mask)
        known = counterexamples(model, part, self.space, self.goal, 5.0)
        ensemble_proves = known.proven & right[self.mask]
        vacuous = self._vacuous(model, part.take(ensemble_proves)) if ensemble_proves.any() else 0.0
        return Round(
            number, float(right.mean()), recall, float(ensemble_proves.mean()),
            float((known.broken | ~right[self.mask]).mean()),
            float((known.open & right[self.mask]).mean()), vacuous, counterexamples_so_far,
        )  # fmt: skip

    def right(self, model: Any) -> Bools:
        """Held-out rows the model gets right."""
        classifier = fitted(wrap(model), self.held)
        answer: Bools = (classifier.logits(self.held.x).argmax(1) == self.held.y).numpy()
        return answer

    def _vacuous(self, model: Any, part: Dataset) -> float:
        classifier = fitted(wrap(model), part)
        ensemble = ensemble_of(classifier)
        blank = torch.zeros(len(part), ensemble.n_classes)
        mask = self.goal.targets(part.y, blank, torch.arange(len(part)), part.classes).numpy()
        far = np.full(len(part), FAR)
        known = decide(
            ensemble, self.space.around(part.x), own_classes(classifier, ensemble, mask), 0.05, far
        )
        return float(known.proven.mean())


class _Pool:
    """Counterexamples of all rounds so far, with the round each is from."""

    def __init__(
        self, train: Dataset, space: Space, goal: Goal, most: int | None, seed: int
    ) -> None:
        self.space, self.goal = space, goal
        part = train.take(attacked(train, goal))
        self.start = part if most is None or most >= len(part) else part.sample(most, seed)
        self.x = np.empty((0, train.x.shape[1]))
        self.y: Ints = np.empty(0, dtype=np.int64)
        self.round: Ints = np.empty(0, dtype=np.int64)
        self.names = train.columns.names if train.columns is not None else None

    def attack(self, model: Any, size: float, seconds: float, number: int) -> Floats:
        """New counterexamples of this model, as changes; they join the pool."""
        known = counterexamples(model, self.start, self.space, self.goal, seconds, size)
        at = np.flatnonzero(known.broken)
        self.x = np.concatenate([self.x, known.point[at]])
        self.y = np.concatenate([self.y, self.start.y.numpy()[at]])
        self.round = np.concatenate([self.round, np.full(len(at), number)])
        change: Floats = known.point[at] - self.start.x.double().numpy()[at]
        return change

    def rows(self, keep: float, number: int) -> tuple[Floats, Ints, Floats]:
        """What is added to the training rows, and its weights: in sum the attacked rows' own."""
        weight = keep ** (number - self.round).astype(float)
        total = weight.sum()
        scaled: Floats = weight * (len(self.start) / total) if total else weight
        return self.x, self.y, scaled

    def changed(self, change: Floats) -> dict[str, float]:
        """How many of the counterexamples change each feature."""
        if not len(change):
            return {}
        often = (change != 0).mean(0)
        names = self.names or [str(i) for i in range(len(often))]
        return {str(n): float(s) for n, s in zip(names, often, strict=True) if s > 0}


def _choice(path: list[Round], max_loss: float | None, min_proven: float | None) -> int:
    if min_proven is not None:
        enough = [r for r in path if r.proven >= min_proven]
        if enough:
            return max(enough, key=lambda r: r.accuracy).number
        return max(path, key=lambda r: r.proven).number
    floor = path[0].accuracy - (math.inf if max_loss is None else max_loss)
    return max((r for r in path if r.accuracy >= floor), key=lambda r: r.proven).number


def _unmovable(model: Any, train: Dataset, judge: _Judge) -> tuple[float, float] | None:
    """The same estimator with every feature blanked that the attacker can move on some row."""
    low, high = judge.space.around(train.x).box()
    still = (low >= high).all(0).numpy()
    if not still.any():
        return None
    blank = train.x.double().mean(0)

    def blanked(data: Dataset) -> Dataset:
        x = torch.where(torch.from_numpy(still), data.x.double(), blank)
        return replace(data, x=x.to(data.x.dtype), table=None)

    plain = refit(model, blanked(train))
    held = blanked(judge.held)
    right = (fitted(wrap(plain), held).logits(held.x).argmax(1) == held.y).numpy()
    return float(right.mean()), float(right[judge.mask].mean())


class _bar:  # noqa: N801
    """Rounds on the terminal, where somebody looks."""

    def __init__(self, rounds: int, wanted: bool | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("harden"), BarColumn(), TextColumn("{task.description}"),
                   TimeRemainingColumn())  # fmt: skip
        import sys

        shown = sys.stderr.isatty() if wanted is None else wanted
        self._progress = Progress(*columns, disable=not shown)
        self._task = self._progress.add_task("", total=rounds)

    def __enter__(self) -> None:
        self._progress.start()

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    def advance(self, done: Round) -> None:
        text = f"accuracy {done.accuracy:.3f}, proven {done.proven:.3f}"
        self._progress.update(self._task, advance=1, description=text)
