"""GMSA (Chen et al. 2022): attack the space of models a defender may move to, not one model.

    U_i = argmax L({F_0 .. F_i}, U'),   F_{i+1} = Gamma(U_i),   i = 0..T      (Algorithm 2, eq. 7)

with L the mean of the losses (GMSA-AVG), their minimum (GMSA-MIN), or the loss of F_i alone (FPA,
Algorithm 1); T = 0 on the static model is the transfer attack. F_0 is the model before it adapts to
this batch; Gamma is run by the attacker itself, with random numbers of its own (see
`Problem.simulation`). Of U_0..U_T the one that did most harm when rehearsed is handed in. The inner
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
from durometer.core.capabilities import loss_of
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
    """The greedy model space attack on test-time defences: attacks all models that the defender
    moved to when it was simulated (Chen et al., 2022).

    Each iteration attacks the models found so far, then simulates the defender on the result, which
    adds a model. The candidate that did most harm when simulated is handed in.

    Args:
        inner: The attack of each iteration. Default `APGD(100)`.
        combine: How the losses of several models become one: "avg" (GMSA-AVG), "min" (GMSA-MIN), or
            "last" for the newest model only (FPA).
        iterations: Iterations after the first one: 9 makes ten candidates, as published.
        simulations: Runs of the defender per candidate; all of them join the models. None: 3 where
            the defender was found to be random, else 1.
        select: How the candidate is chosen: by "error" (published) or by "loss" of the simulated
            model.
        fallback: "attacked" hands in the best candidate; "clean" hands in the clean batch where no
            candidate does better.
        first: The first model: in the present "state", the "static" one before the first round, or
            the one adapted to the "clean" batch.
        window: Attack only so many of the latest models. None: all.
        warm: Inner steps from the second iteration on, started from the candidate before. None:
            each iteration starts anew.
        selective: Whether to leave a row clean unless most models are fooled on it.
        scale: Whether "min" multiplies the inner steps by the number of models.

    Raises:
        DurometerError: A parameter has an impossible value.
        Unsupported: The inner attack cannot attack several models at once.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(
    ...     game, data, space=du.Linf(0.1), attack=du.GMSA(du.PGD(5), iterations=2)
    ... )
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.625)
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
        """The name in the records: GMSA-AVG, GMSA-MIN, FPA ..."""
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
        if problem.simulation is None:
            raise Unsupported(
                f"{self.name} attacks a model that moves after the attacker; this one is fixed: "
                f"use {self.inner!r} itself, or play du.Transductive(defender)"
            )
        _Search(self, problem, problem.simulation).run()


@dataclass
class _Search:
    """One run of the attack: the models simulated so far and the best candidate."""

    gmsa: GMSA
    problem: Problem
    simulation: DefenderSimulation
    draws: int = 0
    best: Problem | None = None
    score: float = -torch.inf

    @property
    def simulations(self) -> int:
        """How often a candidate is rehearsed: one run of a random defender picks the lucky one."""
        if self.gmsa.simulations is not None:
            return self.gmsa.simulations
        return 3 if self.simulation.random and not self.gmsa.inner.needs.single_model else 1

    def run(self) -> None:
        gmsa, clean = self.gmsa, self.kept(self.problem).clone()
        alone = gmsa.iterations == 0 and gmsa.fallback == "attacked"
        models = [self.simulation.static if gmsa.first == "static" else self.problem.model]
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
        trial = self.problem.against(victims).aim(loss=loss_of(inner))
        rows = trial.open
        if not len(rows):
            return trial
        region = trial.region(rows)
        rests = gmsa.warm == 0 and before is not None  # no step beyond the candidate before
        if gmsa.warm is not None and before is not None:
            inner = inner if rests else warmed(inner, gmsa.warm)
            trial.value(rows, region.encode(before[rows]))
        trial.value(rows, region.origin)  # the record to beat starts at the clean point
        if not rests:
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
        return [self.simulation.adapt(x, draw) for draw in numbers]

    def rate(self, trial: Problem, x: Tensor, met: list[Classifier]) -> bool:
        """Remember the candidate if it is the best so far; True if nothing is left to gain."""
        hits = self.hits(met, x)
        scored = self.simulation.scored
        score = float(hits[scored].mean())
        if self.gmsa.select == "loss":
            rows = torch.arange(len(x), device=x.device)
            with torch.no_grad():
                _, value = Victims(tuple(met)).look(x, rows, trial.loss, trial.goal)
            score = float(value[scored].mean())
        if score > self.score:
            self.best, self.score = trial, score
            self.simulation.simulated.copy_(hits)
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
    """The transfer attack on a test-time defence: attacks the static model and never simulates the
    defender.

    Args:
        inner: The attack on the static model.

    Returns:
        A `GMSA` with these settings.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=du.Transfer(du.PGD(5)))
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.75)
    """
    return GMSA(inner, "last", 0, first="static")


def FPA(inner: Attack = _INNER, iterations: int = 9, **more: Any) -> GMSA:
    """The fixed point attack: each iteration attacks the newest simulated model only (Chen et al.,
    2022, Algorithm 1).

    Args:
        inner: The attack of each iteration.
        iterations: Iterations after the first one.
        **more: Further parameters of `GMSA`.

    Returns:
        A `GMSA` with these settings.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(
    ...     game, data, space=du.Linf(0.1), attack=du.FPA(du.PGD(5), iterations=2)
    ... )
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.5625)
    """
    return GMSA(inner, "last", iterations, **more)


def PGDSkip(inner: Attack = _INNER) -> GMSA:
    """Attacks the model in its present state, without the adaptation to come (Wu et al., 2020).

    RMC was published with this attack. In a game with `information="state"` the attacker is given
    the true state.

    Args:
        inner: The attack on the model.

    Returns:
        A `GMSA` with these settings.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=du.PGDSkip(du.PGD(5)))
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.75)
    """
    return GMSA(inner, "last", 0, first="state")


def DENTAA(inner: Attack = _INNER) -> GMSA:
    """Attacks the model adapted to the clean batch, with its parameters held constant.

    This is what AutoAttack on DENT's module (Wang et al., 2021) comes to; Croce et al. (2022) point
    out that it does not see the adaptation.

    Args:
        inner: The attack on the model.

    Returns:
        A `GMSA` with these settings.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=du.DENTAA(du.PGD(5)))
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.75)
    """
    return GMSA(inner, "last", 0, first="clean")
