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
because they are not the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from durometer.attacks.base import Attack
from durometer.core import serialization
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.records import Records
from durometer.core.serialization import to_dict
from durometer.core.validation import noun
from durometer.data.columns import Columns
from durometer.data.dataset import Dataset
from durometer.games import sensitivity
from durometer.games.arguments import check_kinds, refused_quota
from durometer.games.game import USUAL, Carried, Play
from durometer.games.nature_methods import by_method, of_classes, tree_source, verdicts
from durometer.games.rows import rows_of
from durometer.games.shifts import check_shift, with_shift
from durometer.goals.classes import LeastLikely, Untargeted
from durometer.goals.goal import Expandable, Goal
from durometer.kernels.arrays import Bools, Floats
from durometer.model.agreement import agree
from durometer.model.classifier import Classifier, wrap
from durometer.model.frames import align_columns, column_indices, names_of
from durometer.model.probe import probe
from durometer.noise.joint import Noise
from durometer.probability import methods as exact
from durometer.spaces.lp import Lp
from durometer.spaces.region import Space
from durometer.trees.ensemble import Ensemble
from durometer.trees.readers import read, reader

TOLERANCE = 1e-6
ASKED = ("method", "tolerance", "budget", "draws", "confidence")


@noun(eq=False)
class Nature:
    """A classifier and the noise its inputs carry.

    `tolerance`: the width to reach; `budget`: about seconds of one core per record, counted as
    work, so that results do not depend on the machine. `method`: "auto" (trees: certified, with an
    estimate beside a certificate that stays wide); "estimate" (trees by quasi-Monte-Carlo along one
    feature); "combined" (certified bounds, then sampling of what they
    leave open); "monte carlo" (any model); "importance" (the same for rare changes). Where
    draws are made, `draws` is the most per record and `confidence` that of their interval.

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

    def describe(self) -> dict[str, Any]:
        model = wrap(tree_source(self.model), name=getattr(self.model, "name", ""))
        return {
            "game": {"type": "Nature"} | {name: getattr(self, name) for name in ASKED},
            **model.described,
            "noise": to_dict(self.noise),
            "under": getattr(self.noise, "description", type(self.noise).__name__),
        }

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The labels of these rows, one-hot: the fingerprint of a run."""
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
        """Read the trees, check the noise against the data."""
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
        """The records, a batch at a time."""
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
            found = with_shift(self, found, x, stays, data.ids[index.numpy()], space, seed)
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

    def probability(
        self, x: Floats, allowed: Bools, ids: Any = None, seed: int = 0
    ) -> exact.Probability:
        """P(label in allowed[i]) for each record, by the method that fits."""
        return by_method(self._ready(), x, allowed, ids, seed)

    def distribution(self, data: Any, seed: int = 0) -> tuple[Floats, Floats]:
        """(low, high) of P(label = class) for every record and class, (n, classes)."""
        return of_classes(self._named(data)._ready(), rows_of(data), seed)

    def expected_accuracy(self, data: Dataset, seed: int = 0) -> tuple[float, float]:
        """Bounds of the mean probability of the true class, over these records."""
        x = rows_of(data)
        ready = self._named(data)._ready()
        classes = ready._classes(x)
        found = ready.probability(x, np.eye(classes, dtype=bool)[data.y.numpy()], data.ids, seed)
        return float(found.low.mean()), float(found.high.mean())

    def importance(self, data: Any, seed: int = 0) -> Any:
        """Which features' noise matters: bounds on what each record gains when one feature reads
        exactly, `["low"]` and `["high"]` (records x features)."""
        return sensitivity.importance(self, data, seed)

    def certified_radius(self, data: Any, seed: int = 0, like: int | None = None) -> Any:
        """How far the smoothed model's answer is certain: "label", "sds" and "L2" per record, to
        `tolerance` of the probabilities or, much cheaper, as precisely as `like` draws tell."""
        return sensitivity.certified_radius(self, data, seed, like)

    def rank_by_stability(self, data: Any, share: float = 0.99, seed: int = 0) -> Any:
        """Many records, the worst first: "low", "high" and whether "stays" with probability `share`
        is known ("yes", "no", "open")."""
        return sensitivity.rank_by_stability(self, data, share, seed)

    def breakdown_noise_level(
        self,
        data: Any,
        share: float = 0.99,
        *,
        bias: bool = False,
        feature: Any = None,
        levels: Any = sensitivity.LEVELS,
        seed: int = 0,
    ) -> Any:
        """The noise level (or bias) at which a decision falls below `share`: "low" and "high" per
        record, as multiples of the noise (of its standard deviations)."""
        return sensitivity.breakdown_noise_level(self, data, share, bias, feature, levels, seed)

    def html_report(self, data: Any, share: float = 0.99, rows: int = 6, seed: int = 0) -> str:
        """A page (HTML) of all these answers: unsure records, instruments, noise and drift."""
        return sensitivity.html_report(self, data, share, rows, seed)

    def predict(self, x: Floats) -> NDArray[np.int64]:
        """Class indices, by the trees read or by the model itself."""
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
