"""Prediction sets that hold the true class at a stated rate, under attack too (conformal).

The score of a class is how far the best other class leads it. Calibrated on clean rows alone, sets
{classes whose score is at most a quantile} hold the true class of a clean row at the rate asked
for, and of an attacked row at no rate at all. Two repairs rest on bounds of the network (Jeary et
al. 2024, VRCP):

calibration   the quantile is one of scores' upper bounds over the regions of the calibration rows;
              sets cost one forward pass
inference     the quantile is of clean scores; a set holds each class whose score may be as low
              somewhere in the region around the input; in Lp balls, which are symmetric

What a reader would get wrong: the rate is one over draws of calibration rows and test row together,
all exchangeable; not one of a class, nor of rows that the attacker chose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.dataset import Dataset
from durometer.model.classifier import Classifier, wrap
from durometer.proofs.bounds.inputs import domain
from durometer.proofs.bounds.reading import read_model
from durometer.proofs.networks import bounded, leads
from durometer.report.stats import Estimate, wilson
from durometer.spaces.ball import LpRegion
from durometer.spaces.region import Space

_ROWS = 32  # that are bounded at a time


@dataclass(frozen=True)
class SetSummary:
    """How often sets hold the true class, and how large they are.

    Args:
        coverage: Share of rows whose set holds the true class, with its 95 % interval.
        size: Mean number of classes in a set.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> summary = du.conformal_sets(net, data, du.Linf(0.02), alpha=0.2).summary(data)
    >>> summary.coverage.value, summary.size
    (1.0, 1.0)
    """

    coverage: Estimate
    size: float


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Prediction sets with a stated coverage under attack; made by `conformal_sets`.

    Args:
        model: The network.
        space: What the attacker may change.
        alpha: Share of rows whose set may miss the true class.
        robust: Where the bounds enter: "calibration", "inference", or "no" for sets that know no
            attacker.
        threshold: Largest score of a class in a set; infinite where there were too few calibration
            rows, and every set is full.
        rows: Number of calibration rows.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> sets = du.conformal_sets(net, data, du.Linf(0.02), alpha=0.2)
    >>> sets.rows, sets(data.x).shape
    (16, torch.Size([16, 3]))
    """

    model: Classifier = field(repr=False)
    space: Space
    alpha: float
    robust: Literal["calibration", "inference", "no"]
    threshold: float
    rows: int

    def __call__(self, x: Tensor) -> Tensor:
        """The sets of inputs: (n, classes), True where the class belongs to the set.

        Args:
            x: Inputs (n, ...), attacked or not.
        """
        scores = _lowest(self.model, self.space, x) if self.robust == "inference" else None
        found: Tensor = (_scores(self.model, x) if scores is None else scores) <= self.threshold
        return found

    def summary(self, data: Dataset) -> SetSummary:
        """Coverage and size of the sets on labelled rows, clean or attacked.

        Args:
            data: The rows.
        """
        sets = self(data.x)
        held = int(sets.gather(1, data.y[:, None]).sum())
        return SetSummary(wilson(held, len(data)), float(sets.sum(1).double().mean()))


def conformal_sets(
    model: Any,
    data: Dataset,
    space: Space,
    alpha: float = 0.1,
    robust: Literal["calibration", "inference", "no"] = "calibration",
) -> ConformalSets:
    """Calibrates prediction sets that hold the true class at a rate of at least 1 - alpha, for any
    input of a row's region.

    The rate is one over calibration rows and test row, drawn alike (Jeary et al., 2024). It needs a
    network that `Bounds` reads, without a last softmax.

    Args:
        model: The network.
        data: Calibration rows, not trained on.
        space: What the attacker may change.
        alpha: Share of rows whose set may miss the true class, between 0 and 1.
        robust: Where the bounds enter. "calibration": sets cost one forward pass; any space.
            "inference": sets are bounded one by one; Lp balls only. "no": sets without an
            attacker, for comparison.

    Returns:
        A `ConformalSets`: call it with inputs.

    Raises:
        DurometerError: A parameter has an impossible value.
        Unsupported: The network has no bounds, or the space is no ball and `robust` is "inference".

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> sets = du.conformal_sets(net, data, du.Linf(0.02), alpha=0.2)
    >>> sets(data.x).sum(1).tolist()[:8]
    [1, 1, 1, 1, 1, 1, 1, 1]
    """
    if not (isinstance(alpha, float) and 0 < alpha < 1):
        raise DurometerError(f"alpha={alpha!r}: expected a share between 0 and 1")
    if robust not in ("calibration", "inference", "no"):
        raise DurometerError(f"robust={robust!r}: expected 'calibration', 'inference' or 'no'")
    model = wrap(model)
    if robust == "inference" and not isinstance(space.around(data.x[:1]), LpRegion):
        raise Unsupported(
            f"robust='inference' needs a ball, which is symmetric, not {space!r}; use 'calibration'"
        )
    if robust == "calibration":
        scores = _highest(model, space, data.x, data.y)
    else:
        scores = _scores(model, data.x).gather(1, data.y[:, None])[:, 0]
    rank = math.ceil((len(scores) + 1) * (1 - alpha))
    last = float(scores.sort().values[rank - 1]) if rank <= len(scores) else math.inf
    return ConformalSets(model, space, alpha, robust, last, len(scores))


def _scores(model: Classifier, x: Tensor) -> Tensor:
    """(n, C): how far the best other class leads each."""
    with model.ready(), torch.no_grad():
        logits = model.logits(x).double()
    top = logits.topk(2, dim=1)
    best = torch.where(
        top.indices[:, :1] == torch.arange(logits.shape[1]), top.values[:, 1:], top.values[:, :1]
    )
    return best - logits


def _highest(model: Classifier, space: Space, x: Tensor, y: Tensor) -> Tensor:
    """(n,): upper bounds of the score of the true class anywhere in the regions."""
    found = []
    for part, label in zip(torch.split(x, _ROWS), torch.split(y, _ROWS), strict=True):
        every = torch.nn.functional.one_hot(label, _classes(model, x)).bool()
        (bound,) = _bounds(model, space, part, [~every])
        found.append(bound.amax(1))
    return torch.cat(found)


def _lowest(model: Classifier, space: Space, x: Tensor) -> Tensor:
    """(n, C): lower bounds of the score of each class anywhere in the regions."""
    found = []
    count = _classes(model, x)
    for part in torch.split(x, _ROWS):
        goals = [torch.arange(count).eq(c).expand(len(part), count) for c in range(count)]
        found.append(torch.stack([-b.amin(1) for b in _bounds(model, space, part, goals)], 1))
    return torch.cat(found)


def _classes(model: Classifier, x: Tensor) -> int:
    with model.ready(), torch.no_grad():
        return model.logits(x[:1]).shape[1]


def _bounds(model: Classifier, space: Space, x: Tensor, goals: list[Tensor]) -> list[Tensor]:
    """(n, m) each: how far the classes of a goal lead those outside it, at most."""
    with model.ready(), torch.no_grad():
        reading = read_model(model, x[:8])
        if reading.turns:
            raise Unsupported(
                "conformal_sets: the network ends in a softmax or gives one probability; give it "
                "without, so that its bounds are on the scale of its scores"
            )
        network = bounded(reading.program, domain(space.around(x), reading.program.encoder))
        made = []
        for goal in goals:
            spec, offset = reading.spec(leads(goal)[0])
            bound = (network.highest(spec) + offset).nan_to_num(nan=torch.inf, posinf=torch.inf)
            made.append(bound + 1e-9 * (1 + bound.abs()))  # the scores' own differences
    return made
