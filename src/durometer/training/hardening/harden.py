"""harden(): refit a model until an attacker of this space and goal finds little.

    rank features by what they keep telling under attack (`retention`)
    for a share `free` of the trees in 0, .01, .02, .03, .04, .05, .07, .1, .2:
        the other trees, which come first, see only features that keep at least `retain` of it
        fit
    of these within the price, from the most proven on, and from the plain model at last:
        find counterexamples (exact, milliseconds a row); add them with their true label; refit

Every refit is the user's own estimator with its parameters, judged on rows held out from all of it:
accuracy by class, and the shares proven, broken and open, which are exact. The price (`max_loss` or
`min_proven`) chooses the round; `max_loss` is tested on rows that nothing before it looked at.

Measured against this on URL (docs/how-to/harden.md): repeating the refits on all features,
curricula in eps, ageing counterexamples, weighing them up, boosting against the running worst case.

What a reader would get wrong: progress is not monotone from round to round (a new ensemble has new
holes), so the last round is rarely the best. And a model that has retreated to features nobody can
change is robust without having learnt much: `vacuous` and `unmovable` say so.

A network has no parameters to be fitted anew with, only weights: each round starts from those that
were given, not from the last round's, so that a round is a function of its rows and the seed. Its
plans are weights of the worst case in certified training (`Certified`, with attacked rows as the
other part of the loss); one whose layers have no interval bounds gets counterexamples only.

Everything that can be refused is refused before the first fit. Model, data, space and goal are
refused as `evaluate` would refuse them with the proof that judges every round. On top of that the
model must be one that can be fitted anew with weights, and the rows must hold something to tell
apart.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from durometer.attacks.pgd import PGD
from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.data.dataset import Dataset
from durometer.games.static import Static
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Expandable, Goal
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.classifier import source_of
from durometer.proofs.linear import Linear
from durometer.proofs.trees import Exact
from durometer.spaces.region import Space
from durometer.training.adversarial import CraftBy
from durometer.training.certified import Certified, trainable
from durometer.training.hardening.checkpoint import Checkpoint
from durometer.training.hardening.counterexamples import (
    NETWORK_JUDGE,
    Pool,
    counterexamples,
    is_linear,
)
from durometer.training.hardening.explain import Explanation, leans_on, protected_by, weak_by
from durometer.training.hardening.judge import Judge
from durometer.training.hardening.path import Hardened, Prices, Round, choice
from durometer.training.hardening.refit import (
    checked,
    count,
    free_trees,
    last_step,
    refit,
    takes_weights,
)
from durometer.training.hardening.retention import retention
from durometer.training.holdout import holdout
from durometer.training.loop import Recipe, fit
from durometer.training.standard import Standard

Refit = Callable[..., Any]
KAPPAS = 0.1, 0.25, 0.5, 0.75, 0.9  # weights of the worst case in certified training
FREE = 0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.2, 1.0
BEST = 3  # starts from which counterexamples are added
BATCH = 128  # rows of an update of a network
PATIENCE = 6  # rounds beyond the price, one after the other, that end a climb


def harden(
    model: Any,
    data: Dataset,
    space: Space,
    goal: Goal | None = None,
    *,
    max_loss: float | Mapping[str, float] | None = 0.015,
    min_proven: float | None = None,
    max_vacuous: float = 1.0,
    confidence: float = 0.95,
    rounds: int = 40,
    free: Sequence[float] = FREE,
    retain: float = 0.3,
    most: int = 500,
    share: float = 0.2,
    judged: int = 400,
    seconds: float = 0.1,
    epochs: int = 10,
    seed: int = 0,
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> Hardened:
    """Refits a fitted model on counterexamples until attackers in a space find little.

    Works for tree ensembles and torch networks. Every refit is your own estimator with its
    parameters; held-out rows decide which round is chosen. See docs/how-to/harden.md.

    Args:
        model: The fitted model.
        data: The training data.
        space: What the attacker may change.
        goal: What counts as a success. None is `Untargeted()`.
        max_loss: Largest loss of accuracy on fresh rows to accept, against the same estimator
            fitted on the same rows (round 0); of the rounds within it, the one with the largest
            proven share is chosen. By class: `{"legitimate": 0.01, "all": 0.015}`, where "all" is
            accuracy over all rows. None: no limit.
        min_proven: Choose the most accurate round that reaches this proven share instead. None: use
            `max_loss`.
        max_vacuous: Largest share of proofs that rest on features nobody can change.
        confidence: Probability with which the chosen round keeps `max_loss`, whatever it was chosen
            from.
        rounds: Largest number of refits.
        free: Shares to try of trees that see every feature; the other trees see only features that
            keep their information under attack. Of a network: shares of the loss that are not the
            worst case's in certified training; the default tries 0.9, 0.75, 0.5, 0.25 and 0.1.
        retain: Share of its information that a feature must keep under attack to be seen by these
            other trees.
        most: Training rows attacked per round.
        share: Share of the rows held out.
        judged: Held-out rows that are proven or broken after each round.
        seconds: Time per attacked row, in seconds; five times as much per judged row.
        epochs: Passes over the training rows per refit of a network.
        seed: Seed of all draws.
        folder: Where every round is kept, so that an interrupted run continues. None: nowhere.
        progress: Whether to show a progress bar. None shows it in a terminal only.

    Returns:
        A `Hardened`: the chosen model and the path to it.

    Raises:
        DurometerError: A parameter has an impossible value, or the model is of a kind that cannot
            be refitted.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import durometer as du
    >>> x = np.random.default_rng(0).random((300, 3))
    >>> y = (x[:, 0] + x[:, 1] > 1).astype(int)
    >>> forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(x, y)
    >>> hardened = du.training.harden(forest, du.Dataset(x, y), du.Linf(0.05), rounds=2)
    >>> [round(step.proven, 2) for step in hardened.path]
    [0.68, 0.78, 0.77]
    """
    limits = max_loss if isinstance(max_loss, Mapping) else {"all": max_loss}
    shares = {f"max_loss {k}" if k != "all" else "max_loss": v for k, v in limits.items()}
    shares |= {"min_proven": min_proven, "max_vacuous": max_vacuous}
    counts = {"rounds": rounds, "most": most, "judged": judged, "epochs": epochs}
    if not 0 < confidence < 1:
        raise DurometerError(f"confidence={confidence}: expected a probability between 0 and 1")
    refuse_numbers(free, shares, counts, {"seconds": seconds})
    goal = Untargeted() if goal is None else goal
    model = bare(model)
    refuse(model, data, space, goal)
    prices = _prices(limits, data)
    network = isinstance(model, torch.nn.Module)
    train, held = holdout(data, share, seed)
    judge = Judge.of(held, space, goal, judged, 5 * seconds, seed)
    keeps = np.ones(data.x.shape[1]) if network else retention(train, space, goal)
    kept = keeps >= retain
    again = retrain(seed, space, goal, epochs) if network else refit
    asked = (
        tuple(sorted(limits.items())),
        min_proven,
        confidence,
        rounds,
        tuple(free),
        retain,
        most,
        share,
        judged,
        seconds,
        seed,
        epochs,
    )
    saved = Checkpoint(folder, model, f"{data.hash}|{space!r}|{goal!r}|{asked}")
    pool = partial(Pool, train, space, goal, most, seed)
    loop = _Loop(model, train, judge, again, kept, pool, seconds, saved, prices)
    with RoundProgress(rounds, progress) as bar:
        loop.refit(1.0, 0, None, bar)
        plans = _worst_cases(model, free) if network else _plans(model, kept, free)
        starts = [loop.starts(f, bar) for f in plans[:rounds]]
        starts.sort(key=lambda r: _promise(r, loop.path[0], prices, min_proven), reverse=True)
        for i, start in enumerate(starts[:BEST]):
            left = rounds + 1 - len(loop.path)
            loop.climb(start, left // (min(BEST, len(starts)) - i), bar)
    chosen = choice(loop.path, prices, min_proven, max_vacuous, confidence)
    final = loop.models[chosen]
    proven = counterexamples(final, judge.part, space, goal, seconds).proven
    why = Explanation(
        loop.weak, leans_on(loop.models[0], held, seed), leans_on(final, held, seed),
        protected_by(final, judge.part.take(proven), space, goal) if proven.any() else {},
    )  # fmt: skip
    return Hardened(
        final, chosen, tuple(loop.path), len(held), len(judge.part), len(kept), int(kept.sum()),
        judge.unmovable(model, train), why, tuple(loop.models),
    )  # fmt: skip


class _Loop:
    """Rounds done so far, from the folder where they are there."""

    def __init__(
        self, model: Any, train: Dataset, judge: Judge, again: Refit, kept: Bools,
        pool: Callable[[], Pool], seconds: float, saved: Checkpoint, prices: Prices,
    ) -> None:  # fmt: skip
        self.model, self.train, self.judge, self.again = model, train, judge, again
        self.kept, self.pool, self.seconds, self.saved = kept, pool, seconds, saved
        self.prices = prices
        self.models: list[Any] = []
        self.path: list[Round] = []
        self.weak: dict[str, tuple[float, float]] = {}

    def refit(self, plan: float, step: int, pool: Pool | None, bar: RoundProgress) -> Round:
        """One more model, fitted on the pool too, and judged."""
        number = len(self.path)
        known = self.saved.load(number)
        if known is None:
            pool = self.pool() if pool is None else pool
            kept = None if plan == 1.0 else self.kept
            fresh = self.again(self.model, self.train, *pool.weighted(), kept=kept, free=plan)
            first = self.models[0] if number else fresh
            line = self.judge(fresh, first, number, plan, step, len(pool.x))
            known = {"model": fresh, "line": line, "x": pool.x, "y": pool.y}
            if number == 0:
                known["weak"] = weak_by(self.pool().attack(fresh, self.seconds, 1), self.train)
            self.saved.keep(number, **known)
        self.models.append(known["model"])
        self.path.append(known["line"])
        self.weak = known.get("weak", self.weak)
        bar.advance(self.path[-1])
        return self.path[-1]

    def starts(self, plan: float, bar: RoundProgress) -> Round:
        """The model of a plan before any counterexample; the plain one is there already."""
        return self.path[0] if plan == 1.0 else self.refit(plan, 0, None, bar)

    def climb(self, start: Round, rounds: int, bar: RoundProgress) -> None:
        """Counterexamples and refits from one start, until none is found or the price is passed."""
        pool, model, dear = self.pool(), self.models[start.number], 0
        for step in range(1, rounds + 1):
            kept = self.saved.load(len(self.path))
            if kept is not None and (kept["line"].free, kept["line"].step) == (start.free, step):
                pool.x, pool.y = kept["x"], kept["y"]
            elif not len(pool.attack(model, self.seconds, step)):
                return
            now = self.refit(start.free, step, pool, bar)
            model = self.models[-1]
            dear = 0 if now.excess(self.path[0], self.prices) <= 0 else dear + 1
            if dear == PATIENCE:
                return


def _worst_cases(net: torch.nn.Module, free: Sequence[float]) -> list[float]:
    """Shares of a network's loss that are not the worst case's: 1 is the network as it is."""
    if not trainable(net):
        return [1.0]
    shares = [1 - kappa for kappa in KAPPAS] if tuple(free) == FREE else list(free)
    return [1.0, *(f for f in shares if f < 1)]


def _plans(model: Any, kept: Bools, free: Sequence[float]) -> list[float]:
    """Shares of trees that see everything; one plan where features make no difference."""
    if kept.all() or not kept.any():
        return [1.0]
    trees = count(model)
    if trees is None:
        return [f for f in free if f in (0.0, 1.0)]
    first: dict[int, float] = {}  # shares that come to the same number of trees are one plan
    for f in free:
        first.setdefault(free_trees(trees, f), f)
    return list(first.values())


def _promise(
    r: Round, first: Round, prices: Prices, min_proven: float | None
) -> tuple[bool, float]:
    """What a start is worth going on from: within the price, then by the proven share."""
    if min_proven is not None:
        return r.proven >= min_proven, r.accuracy
    return r.excess(first, prices) <= 0, r.guided().proven


def _prices(limits: Mapping[str, float | None], data: Dataset) -> Prices:
    """The limits by the place of each class among those that the data hold."""
    present = data.y.unique().tolist()
    names = [str(c if data.classes is None else data.classes[c]) for c in present]
    found: dict[int | None, float] = {}
    for name, most in limits.items():
        if name != "all" and str(name) not in names:
            raise DurometerError(f"max_loss: no class '{name}'{nearest(str(name), names)}")
        if most is not None:
            found[None if name == "all" else names.index(str(name))] = float(most)
    return found


class RoundProgress:
    """`wanted=None`: only on a terminal."""

    def __init__(self, rounds: int, wanted: bool | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("harden"), BarColumn(), TextColumn("{task.description}"),
                   TimeRemainingColumn())  # fmt: skip
        shown = sys.stderr.isatty() if wanted is None else wanted
        self._progress = Progress(*columns, disable=not shown, console=Console(stderr=True))
        self._task = self._progress.add_task("", total=rounds)

    def __enter__(self) -> RoundProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, done: Any) -> None:
        text = f"accuracy {done.accuracy:.3f}, proven {done.proven:.3f}"
        self._progress.update(self._task, advance=1, description=text)


def retrain(seed: int, space: Space, goal: Goal, epochs: int) -> Callable[..., torch.nn.Module]:
    """`refit` for networks; weights of rows are not used, each counterexample counts as a row."""

    def again(
        model: torch.nn.Module, data: Dataset, x: Floats, y: Ints, weight: Floats, *,
        free: float = 1.0, **_: Any,
    ) -> torch.nn.Module:  # fmt: skip
        net = copy.deepcopy(model)
        if not len(x) and free == 1.0:
            return net
        rows = torch.cat(
            [data.x, torch.from_numpy(x).to(data.x.dtype).reshape(-1, *data.x.shape[1:])]
        )
        more = replace(
            data, x=rows, y=torch.cat([data.y, torch.from_numpy(y)]), ids=None, table=None
        )
        recipe: Recipe = Standard()
        if free < 1:
            updates = -(-len(rows) // BATCH) * epochs
            craft = CraftBy(PGD(4), space, goal)
            recipe = Certified(
                space, goal, kappa=1 - free, steps=max(1, int(0.6 * updates)), craft=craft
            )
        fit(net, more, recipe, epochs=epochs, batch=BATCH, seed=seed, progress=False)
        return net

    return again


def bare(model: Any) -> Any:
    """The user's own model, out of `Static` and `wrap`."""
    model = model.model if isinstance(model, Static) else model
    return source_of(model)


