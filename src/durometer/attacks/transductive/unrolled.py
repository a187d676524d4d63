"""Unrolled: climb by the exact gradient through the adaptation (Croce et al. 2022).

GMSA takes Gamma for a constant at each step. Where a defender can be differentiated
(`Defender.unrolled`), the gradient of

    L( Gamma(U')(U'), T )      with respect to U'

sees how the defence answers to the attack itself, and how each row moves the others. Where a step
of the defender has no gradient, its answer is exact and the gradient that of the network inside
(BPDA); where a defender offers nothing, it adapts anew at every step and gradients pass through the
last forward pass alone.

What a reader would get wrong. This is a *refinement*: from a random start it is weaker than GMSA,
after it (`Then(GMSA(...), Unrolled())`) stronger than more of the same. And rows are coupled: every
query is the whole batch, and the batch handed in is the best one ever queried, as a whole, by the
goal on the rows that are scored; never a row of one batch beside a row of another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from durometer.attacks.base import Attack, run
from durometer.attacks.pgd import PGD
from durometer.core.devices import widest
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.losses import Loss
from durometer.model.classifier import turns
from durometer.problem.defender_simulation import DefenderSimulation
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

_INNER = PGD(40, step=0.1, start="best")


@noun
class Unrolled:
    """Follows the exact gradient through the adaptation of a test-time defence (Croce et al.,
    2022).

    It is a refinement: run it after another attack, `Then(GMSA(...), Unrolled())`; from a random
    start it is weaker than `GMSA`. Where a defender cannot be differentiated, gradients pass
    through the last forward pass only.

    Args:
        inner: The attack that climbs, from the best batch found so far. Default: PGD with 40 steps
            of 0.1 eps.
        simulations: Runs of the defender per step. None: 3 where it was found to be random, else 1.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.Norm(model), batch=8)
    >>> both = du.Then(du.GMSA(du.PGD(5), iterations=2), du.Unrolled(du.PGD(10, start="best")))
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=both)
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.5625)
    """

    inner: Attack = _INNER
    simulations: int | None = None

    @property
    def needs(self) -> Needs:
        return self.inner.needs | Needs(gradient=True)

    @property
    def name(self) -> str:
        """The name in the records."""
        return "Unrolled"

    def __call__(self, problem: Problem) -> None:
        through = through_of(problem, self.simulations)
        trial = problem.against(through)  # type: ignore[arg-type]
        run(self.inner, trial, self.name)
        through.finish(problem, trial)


@dataclass(eq=False)
class Through:
    """The defender and the whole batch, in the place of models: its loss is that of the game.

    `ahead`: None where rows climb their own loss; a number of rounds where they climb the harm done
    to the scored rows then (see `poison.py`), which is one number for all of them.
    """

    problem: Problem
    simulation: DefenderSimulation
    draws: range
    batch: Tensor  # the company of the rows that are asked about
    clean: Tensor  # what stands in for the batches of later rounds
    ahead: int | None = None
    harmed: Tensor | None = None  # the targets of those whose loss is climbed; None: the goal's
    best: Tensor = field(init=False)
    hits: Tensor = field(init=False)  # (n,): the share of draws in which each row is fooled
    score: tuple[float, float] = field(init=False, default=(-1.0, -torch.inf))

    @property
    def wanted(self) -> Tensor:
        """(n, C): what each row of the batch that is asked may be pushed to."""
        return self.problem.goal if self.harmed is None else self.harmed

    @property
    def models(self) -> range:
        """One forward pass each: what a query costs."""
        return self.draws

    @property
    def forwards(self) -> int:
        return len(self.draws) * (1 + (self.ahead or 0))

    @property
    def backwards(self) -> int:
        return self.forwards

    def look(self, x: Tensor, rows: Tensor, loss: Loss, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the asked rows and what they climb, averaged over the draws."""
        logits, values, places = [], [], []
        for now in turns(rows):
            at = rows[now]
            each = self.ask(self.batch.to(x.dtype).index_copy(0, at, x[now]))
            value = torch.stack([self._climbed(a, at, loss, targets[now]) for a in each])
            logits.append(torch.stack([a[at] for a in each]).mean(0))
            values.append(value.mean(0))
            places.append(now)
        back = torch.cat(places).argsort()
        return torch.cat(logits)[back], torch.cat(values)[back]

    def _climbed(self, logits: Tensor, at: Tensor, loss: Loss, targets: Tensor) -> Tensor:
        if self.ahead is None:
            return loss(logits[at], targets)
        scored = self.simulation.scored
        harm = loss(logits[scored], self.wanted[scored]).mean()
        if torch.is_grad_enabled() and not harm.requires_grad:
            raise Unsupported(
                f"Poison(ahead={self.ahead}): no gradient leads from this batch to a later round "
                "(the defender keeps no state, or offers none that can be differentiated); use "
                "Poison(ahead=0)"
            )
        return harm.expand(len(at))

    def ask(self, batch: Tensor) -> list[Tensor]:
        """The answers of every draw; the batch is remembered if it is the best so far."""
        each = [self._answers(batch, draw) for draw in self.draws]
        with torch.no_grad():
            goal, scored, wide = self.wanted, self.simulation.scored, widest(batch.device)
            hits = torch.stack([self.problem.reaches(a, goal) for a in each]).to(wide).mean(0)
            losses = torch.stack([self.problem.loss(a, goal) for a in each]).mean(0)[scored]
            score = (float(hits[scored].mean()), float(losses.to(wide).mean()))
            if score > self.score:
                self.best, self.hits, self.score = batch.detach().clone(), hits, score
        return each

    def _answers(self, batch: Tensor, draw: int) -> Tensor:
        """(n, C), differentiable in the whole batch."""
        logits, state = self.simulation.unrolled(batch, draw, None, 0)
        for turn in range(self.ahead or 0):
            logits, state = self.simulation.unrolled(self.clean, draw, state, turn + 1)
        return logits

    def finish(self, problem: Problem, trial: Problem) -> None:
        """Hand in the best batch, and say what it is thought to be worth."""
        problem.absorb(trial, torch.zeros_like(problem.solved))  # no row of it, only its counts
        problem.hand_in(self.best)
        if not self.ahead:
            self.simulation.simulated.copy_(self.hits)


def through_of(
    problem: Problem, simulations: int | None, ahead: int | None = None, blind: bool = False
) -> Through:
    """From what the problem has kept; that batch is the first to beat.

    `blind`: copies of its own clean rows stand in for the rows of others, which it does not see.
    """
    simulation = problem.simulation
    if simulation is None:
        raise Unsupported(
            "an attack through the adaptation needs a model that moves; this one is fixed: play "
            "du.Transductive(defender)"
        )
    draws = range(simulations or (3 if simulation.random else 1))
    kept = problem.kept(torch.arange(len(problem.y), device=problem.y.device)).clone()
    clean = problem.regions.decode(problem.regions.origin)
    harmed = None
    if blind:
        mine = simulation.controlled.nonzero()[:, 0]
        others = (~simulation.controlled).nonzero()[:, 0]
        if not len(mine):
            raise Unsupported("Poison(blind=True): the attacker controls no row of this round")
        again = mine[torch.arange(len(others), device=mine.device) % len(mine)]
        kept[others], clean, harmed = clean[again], clean.clone(), problem.goal.clone()
        clean[others], harmed[others] = clean[again], problem.goal[again]
    through = Through(problem, simulation, draws, kept, clean, ahead, harmed)
    with torch.no_grad():
        through.ask(kept)
    return through
