"""Cascade: AutoAttack's verdict at a fraction of its price.

Cheap stages first, dear ones where they pay; each only on what is still open.

    1. APGD at the probability margin, then at the goal's own loss (a group's the other way round)
    2. targeted APGD at the few targets that are nearest to first order (MALT, Melamed et al. 2024)
    3. FAB at as many targets, but in Linf: it walks to the boundary and back instead of climbing a
       loss, which breaks rows that no climb comes near to; in Linf there was none in 500 images
    4. Square from the best point so far, with small squares: what gradients cannot see, a search
       finds within a few hundred queries if they have come near. Rows whose gradients mislead
       (`misleading`) get another search: APGD on gradients averaged over noisy copies, then
       Square with the published schedule, from the best point; where gradients are exactly 0
       from a random one
    5. longer runs from other starts (APGD at whatever loss moved the row last, FAB, Square), for
       rows whose margin has come down to a twentieth of what it was

Rows are told apart by their own progress alone: a row's fate must not depend on its neighbours.

What a reader would get wrong: stage 4 from a random start is AutoAttack's last stage, and takes
thousands of queries to come as near as the gradients were already. It is the warm start that makes
it cheap. In Linf no row may be given up there: on networks whose gradients are masked the search
comes near in its last hundreds of queries (docs/benchmarks/index.md).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer import losses
from durometer.attacks import misleading
from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack, label, run
from durometer.attacks.combine import Guess
from durometer.attacks.fab import FAB
from durometer.attacks.orders import ByDistance
from durometer.attacks.square import Square
from durometer.core.validation import noun
from durometer.losses import LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

_NEAR = 0.05  # of the clean margin: who has come so near is worth more than the others
_LONGER = 5  # times the queries where gradients mislead: the published 5,000
_COPIES = 4  # noisy copies that a smoothed gradient is averaged over
_NOISE = 1.0  # their noise, per feature in units of eps, in Linf
_SMALL = 0.1  # the first squares' share of an image, from where gradients have ended


@noun
class Cascade:
    """A cascade of attacks for Lp balls, cheapest first: about AutoAttack's result at a fraction of
    its price.

    The stages, each on the rows still open: APGD on the probability margin and on the goal's loss;
    targeted APGD at the nearest targets (MALT, Melamed et al., 2024); FAB, except in Linf; Square
    from the best point found; longer runs for rows that came near. Rows whose gradients mislead are
    recognised one by one; they get smoothed gradients and a longer search, and the report has the
    flag `misleading-gradients`. docs/benchmarks/index.md compares it with `AutoAttack`.

    Args:
        steps: Steps per untargeted run; targeted runs get 5/3 as many, FAB 10/3.
        nearest: Number of targets for the targeted stages.
        queries: Queries of Square per row; five times as many where gradients mislead.
        thorough: Whether to run the last stage, for rows whose margin fell to a twentieth of the
            clean one.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net, data, space=du.Linf(0.1), attack=du.Cascade(5, queries=20)
    ... ).metric("robust").value
    0.25
    """

    steps: int = 30
    nearest: int = 3
    queries: int = 1000
    thorough: bool = True

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True) | FAB().needs | Square().needs

    def __call__(self, problem: Problem) -> None:
        problem.remember()
        stages = self.stages(problem)
        last = torch.zeros_like(problem.y)  # (n,): the stage that moved a row last
        for k, (stage, _) in enumerate(stages):
            before = problem.margin.clone()
            if k == len(stages) - 1:
                self._search_all(stage, problem)
            else:
                run(stage, problem)
            last = torch.where(problem.margin > before, k, last)
        near = problem.margin > _NEAR * losses.margin(problem.clean, problem.goal)
        if self.thorough and bool(near[problem.open].any()):
            view = problem.aim(targets=problem.targets & near[:, None])
            for k, (_, loss) in enumerate(stages):
                moved = view.aim(targets=view.targets & (last == k)[:, None])
                _near(APGD(3 * self.steps, loss=loss), moved)
            _near(FAB(self.steps, targets=self.nearest), view)
            _near(self._search(problem, 4), view)

    def stages(self, problem: Problem) -> tuple[tuple[Attack, LossName | None], ...]:
        """The stages that every open row gets, each with the loss it climbs.

        Args:
            problem: The rows to attack.
        """
        first = APGD(self.steps, loss="pm")
        own = APGD(self.steps, loss="ce" if problem.loss is losses.ce else None, start="best")
        if problem.loss is not losses.ce:  # a goal that implies another loss knows better
            first, own = APGD(self.steps), APGD(self.steps, loss="pm", start="best")
        targeted = APGD(5 * self.steps // 3, loss=_scale_free(problem))
        walk: tuple[Attack, LossName | None] = (
            FAB(10 * self.steps // 3, targets=self.nearest),
            "margin",
        )
        return (
            (first, first.loss),
            (own, own.loss),
            (Guess(targeted, most=self.nearest, order=ByDistance()), targeted.loss),
            *(() if problem.regions.p == math.inf else (walk,)),
            (self._search(problem), "margin"),
        )

    def _search_all(self, search: Attack, problem: Problem) -> None:
        """The search for ordinary rows; a longer one for rows whose gradients mislead."""
        signs = misleading.look(problem)
        problem.misled(signs.looked, signs.either)
        if not bool(signs.either.any()):
            run(search, problem)
            return
        run(search, _only(problem, ~signs.either))
        noise = _NOISE if problem.regions.p == math.inf else 4 * _NOISE
        smoothed = APGD(self.steps, loss="pm", eot=_COPIES, noise=noise)
        _misled(smoothed, _only(problem, signs.either))
        queries = _LONGER * self.queries
        _misled(Square(queries, start="best", prune=True), _only(problem, signs.misled))
        _misled(Square(queries), _only(problem, signs.flat))

    def _search(self, problem: Problem, times: int = 1) -> Square:
        """From the best point; in Linf no row is given up."""
        pruned = problem.regions.p != math.inf
        return Square(times * self.queries, p=_SMALL, start="best", prune=pruned)


def _only(problem: Problem, rows: Tensor) -> Problem:
    """The same problem for some of its rows (a mask)."""
    return problem.aim(targets=problem.targets & rows[:, None])


def _misled(stage: Attack, problem: Problem) -> None:
    """Run a stage for rows whose gradients mislead, under a name that says so."""
    run(stage, problem, f"{label(stage)}, misled")


def _near(stage: Attack, problem: Problem) -> None:
    """Run a stage under a name that says whom it is for."""
    run(stage, problem, f"{label(stage)}, near")


def _scale_free(problem: Problem) -> LossName:
    return "dlr" if problem.clean.shape[1] >= 4 else "margin"
