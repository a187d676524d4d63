"""Static: the model is fixed, the attacker moves once. The game of most papers.

A row is played only if there is something to play for: rows whose clean input meets the goal are
successes without an attack (winner "clean"), rows without any target and rows that break their own
space are left out, each said in `skipped`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from durometer import losses
from durometer.attacks.base import Attack, run
from durometer.attacks.parameters import own_losses
from durometer.core import serialization
from durometer.core.capabilities import loss_of
from durometer.core.devices import attack_device
from durometer.core.errors import DurometerError
from durometer.core.facts import Facts
from durometer.core.records import Records
from durometer.core.spec import Spec
from durometer.core.streams import Stream, keys
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.games.arguments import check_kinds
from durometer.games.game import USUAL, Carried, Game, Play
from durometer.goals.goal import Expandable, Goal, Names
from durometer.model.adapters import relative
from durometer.model.agreement import agree
from durometer.model.answers import MOST
from durometer.model.classifier import Classifier, wrap
from durometer.model.frames import align_columns
from durometer.model.inference_copy import AGREE, InferenceCopy, inference_copy
from durometer.model.probe import inspect, other_scale, probe
from durometer.problem.donors import Donors, donors
from durometer.problem.needs import GROUP, check_needs
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee
from durometer.proofs.audit import Pool, cross_examine
from durometer.spaces.region import Remarks, Space
from durometer.standard import Standard, check_space


@noun(eq=False)
class Static:
    """The usual game: the model is fixed, and the attacker moves once.

    `evaluate(model, ...)` plays it. Rows whose clean input meets the goal count as successes
    without an attack; rows without a target, and rows that violate their own space, are left out.

    Args:
        model: The classifier, of any kind that `wrap` takes.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(du.Static(net), data, space=du.Linf(0.1), attack=du.PGD(5)).metric(
    ...     "clean"
    ... ).value
    1.0
    """

    model: Any
    _copy: InferenceCopy | None = field(default=None, repr=False)  # faster, for attacks to ask
    _donors: Donors | None = field(default=None, repr=False)  # for searches by labels
    _pool: Pool | None = field(default=None, repr=False)  # for the auditor of proofs
    _shares: bool = field(default=False, repr=False)  # rows learn from each other's answers
    batch: ClassVar[int | None] = None
    __eq__, __hash__ = (
        serialization.equal_fields,
        serialization.hash_by_type,
    )  # of one and the same model
    divisible: ClassVar[bool] = True  # rows do not meet: any batch can be played by itself

    def describe(self) -> Spec:
        copied = "" if self._copy is None else self._copy.described
        described = wrap(self.model).described
        return replace(described, game={"type": "Static"}, inference_copy=copied)

    def default_attack(self, space: Space | None) -> Attack | None:
        if space is None:
            return None
        check_space(space)
        return Standard()

    def refuses(self, goal: Expandable, run: Carried) -> str | None:
        if goal.together and run.until is not None:
            return f"until={run.until}: a quota is about bands, and needs all its pairs"
        return None

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The model's logits for some rows; part of the fingerprint of a run.

        Args:
            x: Inputs (n, ...).
        """
        model = wrap(self.model)
        with model.ready(), torch.no_grad():
            return model.logits(x)

    def prepare(
        self, data: Dataset, space: Space | None, goal: Goal, attack: Attack | None
    ) -> tuple[Static, Facts]:
        """Checks everything before the first attack; see `Game.prepare`."""
        if space is None:
            example = "data.schema.space(eps=0.5)" if data.schema is not None else "du.Linf(8/255)"
            raise DurometerError(f"evaluate() needs a space: what may change? e.g. space={example}")
        check_kinds(space, goal, attack)
        if attack is None:
            raise DurometerError(
                "attack=None: a fixed model that nobody attacks has a clean accuracy and no more; "
                "leave attack= out for the standard one"
            )
        space.check(data.x)
        head = data.x[:32]
        model = probe(align_columns(wrap(self.model), data), data.x[:MOST])
        facts = inspect(model, head, data.y)
        classes = facts.classes
        if data.classes is not None and len(data.classes) != classes:
            raise DurometerError(
                f"the data names {len(data.classes)} classes, but the model has {classes}"
            )
        facts = replace(
            facts,
            agreed=agree(model, data),
            score=model.score,
            answers=model.answers,
            left_out=tuple(space.remarks(data.x)) if isinstance(space, Remarks) else (),
            other_scale=other_scale(model, data.x, data.y),
        )
        check_needs(attack, model, space)
        some = _a_target(data, goal, classes, data.classes or model.names)
        if some is None:
            raise DurometerError(
                f"goal {goal!r}: no row of this data has any class to be pushed to"
            )
        for loss in (loss_of(attack) or "ce", *own_losses(attack)):
            losses.check(loss, some.to(data.x.dtype) * 0, some)
        steady = facts.repeat_difference <= AGREE
        copied = inference_copy(model, head) if steady and model.answers != "labels" else None
        pool = Pool.of(data) if attack.needs.is_proof else None
        shares = attack.needs.shares_answers
        if isinstance(attack, Standard):
            shares = attack.shares_answers(model, space, data.x[:1])
        some_rows = attack.needs.donors or shares or model.answers == "labels"
        asked = donors(model, data) if some_rows else None
        return Static(model, copied, asked, pool, shares), facts

    @property
    def together(self) -> int:
        """Rows that must be played as one batch; 1: any."""
        return GROUP if self._shares else 1

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
        assert space is not None and attack is not None  # or `prepare` had refused it
        starts = range(0, len(data), options.batch)
        batches = [torch.arange(s, min(s + options.batch, len(data))) for s in starts]
        if options.only is not None:
            batches = [torch.cat([batches[k] for k in options.only])]
        copied = None
        if self._copy is not None and self._copy.fresh(self.model):
            copied = self._copy.model
        with self.model.ready():
            for rows in batches:
                yield self._play(data, rows, space, goal, attack, seed, options, copied)

    def _play(
        self,
        data: Dataset,
        index: torch.Tensor,
        space: Space,
        goal: Goal,
        attack: Attack,
        seed: int,
        options: Play,
        copied: Classifier | None,
    ) -> Records:
        began = time.perf_counter()
        x, y = data.x[index], data.y[index]
        place = attack_device(x, self.model.device or x.device, space)
        there = x.to(place)
        model = relative(self.model, there)
        with torch.no_grad():
            answers = model.logits(there)
        clean = answers.to(x.device)
        if not bool(clean.isfinite().all()):
            row = int((~clean.isfinite().all(1)).nonzero()[0])
            name = data.ids[index[row]]
            raise DurometerError(
                f"the model answers {clean[row].tolist()} for id {name}: not finite"
            )
        names = data.classes or self.model.names
        targets = goal.targets(y, clean, index, names)
        region = space.around(x)
        confirm = None if copied is None else model.logits
        scale = clean.abs().amax(1)
        referee = Referee(targets, x.clone(), "first", self.model.slack, confirm, scale)
        sane, some = region.contains(x), targets.any(1)
        reached = targets.gather(1, clean.argmax(1, keepdim=True))[:, 0] & sane
        referee.solved, referee.idle = reached.clone(), ~sane | ~some  # nothing to play for
        referee.final = clean.argmax(1)
        referee.forwards += 1
        referee.margin[:] = losses.margin(clean, targets).to(referee.margin.dtype)
        moves = place != x.device
        if self._donors is not None:  # asked once more, before
            again = np.isin(data.ids[index.numpy()], self._donors.ids)
            referee.forwards += torch.from_numpy(again).to(referee.forwards.dtype)
        problem = Problem(
            model,
            space.around(there) if moves else region,
            referee.to(place) if moves else referee,
            Stream(seed, keys(data.ids[index.numpy()]), place),
            y.to(place),
            answers,
            targets.to(place),
            losses.find(goal.loss),
            options.budget,
            stand_in=copied,
            donors=self._donors,
        )
        played = problem.open
        run(attack, problem)
        if self._pool is not None:
            cross_examine(problem, seed, data.ids[index.numpy()], self._pool)
        if moves:
            referee = problem.referee.to(x.device)  # figures are the host's: in double precision
        if options.observe is not None:
            options.observe(referee)
        success = referee.solved
        best = referee.best
        seconds = (time.perf_counter() - began) / max(1, len(played))
        winner = [
            "clean" if r else w for r, w in zip(reached.tolist(), referee.winner, strict=True)
        ]
        skipped = [
            "invalid" if not v else "" if s else "no target"
            for v, s in zip(sane.tolist(), some.tolist(), strict=True)
        ]
        in_play = torch.zeros(len(index), dtype=torch.bool)
        in_play[played.cpu()] = True
        return Records.of(
            len(index),
            best.cpu().numpy(),
            _certificates(referee),
            id=data.ids[index.numpy()],
            y=y.cpu().numpy(),
            clean=clean.argmax(1).cpu().numpy(),
            target=torch.where(targets.sum(1) == 1, targets.int().argmax(1), -1).cpu().numpy(),
            final=referee.final.cpu().numpy(),
            success=success.cpu().numpy(),
            verdict=_verdicts(referee),
            vacuous=referee.vacuous.cpu().numpy(),
            improving=(referee.improving & ~success & ~referee.proven).cpu().numpy(),
            unproven=_unproven(referee),
            audited=referee.audited.cpu().numpy(),
            overturned=[referee.overturned.get(i, "") for i in range(len(index))],
            stages=_stages(referee),
            valid=region.contains(best).cpu().numpy(),
            winner=winner,
            distance=torch.where(success.cpu(), region.distance(best).cpu(), torch.nan).numpy(),
            distance_low=referee.distance_low.cpu().numpy(),
            violation=region.violation(best).cpu().numpy(),
            margin=referee.margin.cpu().numpy(),
            blocked=(referee.blocked & ~success).cpu().numpy(),
            forwards=referee.forwards.cpu().numpy(),
            backwards=referee.backwards.cpu().numpy(),
            seconds=(in_play * seconds).numpy(),
            score=referee.score.cpu().numpy(),
            skipped=skipped,
        )


