"""GMSA (Chen et al. 2022): attack the space of models a defender may move to, not one model.

    U_i = argmax L({F_0 .. F_i}, U'),   F_{i+1} = Gamma(U_i),   i = 0..T      (Algorithm 2, eq. 7)

with L the mean of the losses (GMSA-AVG), their minimum (GMSA-MIN), or the loss of F_i alone (FPA,
Algorithm 1); T = 0 on the static model is the transfer attack. F_0 is the model before it adapts to
this batch; Gamma is run by the attacker itself, with random numbers of its own (see
`Problem.rehearsal`). Of U_0..U_T the one that did most harm when rehearsed is handed in. The inner
problem is any attack of the library, in any space.

What a reader would get wrong. Iterations count from 0, so T = 9 makes ten candidates. The candidate
is chosen by the *error* of the rehearsed model on it, not by the loss; one rehearsal of a random
defender picks the lucky candidate (the attacker's own estimate is then too high, see the flag
`selection-bias`), so a defender that was found random is rehearsed three times. And GMSA-MIN takes
(i + 1) times as many inner steps at iteration i, because each of its steps sees one model per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack, run
from durometer.attacks.pgd import PGD
from durometer.core.devices import widest
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.classifier import Classifier
from durometer.problem.defender_simulation import DefenderSimulation
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.problem.victims import Victims

_INNER = APGD(100)  # as strong as the static figure beside it, or a defence is credited with less
_COMBINE = {"avg": "mean", "min": "min", "last": "mean"}
_NAMES = {"avg": "GMSA-AVG", "min": "GMSA-MIN", "last": "FPA"}
_ONCE = {"static": "Transfer", "state": "PGD-skip", "clean": "DENT-AA"}  # by the model attacked


@noun
class GMSA:
    """`inner` solves each iteration; `combine` is "avg", "min" or "last" (FPA).

    `simulations`: runs of the defender per candidate; all of them join the model space. None: 3
    where the game's probe found the defender random, else 1.
    `select`: by "error" (published) or by "loss". `fallback`: "attacked", or "clean": hand in the
    clean batch if no candidate does better. `first`: F_0 is the model in the "state" in which the
    defender is believed to be, the "static" one from before the first round, or the one adapted to
    the "clean" batch. `window`: attack only so many of the latest models.
    `warm`: inner steps from the second iteration on, starting from the set before; None: each
    iteration starts anew. `selective`: leave a row clean unless most victims are fooled on it.
    `scale`: for "min", as many times the inner steps as there are models.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(
    ...     game, data, space=du.Linf(0.1), attack=du.GMSA(du.PGD(3), iterations=1)
    ... )
    >>> len(report.table)
    16
    """

    inner: Attack = _INNER
    combine: Literal["avg", "min", "last"] = "avg"
    iterations: int = field(default=9, metadata={"least": 0})
    simulations: int | None = None
    select: Literal["error", "loss"] = "error"
    fallback: Literal["attacked", "clean"] = "attacked"
    first: Literal["state", "static", "clean"] = "state"
    window: int | None = None
    warm: int | None = field(default=None, metadata={"least": 0})
    selective: bool = False
    scale: bool = True

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    @property
    def name(self) -> str:
        """What records call it."""
        if self.combine == "last" and self.iterations == 0:
            return _ONCE.get(self.first, self.first)
        return _NAMES.get(self.combine, self.combine)

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        several = self.combine != "last" or (self.simulations or 1) > 1
        if several and self.iterations > 0 and self.inner.needs.single_model:
            raise Unsupported(
                f"{self.inner!r} attacks one model at a time (FAB does), and {self.name} several: "
                "use PGD or APGD inside, or Transfer or FPA around it"
            )

    def __call__(self, problem: Problem) -> None:
        if problem.rehearsal is None:
            raise Unsupported(
                f"{self.name} attacks a model that moves after the attacker; this one is fixed: "
                f"use {self.inner!r} itself, or play du.Transductive(defender)"
            )
        _Search(self, problem, problem.rehearsal).run()


@dataclass
class _Search:
    """One run of the attack: the models simulated so far and the best candidate."""

    gmsa: GMSA
    problem: Problem
    rehearsal: DefenderSimulation
    draws: int = 0
    best: Problem | None = None
    score: float = -torch.inf

    @property
    def simulations(self) -> int:
        """How often a candidate is rehearsed: one run of a random defender picks the lucky one."""
        if self.gmsa.simulations is not None:
            return self.gmsa.simulations
        return 3 if self.rehearsal.random and not self.gmsa.inner.needs.single_model else 1

    def run(self) -> None:
        gmsa, clean = self.gmsa, self.kept(self.problem).clone()
        alone = gmsa.iterations == 0 and gmsa.fallback == "attacked"
        models = [self.rehearsal.static if gmsa.first == "static" else self.problem.model]
        if gmsa.first == "clean" or gmsa.fallback == "clean":
            met = self.simulate(clean)
            models = met[:1] if gmsa.first == "clean" else models
            if gmsa.fallback == "clean":
                self.rate(self.problem.fork(), clean, met)
        before: Tensor | None = None
        for i in range(gmsa.iterations + 1):
            trial = self.attack(models, i, before)
            if gmsa.selective:
                trial.give_back(self.hits(models, self.kept(trial)) < 0.5)
            if alone:  # one candidate: nothing to choose, so nothing to rehearse
                self.problem.choose(trial)
                return
            before = self.kept(trial)
            met = self.simulate(before)
            if self.rate(trial, before, met):
                break
            models += met
        assert self.best is not None
        self.problem.choose(self.best)

    def attack(self, models: list[Classifier], i: int, before: Tensor | None) -> Problem:
        """The candidate set of iteration i, as what a fork of the problem has kept."""
        gmsa = self.gmsa
        if gmsa.combine == "last":
            models = models[-self.simulations :] if i else models
        if gmsa.window is not None:
            models = models[-gmsa.window :]
        victims = Victims(tuple(models), _COMBINE[gmsa.combine])
        inner = gmsa.inner
        if gmsa.combine == "min" and gmsa.scale:
            inner = lengthened(inner, len(models))
        trial = self.problem.against(victims).aim(loss=getattr(inner, "loss", None))
        rows = trial.open
        if not len(rows):
            return trial
        region = trial.region(rows)
        if gmsa.warm is not None and before is not None:
            inner = warmed(inner, gmsa.warm)
            trial.value(rows, region.encode(before[rows]))
        trial.value(rows, region.origin)  # the record to beat starts at the clean point
        run(inner, trial, gmsa.name)
        return trial

    @staticmethod
    def kept(trial: Problem) -> Tensor:
        """The batch that would be handed in."""
        return trial.kept(torch.arange(len(trial.y), device=trial.y.device))

    def simulate(self, x: Tensor) -> list[Classifier]:
        """What the defender might become when it gets this batch."""
        self.draws += self.simulations
        numbers = range(self.draws - self.simulations, self.draws)
        return [self.rehearsal.adapt(x, draw) for draw in numbers]

    def rate(self, trial: Problem, x: Tensor, met: list[Classifier]) -> bool:
        """Remember the candidate if it is the best so far; True if nothing is left to gain."""
        hits = self.hits(met, x)
        scored = self.rehearsal.scored
        score = float(hits[scored].mean())
        if self.gmsa.select == "loss":
            rows = torch.arange(len(x), device=x.device)
            with torch.no_grad():
                _, value = Victims(tuple(met)).look(x, rows, trial.loss, trial.goal)
            score = float(value[scored].mean())
        if score > self.score:
            self.best, self.score = trial, score
            self.rehearsal.simulated.copy_(hits)
        return bool(hits[scored].min() >= 1.0)

    @torch.no_grad()
    def hits(self, models: list[Classifier], x: Tensor) -> Tensor:
        """(n,): the share of these models that each row fools."""
        rows = torch.arange(len(x), device=x.device)
        each = [self.problem.reaches(model.logits(x, rows)) for model in models]
        return torch.stack(each).to(widest(x.device)).mean(0)


def lengthened(attack: Any, times: int) -> Any:
    """The same attack with `times` as many steps of the same length; others as they are."""
    names = {f.name for f in fields(attack)}
    if "steps" in names:
        change: dict[str, Any] = {"steps": attack.steps * times}
        if isinstance(attack, PGD) and attack.step is None:
            change["step"] = 2.5 / attack.steps
        return replace(attack, **change)
    if "attack" in names:
        return replace(attack, attack=lengthened(attack.attack, times))
    return attack


def warmed(attack: Any, steps: int) -> Any:
    """The same attack from where it stands, for `steps` steps of the same length."""
    names = {f.name for f in fields(attack)}
    if {"steps", "start"} <= names:
        change: dict[str, Any] = {"steps": steps, "start": "best"}
        if isinstance(attack, PGD) and attack.step is None:
            change["step"] = 2.5 / attack.steps
        return replace(attack, **change)
    if "attack" in names:
        return replace(attack, attack=warmed(attack.attack, steps))
    raise Unsupported(f"{attack!r} has no steps to be started warm; use warm=None, or PGD inside")


def Transfer(inner: Attack = _INNER) -> GMSA:
    """Attack the model from before the first round, and hope: the defender is never rehearsed.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=du.Transfer(du.PGD(3)))
    >>> len(report.table)
    16
    """
    return GMSA(inner, "last", 0, first="static")


def FPA(inner: Attack = _INNER, iterations: int = 9, **more: Any) -> GMSA:
    """The fixed point attack: each iteration attacks the last simulated model only.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(
    ...     game, data, space=du.Linf(0.1), attack=du.FPA(du.PGD(3), iterations=1)
    ... )
    >>> len(report.table)
    16
    """
    return GMSA(inner, "last", iterations, **more)


def PGDSkip(inner: Attack = _INNER) -> GMSA:
    """Attack the model in its present state, without the move to come (Wu et al. 2020).

    The attack RMC was published with; in a game with information="state" it is given that state.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=du.PGDSkip(du.APGD(3)))
    >>> len(report.table)
    16
    """
    return GMSA(inner, "last", 0, first="state")


def DENTAA(inner: Attack = _INNER) -> GMSA:
    """Attack what the defender makes of the clean batch, its parameters taken as constants.

    AutoAttack on DENT's module (Wang et al. 2021) comes to this: gradients pass through the last
    forward pass only. Croce et al. (2022) call it an attack that does not see the defence.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=du.DENTAA(du.APGD(3)))
    >>> len(report.table)
    16
    """
    return GMSA(inner, "last", 0, first="clean")