def refuse(model: Any, data: object, space: Space, goal: Goal) -> None:
    """Raise unless this model can be hardened on these data against this."""
    if not isinstance(data, Dataset):
        raise DurometerError(f"data is a {type(data).__name__}; expected du.Dataset(x, y)")
    network = isinstance(model, torch.nn.Module)
    if not network:
        _estimator(model)
        if data.x.ndim != 2:
            raise DurometerError(f"x has shape {tuple(data.x.shape)}; a table is (rows, features)")
    if len(data.y.unique()) < 2:
        only = int(data.y[0]) if data.classes is None else data.classes[int(data.y[0])]
        raise DurometerError(
            f"all {len(data)} rows are of class {only!r}: there is nothing to tell it from; give "
            "the rows the model was trained on"
        )
    if isinstance(goal, Expandable) and goal.together:
        raise Unsupported(
            f"harden(goal={goal!r}): a quota is about rows together; use Group, Targeted or "
            "Untargeted"
        )
    judge = NETWORK_JUDGE if network else Linear() if is_linear(model) else Exact()
    Static(model).prepare(data, space, goal, judge)


def _estimator(model: Any) -> None:
    checked(model)
    last = last_step(model)
    if not takes_weights(last):
        raise Unsupported(
            f"{type(last).__name__}.fit() takes no sample_weight, which counterexamples need; "
            "harden refits tree ensembles (XGBoost, LightGBM, CatBoost, scikit-learn's), votes and "
            "thresholds around estimators that take them, and linear models"
        )


def refuse_numbers(
    free: Any, shares: dict[str, Any], counts: dict[str, Any], others: dict[str, Any]
) -> None:  # fmt: skip
    """Raise unless these are shares in [0, 1], counts from 1 on, and numbers from 0 on."""
    if not isinstance(free, Sequence) or not free or not all(_share(f) for f in free):
        raise DurometerError(
            f"harden(free={free!r}): expected shares of the trees, e.g. (0, 0.1, 1)"
        )
    for name, value in shares.items():
        if value is not None and not _share(value):
            raise DurometerError(f"harden({name}={value!r}): expected a share between 0 and 1")
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DurometerError(f"harden({name}={value!r}): expected a whole number from 1 on")
    for name, number in others.items():
        if not (_number(number) and number > 0):
            raise DurometerError(f"harden({name}={number!r}): expected a positive number")


def _share(value: Any) -> bool:
    return _number(value) and 0 <= float(value) <= 1


def _number(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