def _unproven(referee: Referee) -> list[str]:
    """Why open rows were not proven, where somebody knows."""
    closed = (referee.solved | referee.proven | referee.idle).tolist()
    return [
        "" if done else referee.unproven or referee.left.get(i, "") for i, done in enumerate(closed)
    ]


def as_game(target: Any) -> Game:
    """The game a target stands for: a game is one, and a model is a fixed one."""
    if isinstance(target, Attack):
        raise DurometerError(f"{target!r} is an attack; the first thing to give is the model")
    return target if isinstance(target, Game) else Static(target)


def _a_target(data: Dataset, goal: Goal, classes: int, names: Names) -> torch.Tensor | None:
    """(1, C): what the first row that has any may be pushed to; all rows are looked at, so that a
    wrong class is found before any work. Rows times classes would not fit into memory at once."""
    found = None
    blank = torch.zeros(min(len(data), 4096), classes, dtype=data.x.dtype, device=data.y.device)
    for start in range(0, len(data), len(blank)):
        index = torch.arange(start, min(start + len(blank), len(data)))
        targets = goal.targets(data.y[index], blank[: len(index)], index, names)
        some = targets.any(1)
        if found is None and bool(some.any()):
            found = targets[some][:1]
    return found


def _verdicts(referee: Referee) -> np.ndarray:
    """Broken, proven or open; nothing where the question is not asked."""
    said = np.full(len(referee.solved), "open", dtype=object)
    said[referee.proven.cpu().numpy()] = "proven"
    said[referee.solved.cpu().numpy()] = "broken"
    said[referee.idle.cpu().numpy()] = ""
    return said


def _certificates(referee: Referee) -> np.ndarray | None:
    if not referee.certificates:
        return None
    return np.array([referee.certificates.get(i) for i in range(len(referee.solved))], object)


def _stages(referee: Referee) -> np.ndarray:
    """Of each row the seconds that each stage spent on it; rows that shared all stages, one text.

    A stage's time is booked evenly, so a batch of a thousand rows has a handful of texts.
    """
    said = np.full(len(referee.solved), "{}", dtype=object)
    if not referee.spent:
        return said
    spent = torch.stack(list(referee.spent.values()), 1).numpy()
    each, which = np.unique(spent, axis=0, return_inverse=True)
    texts = [
        json.dumps({k: float(f"{t:.3g}") for k, t in zip(referee.spent, row, strict=True) if t > 0})
        for row in each.tolist()
    ]
    said[:] = np.array(texts, dtype=object)[which.reshape(-1)]
    return said
