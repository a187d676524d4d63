"""One round of a transductive game: the attacker moves, the defender adapts, the referee asks.

What a reader would get wrong: nothing in here may pass from the attacker's side to the referee's
but the batch itself. The attacker rehearses with seeds of its own; the defender then moves with the
referee's.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer import losses
from durometer.attacks.base import Attack, run
from durometer.core.devices import HOST, is_cpu, widest
from durometer.core.records import Records
from durometer.core.streams import Stream, derive, keys
from durometer.data.dataset import Dataset
from durometer.goals.goal import Goal, gap, reached
from durometer.model.classifier import Classifier, wrap
from durometer.problem.budget import Budget
from durometer.problem.defender_simulation import DefenderSimulation
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee
from durometer.spaces.region import Region, Space


@dataclass(frozen=True, eq=False)
class Move:
    """What the attacker hands in, and what it thinks of it."""

    x: Tensor
    targets: Tensor
    referee: Referee
    simulated: Tensor
    adaptations: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Round:
    """The rows of one round, and who plays for what."""

    defender: Any
    begin: Any  # the defender's state before the first round
    data: Dataset
    index: Tensor
    number: int
    space: Space | None
    goal: Goal
    attacker: Attack | None
    seed: int
    budget: Budget
    observe: Any
    controlled: Any = None
    scored: Any = None
    random: bool = False  # two draws of the defender differ
    place: torch.device = HOST  # where defender and attacker compute; the referee stays

    @property
    def x(self) -> Tensor:
        rows: Tensor = self.data.x[self.index]
        return rows

    @property
    def y(self) -> Tensor:
        rows: Tensor = self.data.y[self.index]
        return rows

    def mask(self, name: str) -> Tensor:
        """The game's mask of that name, for the rows of this round."""
        given = getattr(self, name)
        if given is None:
            return torch.ones(len(self.index), dtype=torch.bool)
        return torch.as_tensor(np.asarray(given), dtype=torch.bool)[self.index]

    def _there(self, x: Tensor) -> Tensor:
        return x if is_cpu(self.place) else x.to(self.place)

    def _answers(self, model: Classifier, x: Tensor) -> Tensor:
        """What a model says of the whole batch, for the referee."""
        x = self._there(x)
        with model.ready(), torch.no_grad():
            return model.logits(x, torch.arange(len(x), device=x.device)).to(self.data.x.device)

    def adapt(self, state: Any, x: Tensor, seed: int) -> tuple[Classifier, Any]:
        """The defender's move; it may learn, also where whoever asks wants answers alone."""
        with torch.enable_grad():
            model, after = self.defender.adapt(state, x, seed)
        return wrap(model).among(x), after

    def unrolled(self, state: Any, x: Tensor, seed: int) -> tuple[Tensor, Any]:
        """The move's answers with their gradient, where there is none that of the last pass."""
        if hasattr(self.defender, "unrolled"):
            logits, after = self.defender.unrolled(state, x, seed)
            return logits, after
        model, after = self.adapt(state, x.detach().clone(), seed)
        with model.ready():
            return model.logits(x, torch.arange(len(x), device=x.device)), after

    def attack(self, state: Any, private: int, public: int | None = None) -> Move:
        """The attacker's move from what it takes for the defender's state."""
        began = time.perf_counter()
        x, y = self._there(self.x), self._there(self.y)
        base, static = (wrap(self.defender.base(s)).among(x) for s in (state, self.begin))
        calls = [0]
        with ExitStack() as stack:
            stack.enter_context(base.ready())
            stack.enter_context(static.ready())

            def adapt(batch: Tensor, draw: int) -> Classifier:
                calls[0] += 1
                referee_seed = derive(private, draw) if public is None else public
                model, _ = self.adapt(state, batch.detach().clone(), referee_seed)
                stack.enter_context(model.ready())
                return model

            def unrolled(batch: Tensor, draw: int, after: Any, turn: int) -> tuple[Tensor, Any]:
                calls[0] += 1
                seed = derive(private, draw, turn) if turn else derive(private, draw)
                if public is not None and not turn:
                    seed = public
                return self.unrolled(state if after is None else after, batch, seed)

            with torch.no_grad():
                clean = base.logits(x, torch.arange(len(x), device=x.device))
            names = class_names(self.data, base)
            aims = self.goal.targets(self.y, clean.to(self.y.device), self.index, names)
            targets = self._there(aims)
            referee = Referee(targets, x.clone(), "best", base.slack)
            simulated = torch.full((len(x),), torch.nan, dtype=widest(x.device), device=x.device)
            if self.attacker is not None and self.space is not None:
                region, ids = self.space.around(x), self.data.ids[self.index.numpy()]
                sane = region.contains(x)
                scored = self._there(self.mask("scored")) & targets.any(1) & sane
                controlled = self._there(self.mask("controlled")) & sane
                problem = Problem(
                    base,
                    region,
                    referee,
                    # A purpose of its own: from its seed nobody gets to the defender's.
                    Stream(derive(self.seed, "attack"), keys(ids), x.device),
                    y,
                    clean,
                    targets,
                    losses.find(self.goal.loss),
                    self.budget,
                    scope=controlled & targets.any(1),
                    rehearsal=DefenderSimulation(
                        adapt, static, scored, controlled, simulated, unrolled, self.random
                    ),
                )
                if bool(scored.any()):
                    run(self.attacker, problem)
                self._put_back(referee, x, controlled, region)
                if self.observe is not None:
                    self.observe(referee)
        seconds = (time.perf_counter() - began) / len(x)
        if not is_cpu(x.device):
            referee, simulated = referee.to(self.y.device), simulated.to(self.y.device).double()
        return Move(referee.best, aims, referee, simulated, calls[0], seconds)

    def _put_back(self, referee: Referee, x: Tensor, controlled: Tensor, region: Region) -> None:
        """Clean rows in the place of what was not the attacker's to hand in."""
        changed = (referee.best != x).flatten(1).any(1)
        wrong = changed & ~(controlled & region.contains(referee.best))
        referee.best[wrong] = x[wrong]
        referee.n_reverted += int(wrong.sum())

    def untouched(self, calm: Any, referee_seed: int) -> tuple[Tensor, Any]:
        """Logits on the clean batch in a game nobody attacks, and the state after it."""
        model, calm = self.adapt(calm, self._there(self.x).clone(), referee_seed)
        return self._answers(model, self.x), calm

    def judge(
        self, move: Move, truth: Any, clean: Tensor | None, referee_seed: int, run: int
    ) -> tuple[Records, Any, Tensor]:
        """The defender moves; its answers as records, its state after it, and the clean answers.

        `clean`: what `untouched` gave; None: this is that game.
        """
        x, y = self.x, self.y
        began = time.perf_counter()
        model, truth = self.adapt(truth, self._there(move.x).clone(), referee_seed)
        adapting = (time.perf_counter() - began) / len(x)
        logits = self._answers(model, move.x)
        doubt, answer = _rejection(model, logits)
        clean_doubt, _ = _rejection(model, self._answers(model, x))
        clean = logits if clean is None else clean
        some, sane, valid, distance, violation = self._space_facts(move)
        success = reached(logits, move.targets, model.slack) & valid & sane & some
        missed = reached(clean, move.targets, model.slack)
        skipped = np.where(~some.numpy(), "no target", "").astype(object)
        skipped[~self.mask("scored").numpy()] = "not scored"
        skipped[~sane.numpy()] = "invalid"
        winner = [
            "clean" if s and m else w or ("other rows" if s else "")  # not its own: poisoned
            for s, m, w in zip(success.tolist(), missed.tolist(), move.referee.winner, strict=True)
        ]
        record = Records.of(
            len(x),
            move.x.cpu().numpy(),
            id=self.data.ids[self.index.numpy()],
            round=self.number,
            run=run,
            y=y.cpu().numpy(),
            clean=clean.argmax(1).cpu().numpy(),
            final=logits.argmax(1).cpu().numpy(),
            success=success.cpu().numpy(),
            valid=valid.cpu().numpy(),
            winner=winner,
            distance=torch.where(success.cpu(), distance.cpu(), torch.nan).numpy(),
            violation=violation.cpu().numpy(),
            margin=gap(logits, move.targets).cpu().numpy(),
            forwards=move.referee.forwards.cpu().numpy(),
            backwards=move.referee.backwards.cpu().numpy(),
            seconds=move.seconds,
            controlled=self.mask("controlled").numpy(),
            simulated=move.simulated.numpy(),
            adaptations=move.adaptations,
            adapting=adapting,
            answer=answer.cpu().numpy(),
            doubt=doubt.cpu().numpy(),
            clean_doubt=clean_doubt.cpu().numpy(),
            skipped=skipped,
        )
        return record, truth, clean

    def _space_facts(self, move: Move) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Has a target, clean row valid, handed-in row valid, distance, violation."""
        some, n = move.targets.any(1), len(move.x)
        if self.space is None:
            yes = torch.ones(n, dtype=torch.bool)
            return some, yes, yes, torch.zeros(n), torch.zeros(n)
        region: Region = self.space.around(self.x)
        return (
            some,
            region.contains(self.x),
            region.contains(move.x),
            region.distance(move.x),
            region.violation(move.x),
        )


def _rejection(model: Classifier, logits: Tensor) -> tuple[Tensor, Tensor]:
    """How far rejecting is ahead of answering (NaN: no such option), and the answer behind it."""
    if model.reject is None:
        return logits.new_full((len(logits),), torch.nan), logits.argmax(1)
    others = logits.clone()
    others[:, model.reject] = -torch.inf
    best, answer = others.max(1)
    return logits[:, model.reject] - best, answer


def class_names(data: Dataset, model: Classifier) -> tuple[str, ...] | None:
    """The names of the classes, "reject" being the last where there is such a class."""
    names = data.classes or model.names
    return names if names is None or model.reject is None else (*names, "reject")
