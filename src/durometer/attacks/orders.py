"""Orders: which target to try first. Scores per (row, target), lower is more promising.

Lin et al. (NDSS 2024, III-B) order the attempts of an attacker who may choose among targets by

    prior     1 - share of validation rows of class s that could be turned into t
    MD        sum_j relu(z_j - z_t) on the clean input, or after one step of the attack on t
    products  (1 - prior) * MD

The same orders serve a single row (`Guess`: which of my targets?) and a band of attackers
(`Campaign`: which of us, as whom?).

What a reader would get wrong: MD after one step costs a gradient per target, so it is not free;
it also finds successes on the way, which count, since the referee judges every query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

import torch
from torch import Tensor

from durometer.core.devices import widest
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.model.answers import ANY, SCORES
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

__all__ = ["ByChance", "ByDistance", "ByMD", "ByPrior", "Order", "Product"]


class Order(ABC):
    """An order of attempts: a score for every pair (row, target), lower is tried first.

    Orders multiply: `ByMD(1) * ByPrior(P)`.

    >>> from durometer import orders
    >>> orders.ByMD(1) * orders.ByChance()
    Product(first=ByMD(steps=1, start='random', among=None), second=ByChance())
    """

    wants: Needs = Needs(ANY)  # not `needs`: an order is no attack

    @abstractmethod
    def scores(self, problem: Problem) -> Tensor:
        """The score of every pair (row, target).

        Args:
            problem: The rows to attack.

        Returns:
            (n, C), finite and at least 0; only the entries of the problem's targets are used.
        """

    def __mul__(self, other: Order) -> Product:
        return Product(self, other)


@noun
class Product(Order):
    """The product of two orders' scores; `first * second` makes one.

    Args:
        first: An order.
        second: Another order.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> both = du.orders.Product(du.orders.ByMD(), du.orders.ByChance())
    >>> attack = du.Guess(du.PGD(5), most=1, order=both)
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=attack).metric("robust").value
    0.25
    """

    first: Order
    second: Order

    @property
    def wants(self) -> Needs:  # type: ignore[override]
        """What both orders require together."""
        return self.first.wants | self.second.wants

    def scores(self, problem: Problem) -> Tensor:
        return self.first.scores(problem) * self.second.scores(problem)


@noun
class ByChance(Order):
    """A random order, the baseline.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> attack = du.Guess(du.PGD(5), most=1, order=du.orders.ByChance())
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=attack).metric("robust").value
    0.25
    """

    def scores(self, problem: Problem) -> Tensor:
        rows = torch.arange(len(problem.y), device=problem.y.device)
        return problem.random.uniform(rows, problem.clean.shape[1])


@noun
class ByPrior(Order):
    """Targets in the order of how often an attack reached them from the same true class on other
    data.

    Args:
        P: Share of the rows of class s that were turned into t: a matrix (C, C), or a mapping {(s,
            t): share}.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> known = {(0, 1): 0.9, (1, 2): 0.9, (2, 0): 0.9}
    >>> attack = du.Guess(du.PGD(5), most=1, order=du.orders.ByPrior(known))
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=attack).metric("robust").value
    0.5
    """

    P: Any

    def scores(self, problem: Problem) -> Tensor:
        count = problem.clean.shape[1]
        if isinstance(self.P, Mapping):
            matrix = torch.zeros(count, count, dtype=torch.float64)
            for (s, t), share in self.P.items():
                matrix[s, t] = share
        else:
            matrix = torch.as_tensor(self.P, dtype=torch.float64)
        if matrix.shape != (count, count):
            raise DurometerError(
                f"ByPrior(P): P has shape {tuple(matrix.shape)}; expected ({count}, {count}), "
                "one row per true class and one column per target"
            )
        device = problem.y.device
        return 1 - matrix.to(widest(device)).to(device)[problem.y]


@noun
class ByMD(Order):
    """Targets in the order of the minimal difference (Lin et al., NDSS 2024): the sum of what all
    classes lead the target by.

    Args:
        steps: Gradient steps towards each target before it is measured. 0: on the clean input. 1 as
            published; a step is then twice the region's size long.
        start: "random" (as published) or "clean": where these steps begin.
        among: Number of nearest targets, by the clean input, that are measured so; the others come
            after them. None: all.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> attack = du.Guess(du.PGD(5), most=1, order=du.orders.ByMD(1))
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=attack).metric("robust").value
    0.25
    """

    steps: int = field(default=0, metadata={"least": 0})
    start: Literal["random", "clean"] = "random"
    among: int | None = None

    @property
    def wants(self) -> Needs:  # type: ignore[override]
        """Gradients, where steps are made."""
        return Needs(SCORES if self.steps > 0 else ANY, gradient=self.steps > 0)

    def scores(self, problem: Problem) -> Tensor:
        scores = minimal_differences(problem.clean)
        if not self.steps:
            return scores
        near = problem.targets
        if self.among is not None:
            place = scores.masked_fill(~near, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
            near = near & (place < self.among)
            # MD only falls on the way to a target: clean scores are put behind the largest of them.
            scores = torch.where(near, scores, scores + scores.amax(1, keepdim=True))
        for targets in singles(near):
            view = problem.aim(targets=targets, loss="md")
            rows = view.open
            if not len(rows):
                continue
            scores[rows, targets[rows].int().argmax(1)] = self._after(view, rows)
        return scores

    def _after(self, view: Problem, rows: Tensor) -> Tensor:
        region = view.region(rows)
        z = region.origin.clone() if self.start == "clean" else region.random(view.random, rows)
        length = torch.full_like(z[:, 0], 2.0 * region.eps / self.steps)
        for _ in range(self.steps):
            _, grad = view.value_and_grad(rows, z)
            z = region.project(region.ascend(z, grad, length))
        # A row that was solved on the way costs nothing more: its difference is 0.
        left = view.alive(rows).nonzero()[:, 0]
        score = torch.zeros(len(rows), dtype=view.clean.dtype, device=rows.device)
        if len(left):
            score[left] = -view.value(rows[left], z[left]).to(score.dtype)
        return score


@noun
class ByDistance(Order):
    """Targets in the order of their distance to first order: the logit gap over the norm of its
    gradient (MALT, Melamed et al., 2024).

    Args:
        among: Number of likeliest targets that are measured, with one backward pass each; the
            others come after them.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> nearest = du.Guess(du.PGD(5), most=1, order=du.orders.ByDistance())
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=nearest).metric("robust").value
    0.3125
    """

    among: int = 9

    @property
    def wants(self) -> Needs:  # type: ignore[override]
        """Gradients of one model."""
        return Needs(gradient=True, single_model=True)

    def scores(self, problem: Problem) -> Tensor:
        goal, scores = problem.targets, minimal_differences(problem.clean)
        rows = problem.open
        if len(rows):
            near = problem.clean[rows].masked_fill(~goal[rows], -torch.inf)
            t = near.topk(min(self.among, near.shape[1]), dim=1).indices
            i = problem.clean[rows].masked_fill(goal[rows], -torch.inf).argmax(1, keepdim=True)
            region = problem.region(rows)
            logits, slopes = problem.jacobian(rows, region.origin, torch.cat([i, t], dim=1))
            gap = (logits.gather(1, i) - logits.gather(1, t)).clamp_min(0)
            dual = {1.0: torch.inf, 2.0: 2.0, torch.inf: 1.0}.get(region.p, torch.inf)
            steep = torch.linalg.vector_norm(slopes[:, 1:] - slopes[:, :1], dual, dim=2)
            far = (gap / steep.clamp_min(1e-30)).to(scores.dtype)
            # Behind all of these: what was not looked at, in the order it had.
            behind = scores[rows] + far.masked_fill(~goal[rows].gather(1, t), 0.0).amax(
                1, keepdim=True
            )
            scores[rows] = behind.scatter(1, t, far)
        return scores


def minimal_differences(logits: Tensor) -> Tensor:
    """(n, C): sum_j relu(z_j - z_t) for every t, by sorting (no (n, C, C) table)."""
    ordered, places = logits.sort(dim=1, descending=True)
    above = ordered.cumsum(1) - ordered
    rank = torch.arange(logits.shape[1], device=logits.device)
    return torch.empty_like(logits).scatter_(1, places, (above - rank * ordered).clamp_min(0))


def singles(targets: Tensor) -> Iterator[Tensor]:
    """The mask (n, C) as masks of one target per row: the first of each row, the second, ..."""
    place = targets.cumsum(1)
    return (targets & (place == k + 1) for k in range(int(targets.sum(1).max())))
