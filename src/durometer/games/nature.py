"""Nature: no adversary. How likely does the decision change when a reading is off by its known
error?

    report = du.evaluate(du.Nature(forest, du.Normal(sd=0.1)), data)

Real-world robustness (Scher & Truegler 2022): R = P(f(x + e) = f(x)). Tree ensembles get exact or
certified intervals (probability/methods.py), every other classifier Monte Carlo with a
Clopper-Pearson interval, or draws that stop when a threshold is decided (sequential.py). With a
goal other than untargeted, R is the probability that the label does *not* land in the goal's
classes. With a space, somebody may shift the input first: R is the least over all shifts, between a
certificate and the worst shift found.

What a reader would get wrong: "stays" means the *predicted* label, right or wrong, as in the
paper; `expected_accuracy` is the probability of the true one. And `winner` says what kind of
promise an interval is ("exact", "certified", "numerical", "estimate", "sampled", "sequential",
"importance"), because they are not the same. A probability need not fall steadily with the noise:
`breakdown_noise_level` is about the levels it was asked about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from durometer.attacks.base import Attack
from durometer.core import serialization
from durometer.core.capabilities import Arranged, Mended, Titled, description_of
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.facts import Facts
from durometer.core.records import Records
from durometer.core.serialization import to_dict, to_jsonable
from durometer.core.spec import Spec
from durometer.core.validation import noun
from durometer.data.columns import Columns
from durometer.data.dataset import Dataset
from durometer.games.arguments import check_kinds, refused_quota
from durometer.games.game import USUAL, Carried, Play
from durometer.goals.classes import LeastLikely, Untargeted
from durometer.goals.goal import Expandable, Goal
from durometer.kernels.arrays import Bools, Floats
from durometer.model.adapters import measured_against, rule_behind
from durometer.model.agreement import agree
from durometer.model.classifier import Classifier, wrap
from durometer.model.frames import align_columns, column_indices, names_of
from durometer.model.probe import probe
from durometer.noise.joint import Noise
from durometer.noise.scaled import scaled, without_noise
from durometer.probability import methods as exact
from durometer.probability.certified.bounds import Draws
from durometer.probability.importance import importance as sampled_where_labels_change
from durometer.probability.sampling import generator, monte_carlo
from durometer.probability.sequential import sequential, until_decided
from durometer.probability.smoothing import (
    SEARCH,
    adversarial_shift,
    certified_radii,
    check_shift,
    finer_width,
    sampled_radii,
    worst_shifts,
)
from durometer.spaces.lp import Lp
from durometer.spaces.region import Space
from durometer.trees.align_ensemble import ensembles_of
from durometer.trees.ensemble import Ensemble
from durometer.trees.readers import read, reader

TOLERANCE = 1e-6
# What a screening spends in turn: a share of the budget, and the width it stops at, as a share of
# what may change. Few records are so near the border that only the last stage's width tells.
STAGES = ((0.001, 1 / 4), (0.02, 1 / 4), (1.0, 1 / 100))
ROWS = 1000  # records at a time: their cells' masses must fit
LEVELS = tuple(float(k) for k in np.geomspace(1 / 16, 16, 33))
ASKED = ("method", "tolerance", "budget", "draws", "confidence", "threshold")
WEAKEST_FIRST = ("sampled", "sequential", "importance", "estimate", "certified+sampled",
                 "numerical", "certified", "exact")  # fmt: skip
ANY_MODEL = ("monte carlo", "sequential", "importance")  # methods that only ask for labels


@noun(eq=False)
class Nature:
    """Robustness to random noise: the probability that the decision stays when inputs carry
    measurement errors (Scher & Truegler, 2022).

    Tree ensembles get exact or certified intervals, other models Monte Carlo intervals. With a goal
    other than `Untargeted`, it is the probability that the label does not land in the goal's
    classes. With a space, it is the least probability over all shifts that the space allows.

    Args:
        model: The classifier, of any kind that `wrap` takes.
        noise: The noise: `Normal`, `Independent`, `Copula` or a `Noise` of your own.
        tolerance: Width of the interval to reach, per row.
        budget: Work per row, in about seconds of one core; counted as operations, so that results
            do not depend on the machine.
        method: "auto" (certified for trees, with an estimate beside a wide certificate; Monte Carlo
            for other models, "sequential" if there is a `threshold`), "estimate" (trees, by
            quasi-Monte-Carlo), "combined" (trees: certified bounds, then sampling of the rest),
            "monte carlo" (any model), "sequential" (any model: draws stop when the threshold is
            decided or the width is reached) or "importance" (any model, for rare changes).
        draws: Largest number of draws per row, where draws are made.
        confidence: Confidence of intervals from draws.
        threshold: The question, where draws are made one after the other: "does the answer stay
            with at least this probability?" A row stops as soon as its interval lies on one side.
            None: only `tolerance` and `draws` stop a row. Trees that are read need no draws.

    Raises:
        DurometerError: A parameter has an impossible value.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> report = du.evaluate(
    ...     du.Nature(tree, du.Normal(sd=0.5)), du.Dataset([[1.0], [2.0]], [0, 1])
    ... )
    >>> round(report.metric("robust").value, 4)
    0.8413
    """

    model: Any
    noise: Noise = field(
        metadata={"example": "du.Normal(sd=0.1) or du.Independent([du.noise.normal(0, 0.1), ...])"}
    )
    tolerance: float = field(default=TOLERANCE, metadata={"above": 0, "below": 1})
    budget: float = field(default=1.0, metadata={"above": 0})
    method: Literal["auto", "estimate", "combined", "monte carlo", "sequential", "importance"] = (
        "auto"
    )
    draws: int = 100_000
    confidence: float = field(default=0.99, metadata={"above": 0, "below": 1})
    threshold: float | None = field(default=None, metadata={"above": 0, "below": 1})
    _prepared: Prepared | None = field(default=None, repr=False)  # by `prepare`
    __eq__, __hash__ = (
        serialization.equal_fields,
        serialization.hash_by_type,
    )  # of one and the same model

    gaps: ClassVar[bool] = True  # a missing value has no measurement error and stays missing
    divisible: ClassVar[bool] = True  # records do not meet: any batch can be played by itself
    batch: ClassVar[int] = 32  # a record may take its whole budget: the bar should move

    def __post_init__(self) -> None:
        if self.threshold is not None and self.method in ("monte carlo", "importance"):
            raise DurometerError(
                f"threshold={self.threshold:g} with method={self.method!r}, which does not stop "
                "at a threshold: use method='sequential' or 'auto'"
            )

    def describe(self) -> Spec:
        name = self.model.name if isinstance(self.model, Titled) else ""
        model = wrap(tree_source(self.model), name=name)
        return replace(
            model.described,
            game={"type": "Nature"} | {name: to_jsonable(getattr(self, name)) for name in ASKED},
            noise=to_dict(self.noise),
            under=description_of(self.noise) or type(self.noise).__name__,
        )

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The labels of some rows, one-hot; part of the fingerprint of a run.

        Args:
            x: Inputs (n, features).
        """
        ready = self._ready()
        rows = rows_of(x)
        labels = torch.from_numpy(ready.predict(rows))
        return torch.nn.functional.one_hot(labels, ready.classes(rows)).double()

    def default_attack(self, space: Space | None) -> Attack | None:
        return None  # nobody attacks

    def refuses(self, goal: Expandable, run: Carried) -> str | None:
        return refused_quota(self) if goal.together else None

    def _asked(self, data: Any) -> Prepared:
        """Ready, with the noise's features and the trees' in the order of the data's columns."""
        if self._prepared is not None:
            return self._prepared
        columns = getattr(data, "columns", None)
        named = None if columns is None else [str(c) for c in columns]
        ready = self._ready()
        if isinstance(self.noise, Arranged) and self.noise.names is not None:
            ready = replace(ready, noise=self.noise.arranged(named))
        source = tree_source(self.model)
        if ready.ensemble is None or named is None or names_of(source, named) is None:
            return ready  # a model of another kind is asked by name
        place = column_indices(source, Columns.named(named))
        if place is None:
            return ready
        return replace(ready, ensemble=ready.ensemble.asked_by(place, len(named)))

    def prepare(
        self, data: Dataset, space: Space | None, goal: Goal, attack: Attack | None
    ) -> tuple[Nature, Facts]:
        """Reads the trees and checks the noise against the data; see `Game.prepare`."""
        if attack is not None:
            raise Unsupported(
                "Nature plays no attack: a space says how far somebody may shift the input before "
                "the noise, and the worst shift is bounded; use Static for attacks"
            )
        if space is not None:
            self._refuse_by_row("with a space")
            check_shift(self._asked(data).noise, space, rows_of(data))
            if self.threshold is not None:
                raise Unsupported(
                    f"threshold={self.threshold:g} with a space: draws would stop at the "
                    "probability without a shift; leave the threshold out"
                )
        check_kinds(space, goal, attack)
        if isinstance(goal, LeastLikely):
            raise Unsupported("least_likely under noise: name the class, e.g. du.Targeted(2)")
        ready = self._asked(data)
        x = rows_of(data)
        ready.noise.marginals(x.shape[1])
        ready.noise.correlation(x.shape[1])
        if ready.ensemble is None:
            model = probe(align_columns(ready.model, data), torch.from_numpy(x[:32]))
            ready = replace(ready, model=model)
        score = self.model.score if isinstance(self.model, Classifier) else None
        agreed = ready.agree(data)
        classes = ready.classes(x)
        if int(data.y.max()) >= classes:
            raise DurometerError(
                f"y holds class {int(data.y.max())}, but the model has classes 0..{classes - 1}"
            )
        if data.classes is not None and len(data.classes) != classes:
            raise DurometerError(
                f"the data names {len(data.classes)} classes, but the model has {classes}"
            )
        clean = torch.zeros(len(data), classes)
        if not bool(goal.targets(data.y, clean, torch.arange(len(data)), data.classes).any()):
            raise DurometerError(
                f"goal {goal!r}: no row of this data has any class to be pushed to"
            )
        made = replace(self, model=ready.model, noise=ready.noise, _prepared=ready)
        return made, Facts(
            classes=classes,
            agreed=agreed,
            score=score,
            tolerance=self.tolerance if space is None else None,
            tolerance_given=self.tolerance != TOLERANCE and self.threshold is None,
            moved=self.noise.moved if isinstance(self.noise, Mended) else 0.0,
        )

    def play(
        self,
        data: Dataset,
        space: Space | None,
        goal: Goal,
        attack: Attack | None,
        seed: int,
        options: Play = USUAL,
    ) -> Iterator[Records]:
        """Yields the records of one batch after the other; see `Game.play`."""
        ready = self._ready()
        starts = range(0, len(data), options.batch)
        for start in starts if options.only is None else (starts[k] for k in options.only):
            rows = torch.arange(start, min(start + options.batch, len(data)))
            yield ready.play(data, rows, space, goal, seed)

    def probability(
        self, x: Floats, allowed: Bools, ids: Any = None, seed: int = 0
    ) -> exact.Probability:
        """The probability that the label of each record lies in given classes.

        Args:
            x: Records (n, features).
            allowed: The classes of each record (n, C), bool.
            ids: Ids of the records, for the random numbers. None: their positions.
            seed: Seed of the draws.

        Returns:
            Intervals `low` and `high` (n,), and what kind of interval they are (`kind`).
        """
        return self._ready().probability(x, allowed, ids, seed)

    def distribution(self, data: Any, seed: int = 0) -> tuple[Floats, Floats]:
        """The probability of every class for each record.

        Args:
            data: A `Dataset`, a table or records (n, features).
            seed: Seed of the draws.

        Returns:
            Lower and upper bounds, two arrays (n, classes).
        """
        return self._asked(data).of_classes(rows_of(data), seed)

    def expected_accuracy(self, data: Dataset, seed: int = 0) -> tuple[float, float]:
        """Bounds of the mean probability of the true class.

        Args:
            data: The records with their true classes.
            seed: Seed of the draws.

        Returns:
            Lower and upper bound.
        """
        x = rows_of(data)
        ready = self._asked(data)
        classes = ready.classes(x)
        found = ready.probability(x, np.eye(classes, dtype=bool)[data.y.numpy()], data.ids, seed)
        return float(found.low.mean()), float(found.high.mean())

    def importance(self, data: Any, seed: int = 0) -> Any:
        """Which features' noise matters: how much each record's probability gains when one feature
        is read exactly.

        Args:
            data: A `Dataset`, a table or records (n, features).
            seed: Seed of the draws.

        Returns:
            A data frame with "low" and "high" bounds, records x features.
        """
        import pandas as pd

        ready, x = self._asked(data), rows_of(data)
        stays = np.eye(ready.classes(x), dtype=bool)[ready.predict(x)]
        before = ready.certificate(x, stays, seed)
        low, high = {}, {}
        for f, name in enumerate(feature_names(data, x.shape[1])):
            quiet = without_noise(ready.noise, f, x.shape[1])
            if quiet is ready.noise:  # the feature has no noise: nothing to gain
                low[name] = high[name] = np.zeros(len(x))
                continue
            after = replace(ready, noise=quiet).certificate(x, stays, seed)
            low[name], high[name] = after.low - before.high, after.high - before.low
        ends = {"low": pd.DataFrame(low, _index(data)), "high": pd.DataFrame(high, _index(data))}
        return pd.concat(ends, axis=1)

    def certified_radius(
        self,
        data: Any,
        seed: int = 0,
        like: int | None = None,
        *,
        at: float | None = None,
        precision: float = 0.05,
    ) -> Any:
        """The shift within which the likeliest class under noise is certified to stay the
        likeliest; normal noise only.

        Models that are no trees are sampled (randomised smoothing: Cohen, Rosenfeld & Kolter,
        2019), with a sequential test in place of a fixed number of draws.

        Args:
            data: A `Dataset`, a table or records (n, features).
            seed: Seed of the draws.
            like: Precision, as the standard error of so many draws; much cheaper. None: the
                precision `tolerance`. Of sampled models: the largest number of draws; None: the
                game's `draws`.
            at: Of sampled models: a radius in units of the data. Draws stop as soon as it is known
                whether the certified radius reaches it. None: draws stop by `precision`.
            precision: Of sampled models without `at`: the share of the radius to give up. Draws
                stop when all the draws left would lengthen the radius by no more than that, if
                labels went on as they have been. 0: all draws are made.

        Returns:
            A data frame with "label", the radius in standard deviations of the noise ("sds") and in
                units of the data ("L2"). 0: no class is certain to be the likeliest. Of sampled
                models also "draws"; each radius holds with the game's `confidence`.

        Raises:
            Unsupported: The noise is not normal.
        """
        import pandas as pd

        if like is not None and not like >= 100:
            raise DurometerError(
                f"like={like}: expected a number of draws to be as precise as, e.g. 10**5"
            )
        self._refuse_by_row("has no certified radius")
        ready, x = self._asked(data), rows_of(data)
        per_unit = adversarial_shift(ready.noise, x.shape[1], 2.0, 1.0).sds
        if per_unit is None:
            raise Unsupported(
                "a radius is for normal noise; for uniform noise give evaluate a space"
            )
        if not 0 <= precision < 1 or not (at is None or at > 0):
            raise DurometerError(
                f"at={at}, precision={precision}: expected a positive radius, and a share below 1"
            )
        if ready.ensemble is None and self.method in ("auto", "sequential"):
            ids = range(len(x)) if _index(data) is None else list(_index(data))
            label, sds, asked = sampled_radii(
                ready.predict, ready.noise, x, ready.classes(x), list(ids), seed=seed,
                at=None if at is None else at * per_unit, precision=precision,
                most=like or self.draws, confidence=self.confidence,
            )  # fmt: skip
            columns = {"label": label, "sds": sds, "L2": sds / per_unit, "draws": asked}
            return pd.DataFrame(columns, _index(data))
        label, sds = np.zeros(len(x), np.int64), np.zeros(len(x))
        first = self.tolerance if like is None else 0.3 / np.sqrt(like)
        width, todo = np.full(len(x), first), np.arange(len(x))
        for _ in range(1 if like is None else 4):
            for asked in np.unique(width[todo]):
                rows = todo[width[todo] == asked]
                low, high = ready.having(tolerance=float(asked)).of_classes(x[rows], seed)
                label[rows], sds[rows] = certified_radii(low, high)
                gap, best = (high - low)[np.arange(len(rows)), label[rows]], high.max(axis=1)
                width[rows] = np.inf if like is None else finer_width(gap, best, like, asked)
            todo = todo[np.isfinite(width[todo])]
            if not len(todo):
                break
        return pd.DataFrame({"label": label, "sds": sds, "L2": sds / per_unit}, _index(data))

    def rank_by_stability(self, data: Any, share: float = 0.99, seed: int = 0) -> Any:
        """Sorts many records by how likely their decision stays, the least certain first.

        Cheap bounds come first; the full budget is spent only on records that they leave open.

        Args:
            data: A `Dataset`, a table or records (n, features).
            share: The probability that the decision should stay with.
            seed: Seed of the draws.

        Returns:
            A data frame with "low", "high" and "stays": "yes", "no" or "open".
        """
        import pandas as pd

        if not 0 < share < 1:
            raise DurometerError(
                f"share={share}: expected a probability between 0 and 1, e.g. 0.99"
            )
        ready, x = self._asked(data), rows_of(data)
        label = ready.predict(x)
        low, high = np.zeros(len(x)), np.ones(len(x))
        todo = np.arange(len(x))
        asking = ready.asking(share)
        for part, width in STAGES if asking is ready else ((1.0, 0.0),):
            quick = asking.having(
                budget=part * self.budget,
                tolerance=max(self.tolerance, (1 - share) * width),
            )
            for rows in np.array_split(todo, max(len(todo) // ROWS, 1)):
                stays = np.eye(ready.classes(x[:1]), dtype=bool)[label[rows]]
                found = quick.certificate(x[rows], stays, seed)
                low[rows] = np.maximum(low[rows], found.low)
                high[rows] = np.minimum(high[rows], found.high)
            todo = todo[(low[todo] < share) & (high[todo] >= share)]
            if not len(todo):
                break
        known = np.where(low >= share, "yes", np.where(high < share, "no", "open"))
        table = pd.DataFrame({"low": low, "high": high, "stays": known}, _index(data))
        return table.sort_values(["high", "low"], kind="stable")

    def breakdown_noise_level(
        self,
        data: Any,
        share: float = 0.99,
        *,
        bias: bool = False,
        feature: Any = None,
        levels: Any = LEVELS,
        seed: int = 0,
    ) -> Any:
        """The noise level, or bias, at which a decision becomes less certain than a given
        probability.

        Args:
            data: A `Dataset`, a table or records (n, features).
            share: The probability that the decision should stay with.
            bias: Whether to add a bias to the noise instead of scaling it.
            feature: The one feature whose noise grows. None: all.
            levels: The levels to try, as multiples of the noise, or of its standard deviation for a
                bias.
            seed: Seed of the draws.

        Returns:
            A data frame: up to "low" every level is known to be safe; "high" is the first that is
                known not to be, infinite where none is.
        """
        import pandas as pd

        if not 0 < share < 1:
            raise DurometerError(
                f"share={share}: expected a probability between 0 and 1, e.g. 0.99"
            )
        steps = np.sort(np.asarray(levels, dtype=float))
        if steps.ndim != 1 or not len(steps) or not steps[0] > 0:
            raise DurometerError(f"levels={levels}: expected positive multiples of the noise")
        ready, x = self._asked(data), rows_of(data)
        places = None
        if feature is not None:
            known = feature_names(data, x.shape[1])
            if feature not in known:
                raise DurometerError(
                    f"no feature {feature!r}; features are {', '.join(map(str, known))}"
                )
            places = (known.index(feature),)
        ready = ready.asking(share)
        stays = np.eye(ready.classes(x), dtype=bool)[ready.predict(x)]
        safe, fallen = np.zeros(len(x)), np.full(len(x), np.inf)
        sure, todo = np.ones(len(x), dtype=bool), np.arange(len(x))
        for level in steps:
            lows, highs = ready.at_level(x[todo], stays[todo], level, bias, places, seed)
            sure[todo] &= lows >= share
            safe[todo[sure[todo]]] = level
            fallen[todo[highs < share]] = level
            todo = todo[~(highs < share)]
            if not len(todo):
                break
        return pd.DataFrame({"low": safe, "high": fallen}, _index(data))

    def html_report(self, data: Any, share: float = 0.99, rows: int = 6, seed: int = 0) -> str:
        """An HTML page for a laboratory: uncertain records, and which instruments, noise levels and
        drifts matter.

        Args:
            data: A `Dataset`, a table or records (n, features).
            share: The probability that decisions should stay with.
            rows: Number of least certain records to look at closely.
            seed: Seed of the draws.
        """
        from markupsafe import Markup

        from durometer.report.page.nature import nature_page
        from durometer.report.page.regions import regions

        if not isinstance(rows, int) or rows < 1:
            raise DurometerError(
                f"rows={rows!r}: expected how many records to look at closely, e.g. 6"
            )
        ready, x = self._asked(data), rows_of(data)
        names = [str(name) for name in feature_names(data, x.shape[1])]
        screened = self.rank_by_stability(data, share, seed)
        index = list(range(len(x))) if _index(data) is None else list(_index(data))
        least = [index.index(i) for i in screened.index[:rows]]
        few = Dataset(x[least], np.zeros(len(least), dtype=int), ids=[str(index[i]) for i in least])
        asked = replace(self, _prepared=ready)
        gains = asked.importance(few, seed).rename(columns=dict(enumerate(names)), level=1)
        levels = LEVELS[::2]
        noise = asked.breakdown_noise_level(few, share, levels=levels, seed=seed)
        drift = asked.breakdown_noise_level(few, share, bias=True, levels=levels, seed=seed)
        picture = None
        if ready.ensemble is not None and x.shape[1] > 1:
            best = np.argsort(-gains["low"].mean().to_numpy(), kind="stable")[:2]
            two = (int(best[0]), int(best[1]))
            drawn = regions(self.model, ready.noise, x[least[0]], two, names)
            picture = Markup(drawn)
        said = description_of(ready.noise) or type(ready.noise).__name__
        title = f"durometer: {len(x):,} records under noise"
        return nature_page(
            title, str(said).rstrip("."), share, screened, gains, noise, drift, picture
        )

    def predict(self, x: Floats) -> NDArray[np.int64]:
        """The class indices of records without noise.

        Args:
            x: Records (n, features).
        """
        return self._ready().predict(x)

    def _ready(self) -> Prepared:
        """With the trees read (once), or the model wrapped."""
        if self._prepared is not None:
            return self._prepared
        asked = Prepared(self, self.model, self.noise)
        if asked.by_row or (
            isinstance(self.model, Classifier) and reader(self.model.source) is None
        ):
            return asked
        source = tree_source(self.model)
        if isinstance(source, Ensemble) or reader(source) is not None:
            try:
                return replace(asked, ensemble=read(source))
            except Unsupported as error:
                if self.method not in ANY_MODEL:
                    raise Unsupported(f"{error}; sample it: method='monte carlo'") from None
                return replace(asked, model=wrap(self.model))
        if self.method in ("estimate", "combined"):
            raise Unsupported(
                f"method={self.method!r} reads trees; {type(source).__name__} is none: use 'auto'"
            )
        return replace(asked, model=wrap(self.model))

    def _refuse_by_row(self, why: str) -> None:
        if measured_by_row(self.model):
            raise Unsupported(
                f"{self.model.title} {why}: the answer is measured against the row's own score, "
                "and moves with it; give a threshold instead: du.wrap(model, threshold=100)"
            )


@dataclass(frozen=True)
class Prepared:
    """A game whose trees were read, or whose model was wrapped: what its questions ask."""

    game: Nature  # its settings
    model: Any
    noise: Noise  # in the order of the data's columns, as the trees are
    ensemble: Ensemble | None = None  # None: not read; the model is asked

    def classes(self, x: Floats) -> int:
        if self.ensemble is not None:
            return self.ensemble.n_classes
        model: Classifier = self.model
        with model.ready(), torch.no_grad():
            return int(model.logits(torch.from_numpy(np.ascontiguousarray(x[:1]))).shape[1])

    def predict(self, x: Floats) -> NDArray[np.int64]:
        """The class indices of records without noise.

        Args:
            x: Records (n, features).
        """
        if self.ensemble is not None:
            return self.ensemble.decide(x)
        model: Classifier = self.model
        with model.ready(), torch.no_grad():
            return model.logits(torch.from_numpy(np.ascontiguousarray(x))).argmax(1).cpu().numpy()

    @property
    def reads_trees(self) -> bool:
        """Whether labels come from trees that were read, not from the model itself."""
        return self.ensemble is not None

    @property
    def by_row(self) -> bool:
        """Whether each row is measured against its own clean score (`wrap(model, tolerance=)`)."""
        return self.ensemble is None and measured_by_row(self.model)

    def having(self, **settings: Any) -> Prepared:
        """The same with other settings of the game."""
        return replace(self, game=replace(self.game, **settings))

    def probability(
        self, x: Floats, allowed: Bools, ids: Any = None, seed: int = 0
    ) -> exact.Probability:
        """By `method`, of a game whose trees have been read; no trees: always sampled."""
        ids = list(range(len(x)) if ids is None else ids)
        if self.by_row:
            each = [slice(i, i + 1) for i in range(len(x))]
            return joined(
                [self.measured(x[i]).probability(x[i], allowed[i], ids[i], seed) for i in each]
            )
        ensemble = self.ensemble
        if self.game.method == "importance":
            model = _Counting(self.predict)
            low, high, queries = np.empty(len(x)), np.empty(len(x)), np.zeros(len(x), np.int64)
            for i in range(len(x)):
                before, one = model.rows, slice(i, i + 1)
                low[one], high[one] = sampled_where_labels_change(
                    model, self.noise, x[one], allowed[one], ids[one],
                    seed=seed, draws=self.game.draws, confidence=self.game.confidence,
                )  # fmt: skip
                queries[i] = model.rows - before
            return exact.Probability(
                low, high, "importance", queries=0 if self.reads_trees else queries
            )
        if self.game.method == "sequential" or (
            ensemble is None and self.game.method == "auto" and self.game.threshold is not None
        ):
            stopped = sequential(
                self.predict, self.noise, x, allowed, ids, seed=seed,
                threshold=self.game.threshold,
                enough=until_decided(self.game.threshold, self.game.tolerance),
                most=self.game.draws,
                confidence=self.game.confidence,
            )  # fmt: skip
            asked = 0 if self.reads_trees else stopped.draws
            return exact.Probability(stopped.low, stopped.high, "sequential", queries=asked)
        if ensemble is None or self.game.method == "monte carlo":
            counts = monte_carlo(
                self.predict,
                self.noise,
                x,
                self.classes(x),
                ids,
                seed=seed,
                width=max(self.game.tolerance, 1e-9),
                most=self.game.draws,
                confidence=self.game.confidence,
                allowed=allowed,
                first=min(1000, self.game.draws),
            )
            asked = 0 if self.reads_trees else counts.draws
            return exact.Probability(*counts.interval(allowed), "sampled", queries=asked)
        ask = partial(
            exact.inside,
            ensemble,
            self.noise,
            x,
            allowed,
            tolerance=self.game.tolerance,
            budget=self.game.budget,
            seed=seed,
        )
        if self.game.method == "auto":
            return exact.with_estimate(
                ask(),
                ensemble,
                self.noise,
                x,
                allowed,
                tolerance=self.game.tolerance,
                budget=self.game.budget,
                seed=seed,
            )
        if self.game.method == "estimate":
            return ask(estimate=True)
        return ask(
            draws=Draws(self.game.draws, self.game.confidence, [generator(seed, i) for i in ids])
        )

    def certificate(self, x: Floats, allowed: Bools, seed: int = 0) -> exact.Probability:
        """As `_probability`, without the estimate that "auto" puts beside a wide certificate."""
        if self.ensemble is None or self.game.method != "auto":
            return self.probability(x, allowed, None, seed)
        return exact.inside(
            self.ensemble, self.noise, x, allowed, seed=seed,
            tolerance=self.game.tolerance, budget=self.game.budget,
        )  # fmt: skip

    def asking(self, share: float) -> Prepared:
        """Where labels are all there is: draws that stop when this probability is decided."""
        sampled = self.ensemble is None and self.game.method == "auto"
        if not sampled and self.game.method != "sequential":
            return self
        return self.having(method="sequential", threshold=share)

    def of_classes(self, x: Floats, seed: int) -> tuple[Floats, Floats]:
        """(low, high) of P(label = class) for every record and class, (n, classes)."""
        classes = self.classes(x)
        if self.ensemble is not None and self.game.method in ("auto", "estimate"):
            low, high, _ = exact.distribution(
                self.ensemble,
                self.noise,
                x,
                tolerance=self.game.tolerance,
                budget=self.game.budget,
                seed=seed,
                estimate=self.game.method == "estimate",
            )
            return low, high
        low, high = np.empty((len(x), classes)), np.empty((len(x), classes))
        for c in range(classes):
            one = np.eye(classes, dtype=bool)[None, c].repeat(len(x), 0)
            found = self.probability(x, one, seed=seed)
            low[:, c], high[:, c] = found.low, found.high
        return low, high

    def at_level(
        self, x: Floats, stays: Any, level: float, bias: bool, places: Any, seed: int
    ) -> tuple[Floats, Floats]:
        """Bounds at one level; of a bias the worse of both directions."""
        noises = [
            scaled(
                self.noise,
                x.shape[1],
                1.0 if bias else level,
                sign * level if bias else 0.0,
                places,
            )
            for sign in ((1.0, -1.0) if bias else (1.0,))
        ]
        found = [replace(self, noise=noise).certificate(x, stays, seed) for noise in noises]
        return np.min([f.low for f in found], axis=0), np.min([f.high for f in found], axis=0)

    def measured(self, row: Floats) -> Prepared:
        """The same game for one row (1, d), whose clean score the rule is about."""
        bound, fixed = measured_against(self.model, torch.from_numpy(row))
        if self.game.method not in ANY_MODEL and reader(bound.source) is not None:
            try:
                ((_, ensemble),) = ensembles_of(bound, np.zeros(1, np.int64))
                return replace(self, model=fixed, ensemble=ensemble)
            except Unsupported:
                if self.game.method != "auto":
                    raise
        if self.game.method in ("estimate", "combined"):
            raise Unsupported(
                f"method={self.game.method!r} reads trees; {self.model.title} is none: use 'auto'"
            )
        return replace(self, model=fixed)

    def agree(self, data: Dataset) -> int:
        """Compare the answers of what is played, trees read or model, with the model's own."""
        if self.ensemble is None:
            return agree(self.model, data)
        source = tree_source(self.model)
        if isinstance(source, Ensemble):
            return 0
        names = tuple(str(c) for c in self.ensemble.classes)
        if data.classes and data.classes != names and set(data.classes) == set(names):
            raise DurometerError(
                f"the data count their classes {', '.join(data.classes)}, the trees "
                f"{', '.join(names)}: give Dataset(..., classes={names})"
            )

        def votes(x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(np.eye(len(names))[self.predict(x.numpy())])

        return agree(replace(wrap(source), call=votes, answers="logits", names=names), data)

    def play(
        self, data: Dataset, index: torch.Tensor, space: Space | None, goal: Goal, seed: int
    ) -> Records:
        began = time.perf_counter()
        x, y = rows_of(data.x[index]), data.y[index]
        clean = self.predict(x)
        classes = self.classes(x)
        if isinstance(goal, Untargeted):
            stays = np.eye(classes, dtype=bool)[clean]
        else:
            blank = torch.nn.functional.one_hot(torch.from_numpy(clean), classes).double()
            stays = ~goal.targets(y, blank, index, data.classes).numpy()
        some = ~stays.all(1)  # the others have nothing to fear: they are no part of any figure
        found = self.probability(x, stays, data.ids[index.numpy()], seed)
        if isinstance(space, Lp):
            found = self.with_shift(found, x, stays, data.ids[index.numpy()], space, seed)
        seconds = time.perf_counter() - began
        return Records.of(
            len(x),
            id=data.ids[index.numpy()],
            y=y.numpy(),
            clean=clean,
            final=clean,
            success=(found.high < 0.5) & some,
            verdict=np.where(some, verdicts(found), ""),
            winner=np.where(some, found.kind, ""),
            seconds=seconds / len(x),
            forwards=np.where(some, found.queries, 0),
            probability_low=np.where(some, found.low, np.nan),
            probability_high=np.where(some, found.high, np.nan),
            estimate_low=np.nan if found.estimate_low is None else found.estimate_low,
            estimate_high=np.nan if found.estimate_high is None else found.estimate_high,
            skipped=np.where(some, "", "no target"),
        )

    def with_shift(
        self,
        found: exact.Probability,
        x: Floats,
        stays: Bools,
        ids: Sequence[object],
        space: Lp,
        seed: int,
    ) -> exact.Probability:
        """The least probability over all shifts of the space: bounded from below, and from above by
        the worst shift that the search found."""
        low = adversarial_shift(self.noise, x.shape[1], space.p, space.eps).worst(found.low)
        region = space.around(torch.from_numpy(x))
        places = worst_shifts(self.predict, self.noise, region, x, stays, ids, seed)
        high, queries = found.high, found.queries
        if not self.reads_trees:  # of several sampled intervals the lowest is too often too low
            places = places[:1]
            queries = queries + SEARCH
        for place in places:
            there = self.probability(place, stays, ids, seed)
            high, queries = np.minimum(high, there.high), queries + there.queries
        return exact.Probability(low, np.maximum(high, low), found.kind, queries=queries)


class _Counting:
    """A model that counts the rows it is asked."""

    def __init__(self, predict: Callable[[Floats], NDArray[np.int64]]) -> None:
        self.predict, self.rows = predict, 0

    def __call__(self, x: Floats) -> NDArray[np.int64]:
        self.rows += len(x)
        return self.predict(x)


def measured_by_row(model: Any) -> bool:
    """Whether each row is measured against its own clean score (`wrap(model, tolerance=)`)."""
    rule = rule_behind(model)
    return rule is not None and rule.cuts is None


def verdicts(found: exact.Probability) -> NDArray[np.str_]:
    """More likely to stay than not: known ("proven", only by a certificate), known not to
    ("broken"), or undecided ("open")."""
    stays = "proven" if found.kind in ("exact", "certified") else ""
    return np.where(found.high < 0.5, "broken", np.where(found.low >= 0.5, stays, "open"))


def joined(parts: Sequence[exact.Probability]) -> exact.Probability:
    """The probabilities of several records as one; the weakest kind among them is that of all."""

    def all_of(values: list[Any]) -> Floats:
        return np.concatenate([np.atleast_1d(v) for v in values])

    kinds = {p.kind for p in parts}
    known = [k for k in WEAKEST_FIRST if k in kinds]
    none = np.array([np.nan])
    return exact.Probability(
        all_of([p.low for p in parts]),
        all_of([p.high for p in parts]),
        known[0] if known else parts[0].kind,
        all_of([none if p.estimate_low is None else p.estimate_low for p in parts]),
        all_of([none if p.estimate_high is None else p.estimate_high for p in parts]),
        all_of([p.queries for p in parts]).astype(np.int64),
    )


def tree_source(model: Any) -> Any:
    """The model itself, or what was wrapped if that is trees."""
    return (
        model.source
        if isinstance(model, Classifier) and reader(model.source) is not None
        else model
    )


def rows_of(data: Any) -> Floats:
    """Records as float64 (n, features), whatever they come in."""
    x = data.x if isinstance(data, Dataset) else data
    x = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if x.ndim < 2:
        raise DurometerError(
            f"records of shape {x.shape}: expected (n, features); one alone is x[None]"
        )
    return np.ascontiguousarray(x.reshape(len(x), -1).astype(np.float64))


def feature_names(data: Any, features: int) -> list[Any]:
    """Columns with their units, names of a schema, or numbers."""
    if getattr(data, "columns", None) is not None:
        units = getattr(data, "attrs", {}).get("units", {})
        return [f"{name} [{units[name]}]" if name in units else name for name in data.columns]
    listed = getattr(getattr(data, "schema", None), "names", None)
    return list(listed) if listed is not None and len(listed) == features else list(range(features))


def _index(data: Any) -> Any:
    return data.ids if isinstance(data, Dataset) else getattr(data, "index", None)
