"""Nature: no adversary. How likely does the decision change when a reading is off by its known
error?

    report = du.evaluate(du.Nature(forest, du.Normal(sd=0.1)), data)

Real-world robustness (Scher & Truegler 2022): R = P(f(x + e) = f(x)). Tree ensembles get exact or
certified intervals (probability/methods.py), every other classifier Monte Carlo with a
Clopper-Pearson interval. With a goal other than untargeted, R is the probability that the label
does *not* land in the goal's classes. With a space, somebody may shift the input first: R is the
least over all shifts, between a certificate and the worst shift found.

What a reader would get wrong: "stays" means the *predicted* label, right or wrong, as in the
paper; `expected_accuracy` is the probability of the true one. And `winner` says what kind of
promise an interval is ("exact", "certified", "numerical", "estimate", "sampled", "importance"),
because they are not the same. A probability need not fall steadily with the noise:
`breakdown_noise_level` is about the levels it was asked about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from durometer.attacks.base import Attack
from durometer.core import serialization
from durometer.core.errors import DurometerError, Unsupported
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
from durometer.probability.smoothing import (
    SEARCH,
    adversarial_shift,
    certified_radii,
    check_shift,
    finer_width,
    worst_shifts,
)
from durometer.spaces.lp import Lp
from durometer.spaces.region import Space
from durometer.trees.ensemble import Ensemble
from durometer.trees.readers import read, reader

TOLERANCE = 1e-6
# What a screening spends in turn: a share of the budget, and the width it stops at, as a share of
# what may change. Few records are so near the border that only the last stage's width tells.
STAGES = ((0.001, 1 / 4), (0.02, 1 / 4), (1.0, 1 / 100))
ROWS = 1000  # records at a time: their cells' masses must fit
LEVELS = tuple(float(k) for k in np.geomspace(1 / 16, 16, 33))
ASKED = ("method", "tolerance", "budget", "draws", "confidence")


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
            for other models), "estimate" (trees, by quasi-Monte-Carlo), "combined" (trees:
            certified bounds, then sampling of the rest), "monte carlo" (any model) or "importance"
            (any model, for rare changes).
        draws: Largest number of draws per row, where draws are made.
        confidence: Confidence of intervals from draws.

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
    noise: Noise
    tolerance: float = field(default=TOLERANCE, metadata={"above": 0, "below": 1})
    budget: float = field(default=1.0, metadata={"above": 0})
    method: Literal["auto", "estimate", "combined", "monte carlo", "importance"] = "auto"
    draws: int = 100_000
    confidence: float = field(default=0.99, metadata={"above": 0, "below": 1})
    _ensemble: Ensemble | None = field(default=None, repr=False)
    __eq__, __hash__ = (
        serialization.equal_fields,
        serialization.hash_by_type,
    )  # of one and the same model

    gaps: ClassVar[bool] = True  # a missing value has no measurement error and stays missing
    divisible: ClassVar[bool] = True  # records do not meet: any batch can be played by itself
    batch: ClassVar[int] = 32  # a record may take its whole budget: the bar should move

    def __post_init__(self) -> None:
        if not hasattr(self.noise, "marginals"):
            raise DurometerError(
                f"noise={self.noise!r}: expected a noise, e.g. du.Normal(sd=0.1) or "
                "du.Independent([du.noise.normal(0, 0.1), ...])"
            )

    def describe(self) -> Spec:
        model = wrap(tree_source(self.model), name=getattr(self.model, "name", ""))
        return replace(
            model.described,
            game={"type": "Nature"} | {name: to_jsonable(getattr(self, name)) for name in ASKED},
            noise=to_dict(self.noise),
            under=getattr(self.noise, "description", type(self.noise).__name__),
        )

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The labels of some rows, one-hot; part of the fingerprint of a run.

        Args:
            x: Inputs (n, features).
        """
        ready = self._ready()
        rows = rows_of(x)
        labels = torch.from_numpy(ready.predict(rows))
        return torch.nn.functional.one_hot(labels, ready._classes(rows)).double()

    def default_attack(self, space: Space | None) -> Attack | None:
        return None  # nobody attacks

    def refuses(self, goal: Expandable, run: Carried) -> str | None:
        return refused_quota(self) if goal.together else None

    def _named(self, data: Any) -> Nature:
        """With the noise's features and the trees' in the order of the data's columns."""
        columns = getattr(data, "columns", None)
        named = None if columns is None else [str(c) for c in columns]
        made = self
        if getattr(self.noise, "names", None) is not None:
            made = replace(self, noise=self.noise.arranged(named))  # type: ignore[attr-defined]
        source = tree_source(self.model)
        if self._ensemble is not None or named is None or names_of(source, named) is None:
            return made
        ready = made._ready()
        place = None if ready._ensemble is None else column_indices(source, Columns.named(named))
        if place is None or ready._ensemble is None:  # a model of another kind is asked by name
            return made
        return replace(ready, _ensemble=ready._ensemble.asked_by(place, len(named)))

    def prepare(
        self, data: Dataset, space: Space | None, goal: Goal, attack: Attack | None
    ) -> tuple[Nature, dict[str, Any]]:
        """Reads the trees and checks the noise against the data; see `Game.prepare`."""
        if attack is not None:
            raise Unsupported(
                "Nature plays no attack: a space says how far somebody may shift the input before "
                "the noise, and the worst shift is bounded; use Static for attacks"
            )
        if space is not None:
            check_shift(self._named(data).noise, space, rows_of(data))
        check_kinds(space, goal, attack)
        if isinstance(goal, LeastLikely):
            raise Unsupported("least_likely under noise: name the class, e.g. du.Targeted(2)")
        ready = self._named(data)._ready()
        x = rows_of(data)
        ready.noise.marginals(x.shape[1])
        ready.noise.correlation(x.shape[1])
        if ready._ensemble is None:
            model = probe(align_columns(ready.model, data), torch.from_numpy(x[:32]))
            ready = replace(ready, model=model)
        score = self.model.score if isinstance(self.model, Classifier) else None
        facts = {"agreed": ready._agree(data), "score": score}
        classes = ready._classes(x)
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
        return ready, facts | {
            "classes": classes,
            **({} if space is not None else {"tolerance": self.tolerance}),
            "tolerance_given": self.tolerance != TOLERANCE,
            "moved": getattr(self.noise, "moved", 0.0),
        }

    def _agree(self, data: Dataset) -> int:
        """Compare the answers of what is played, trees read or model, with the model's own."""
        if self._ensemble is None:
            return agree(self.model, data)
        source = tree_source(self.model)
        if isinstance(source, Ensemble):
            return 0
        names = tuple(str(c) for c in self._ensemble.classes)
        if data.classes and data.classes != names and set(data.classes) == set(names):
            raise DurometerError(
                f"the data count their classes {', '.join(data.classes)}, the trees "
                f"{', '.join(names)}: give Dataset(..., classes={names})"
            )

        def votes(x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(np.eye(len(names))[self.predict(x.numpy())])

        return agree(replace(wrap(source), call=votes, answers="logits", names=names), data)

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
            yield ready._play(data, rows, space, goal, seed)

    def _play(
        self, data: Dataset, index: torch.Tensor, space: Space | None, goal: Goal, seed: int
    ) -> Records:
        began = time.perf_counter()
        x, y = rows_of(data.x[index]), data.y[index]
        clean = self.predict(x)
        classes = self._classes(x)
        if isinstance(goal, Untargeted):
            stays = np.eye(classes, dtype=bool)[clean]
        else:
            blank = torch.nn.functional.one_hot(torch.from_numpy(clean), classes).double()
            stays = ~goal.targets(y, blank, index, data.classes).numpy()
        some = ~stays.all(1)  # the others have nothing to fear: they are no part of any figure
        found = self.probability(x, stays, data.ids[index.numpy()], seed)
        if isinstance(space, Lp):
            found = self._with_shift(found, x, stays, data.ids[index.numpy()], space, seed)
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

    def _with_shift(
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
        return self._ready()._probability(x, allowed, ids, seed)

    def _probability(
        self, x: Floats, allowed: Bools, ids: Any = None, seed: int = 0
    ) -> exact.Probability:
        """By `method`, of a game whose trees have been read; no trees: always sampled."""
        ids = list(range(len(x)) if ids is None else ids)
        ensemble = self._ensemble
        if self.method == "importance":
            model = _Counting(self.predict)
            low, high, queries = np.empty(len(x)), np.empty(len(x)), np.zeros(len(x), np.int64)
            for i in range(len(x)):
                before, one = model.rows, slice(i, i + 1)
                low[one], high[one] = sampled_where_labels_change(
                    model, self.noise, x[one], allowed[one], ids[one],
                    seed=seed, draws=self.draws, confidence=self.confidence,
                )  # fmt: skip
                queries[i] = model.rows - before
            return exact.Probability(
                low, high, "importance", queries=0 if self.reads_trees else queries
            )
        if ensemble is None or self.method == "monte carlo":
            counts = monte_carlo(
                self.predict,
                self.noise,
                x,
                self._classes(x),
                ids,
                seed=seed,
                width=max(self.tolerance, 1e-9),
                most=self.draws,
                confidence=self.confidence,
                allowed=allowed,
                first=min(1000, self.draws),
            )
            asked = 0 if self.reads_trees else counts.draws
            return exact.Probability(*counts.interval(allowed), "sampled", queries=asked)
        ask = partial(
            exact.inside,
            ensemble,
            self.noise,
            x,
            allowed,
            tolerance=self.tolerance,
            budget=self.budget,
            seed=seed,
        )
        if self.method == "auto":
            return exact.with_estimate(
                ask(),
                ensemble,
                self.noise,
                x,
                allowed,
                tolerance=self.tolerance,
                budget=self.budget,
                seed=seed,
            )
        if self.method == "estimate":
            return ask(estimate=True)
        return ask(draws=Draws(self.draws, self.confidence, [generator(seed, i) for i in ids]))

    def _certificate(self, x: Floats, allowed: Bools, seed: int = 0) -> exact.Probability:
        """As `_probability`, without the estimate that "auto" puts beside a wide certificate."""
        if self._ensemble is None or self.method != "auto":
            return self._probability(x, allowed, None, seed)
        return exact.inside(
            self._ensemble, self.noise, x, allowed, tolerance=self.tolerance, budget=self.budget,
            seed=seed,
        )  # fmt: skip

    def _of_classes(self, x: Floats, seed: int) -> tuple[Floats, Floats]:
        """(low, high) of P(label = class) for every record and class, (n, classes)."""
        classes = self._classes(x)
        if self._ensemble is not None and self.method in ("auto", "estimate"):
            low, high, _ = exact.distribution(
                self._ensemble,
                self.noise,
                x,
                tolerance=self.tolerance,
                budget=self.budget,
                seed=seed,
                estimate=self.method == "estimate",
            )
            return low, high
        low, high = np.empty((len(x), classes)), np.empty((len(x), classes))
        for c in range(classes):
            one = np.eye(classes, dtype=bool)[None, c].repeat(len(x), 0)
            found = self.probability(x, one, seed=seed)
            low[:, c], high[:, c] = found.low, found.high
        return low, high

    def distribution(self, data: Any, seed: int = 0) -> tuple[Floats, Floats]:
        """The probability of every class for each record.

        Args:
            data: A `Dataset`, a table or records (n, features).
            seed: Seed of the draws.

        Returns:
            Lower and upper bounds, two arrays (n, classes).
        """
        return self._named(data)._ready()._of_classes(rows_of(data), seed)

    def expected_accuracy(self, data: Dataset, seed: int = 0) -> tuple[float, float]:
        """Bounds of the mean probability of the true class.

        Args:
            data: The records with their true classes.
            seed: Seed of the draws.

        Returns:
            Lower and upper bound.
        """
        x = rows_of(data)
        ready = self._named(data)._ready()
        classes = ready._classes(x)
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

        ready, x = self._named(data)._ready(), rows_of(data)
        stays = np.eye(ready._classes(x), dtype=bool)[ready.predict(x)]
        before = ready._certificate(x, stays, seed)
        low, high = {}, {}
        for f, name in enumerate(feature_names(data, x.shape[1])):
            quiet = without_noise(ready.noise, f, x.shape[1])
            if quiet is ready.noise:  # the feature has no noise: nothing to gain
                low[name] = high[name] = np.zeros(len(x))
                continue
            after = replace(ready, noise=quiet)._certificate(x, stays, seed)
            low[name], high[name] = after.low - before.high, after.high - before.low
        ends = {"low": pd.DataFrame(low, _index(data)), "high": pd.DataFrame(high, _index(data))}
        return pd.concat(ends, axis=1)

    def certified_radius(self, data: Any, seed: int = 0, like: int | None = None) -> Any:
        """The shift within which the likeliest class under noise is certified to stay the
        likeliest; normal noise only.

        Args:
            data: A `Dataset`, a table or records (n, features).
            seed: Seed of the draws.
            like: Precision, as the standard error of so many draws; much cheaper. None: the
                precision `tolerance`.

        Returns:
            A data frame with "label", the radius in standard deviations of the noise ("sds") and in
                units of the data ("L2"). 0: no class is certain to be the likeliest.

        Raises:
            Unsupported: The noise is not normal.
        """
        import pandas as pd

        if like is not None and not like >= 100:
            raise DurometerError(
                f"like={like}: expected a number of draws to be as precise as, e.g. 10**5"
            )
        named, x = self._named(data), rows_of(data)
        per_unit = adversarial_shift(named.noise, x.shape[1], 2.0, 1.0).sds
        if per_unit is None:
            raise Unsupported(
                "a radius is for normal noise; for uniform noise give evaluate a space"
            )
        ready = named._ready()
        label, sds = np.zeros(len(x), np.int64), np.zeros(len(x))
        first = self.tolerance if like is None else 0.3 / np.sqrt(like)
        width, todo = np.full(len(x), first), np.arange(len(x))
        for _ in range(1 if like is None else 4):
            for asked in np.unique(width[todo]):
                rows = todo[width[todo] == asked]
                low, high = replace(ready, tolerance=float(asked))._of_classes(x[rows], seed)
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
        ready, x = self._named(data)._ready(), rows_of(data)
        label = ready.predict(x)
        low, high = np.zeros(len(x)), np.ones(len(x))
        todo = np.arange(len(x))
        for part, width in STAGES:
            quick = replace(
                ready, budget=part * self.budget, tolerance=max(self.tolerance, (1 - share) * width)
            )
            for rows in np.array_split(todo, max(len(todo) // ROWS, 1)):
                stays = np.eye(ready._classes(x[:1]), dtype=bool)[label[rows]]
                found = quick._certificate(x[rows], stays, seed)
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
        ready, x = self._named(data)._ready(), rows_of(data)
        places = None
        if feature is not None:
            known = feature_names(data, x.shape[1])
            if feature not in known:
                raise DurometerError(
                    f"no feature {feature!r}; features are {', '.join(map(str, known))}"
                )
            places = (known.index(feature),)
        stays = np.eye(ready._classes(x), dtype=bool)[ready.predict(x)]
        safe, fallen = np.zeros(len(x)), np.full(len(x), np.inf)
        sure, todo = np.ones(len(x), dtype=bool), np.arange(len(x))
        for level in steps:
            lows, highs = ready._at_level(x[todo], stays[todo], level, bias, places, seed)
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
        named, x = self._named(data), rows_of(data)
        names = [str(name) for name in feature_names(data, x.shape[1])]
        screened = self.rank_by_stability(data, share, seed)
        index = list(range(len(x))) if _index(data) is None else list(_index(data))
        least = [index.index(i) for i in screened.index[:rows]]
        few = Dataset(x[least], np.zeros(len(least), dtype=int), ids=[str(index[i]) for i in least])
        asked = replace(named._ready(), noise=named.noise)
        gains = asked.importance(few, seed).rename(columns=dict(enumerate(names)), level=1)
        levels = LEVELS[::2]
        noise = asked.breakdown_noise_level(few, share, levels=levels, seed=seed)
        drift = asked.breakdown_noise_level(few, share, bias=True, levels=levels, seed=seed)
        picture = None
        if named._ready()._ensemble is not None and x.shape[1] > 1:
            best = np.argsort(-gains["low"].mean().to_numpy(), kind="stable")[:2]
            two = (int(best[0]), int(best[1]))
            drawn = regions(self.model, named.noise, x[least[0]], two, names)
            picture = Markup(drawn)
        said = getattr(named.noise, "description", type(named.noise).__name__)
        title = f"durometer: {len(x):,} records under noise"
        return nature_page(
            title, str(said).rstrip("."), share, screened, gains, noise, drift, picture
        )

    def _at_level(
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
        found = [replace(self, noise=noise)._certificate(x, stays, seed) for noise in noises]
        return np.min([f.low for f in found], axis=0), np.min([f.high for f in found], axis=0)

    def predict(self, x: Floats) -> NDArray[np.int64]:
        """The class indices of records without noise.

        Args:
            x: Records (n, features).
        """
        ready = self._ready()
        if ready._ensemble is not None:
            return ready._ensemble.decide(x)
        model: Classifier = ready.model
        with model.ready(), torch.no_grad():
            return model.logits(torch.from_numpy(np.ascontiguousarray(x))).argmax(1).cpu().numpy()

    def _ready(self) -> Nature:
        """With the trees read (once), or the model wrapped."""
        if self._ensemble is not None or (
            isinstance(self.model, Classifier) and reader(self.model.source) is None
        ):
            return self
        source = tree_source(self.model)
        if isinstance(source, Ensemble) or reader(source) is not None:
            try:
                return replace(self, _ensemble=read(source))
            except Unsupported as error:
                if self.method not in ("monte carlo", "importance"):
                    raise Unsupported(f"{error}; sample it: method='monte carlo'") from None
                return replace(self, model=wrap(self.model))
        if self.method in ("estimate", "combined"):
            raise Unsupported(
                f"method={self.method!r} reads trees; {type(source).__name__} is none: use 'auto'"
            )
        return replace(self, model=wrap(self.model))

    @property
    def reads_trees(self) -> bool:
        """Whether labels come from trees that were read, not from the model itself."""
        return self._ensemble is not None

    def _classes(self, x: Floats) -> int:
        if self._ensemble is not None:
            return self._ensemble.n_classes
        model: Classifier = self.model
        with model.ready(), torch.no_grad():
            return int(model.logits(torch.from_numpy(np.ascontiguousarray(x[:1]))).shape[1])


class _Counting:
    """A model that counts the rows it is asked."""

    def __init__(self, predict: Callable[[Floats], NDArray[np.int64]]) -> None:
        self.predict, self.rows = predict, 0

    def __call__(self, x: Floats) -> NDArray[np.int64]:
        self.rows += len(x)
        return self.predict(x)


def verdicts(found: exact.Probability) -> NDArray[np.str_]:
    """More likely to stay than not: known ("proven", only by a certificate), known not to
    ("broken"), or undecided ("open")."""
    stays = "proven" if found.kind in ("exact", "certified") else ""
    return np.where(found.high < 0.5, "broken", np.where(found.low >= 0.5, stays, "open"))


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
