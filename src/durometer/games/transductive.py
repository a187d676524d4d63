"""Transductive: a defender adapts to the very batch the attacker has handed in (Chen et al. 2022).

Rounds of batches. In each the attacker changes the rows it controls (U -> U'), the defender moves
(F = Gamma(U')), and the referee asks F for its answers on U'. What the attacker knows:

    "start"   the defender's start state; it keeps up a simulation of its own from then on
    "state"   the true state before each round (state leaking)
    "seed"    the state and the defender's random seed (public randomness): an upper bound

`Defender.adapt` is a pure function of (state, batch, seed), so simulating, rolling back and leaking
are all the same call. The referee's seeds are made from the run's seed, the run and the round
alone: what the attacker consumed cannot change them.

What a reader would get wrong: `clean` in the records is the answer of the defender adapted to the
*clean* batch, in a game of its own in which nobody attacks; the static model's answers are another
evaluation (`du.evaluate(model, ...)`, the first rung of `du.ladder`). That game is the same for
every attack, so a game object plays it once and remembers the answers. And several runs with leaked
states are several games: the attacker plays each of them anew.

Nothing in a round may pass from the attacker's side to the referee's
but the batch itself. The attacker rehearses with seeds of its own; the defender then moves with the
referee's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from durometer import losses
from durometer.attacks.base import Attack, run
from durometer.core import serialization
from durometer.core.capabilities import Unrolls, UsuallyAttacked
from durometer.core.devices import HOST, attack_device, is_cpu, widest
from durometer.core.errors import DurometerError
from durometer.core.facts import Facts
from durometer.core.records import Records
from durometer.core.serialization import to_dict
from durometer.core.spec import Spec
from durometer.core.streams import Stream, derive, keys
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.games.arguments import check_kinds, refused_quota
from durometer.games.game import USUAL, Carried, Play
from durometer.goals.goal import Expandable, Goal, gap, reached
from durometer.model.classifier import AnyModel, Classifier, wrap
from durometer.model.probe import inspect
from durometer.problem.budget import Budget
from durometer.problem.defender_simulation import DefenderSimulation
from durometer.problem.needs import check_needs
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee
from durometer.spaces.region import Region, Space
from durometer.tables.space import TableSpace


@runtime_checkable
class Defender(Protocol):
    """A test-time defence: it adapts to the batch that the attacker hands in.

    `adapt` is a pure function of state, batch and seed, so that attackers can simulate it.
    """

    @property
    def stateful(self) -> bool:
        """Whether a round changes the state for the next one."""
        ...

    def start(self) -> Any:
        """The state after training, before the first round; known to the attacker."""
        ...

    def base(self, state: Any) -> AnyModel:
        """The classifier in a state, before it adapts to a batch.

        Args:
            state: The state.
        """
        ...

    def adapt(self, state: Any, x: Tensor, seed: int) -> tuple[AnyModel, Any]:
        """Adapts to a batch.

        Args:
            state: The state before the round; it is not changed.
            x: The batch (n, ...), as the attacker handed it in.
            seed: Seed of the defender's random numbers.

        Returns:
            The classifier for this batch, and the state for the next round.
        """
        ...


@noun(eq=False)
class Transductive:
    """The game of test-time defences: in each round the attacker changes a batch, then the defender
    adapts to it (Chen et al., 2022).

    Args:
        defender: The defence; see `defenses`, or implement `extend.Defender`.
        batch: Rows per round.
        information: What the attacker knows: "start" (the state before the first round), "state"
            (the true state before each round) or "seed" (the state and the defender's random
            numbers: the strongest attacker).
        order: Order of the rows: "natural", "sorted" (by label inside windows, the adversarially
            ordered game of the paper) or a function from the data to a permutation.
        window: Rows per window of "sorted". None: two batches.
        controlled: Mask over the data's rows: which ones the attacker may change. None: all.
        scored: Mask over the data's rows: which ones count. None: all.
        runs: How often each round is judged, with other random numbers of the defender; metrics are
            means over the runs.
        probe: Whether to check on the first batch that answers depend on the order, the other rows
            or the random numbers; this takes four adaptations.

    Raises:
        DurometerError: `defender` is no defender, or a parameter has an impossible value.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> attack = du.GMSA(du.PGD(5), iterations=2)
    >>> report = du.evaluate(game, data, space=du.Linf(0.1), attack=attack)
    >>> report.metric("clean").value, report.table.groupby("round")["success"].mean().to_dict()
    (1.0, {0: 0.25, 1: 0.5})
    """

    defender: Defender = field(
        metadata={
            "example": "du.defenses.DENT(model), or one of your own with stateful, start(), "
            "base(state) and adapt(state, x, seed)"
        }
    )
    batch: int = 128
    information: Literal["start", "state", "seed"] = "start"
    order: Literal["natural", "sorted"] | Callable[[Dataset], Any] = "natural"
    window: int | None = None
    controlled: Any = field(default=None, repr=False)
    scored: Any = field(default=None, repr=False)
    runs: int = 1
    probe: bool = True
    divisible: ClassVar[bool] = False  # a round builds on those before it
    _started: tuple[Any, ...] = field(default=(), repr=False)  # the start state, once prepared
    _random: bool = field(default=False, repr=False)  # found by the probe
    _quiet: dict[Any, Any] = field(default_factory=dict, repr=False)  # answers nobody attacked
    __eq__, __hash__ = (
        serialization.equal_fields,
        serialization.hash_by_type,
    )  # of one and the same defender

    def describe(self) -> Spec:
        kind, game = type(self.defender).__name__, to_dict(self, whole=True)
        if not self._started:
            return Spec(game=game, model=kind, model_hash="unknown")
        base = wrap(self.defender.base(*self._started))
        title, what = f"{kind} on {base.title}", f"{kind} on {base.kind}"
        return replace(base.described, game=game, model=title, model_kind=what)

    def default_attack(self, space: Space | None) -> Attack | None:
        if isinstance(self.defender, UsuallyAttacked):
            usual: Attack | None = self.defender.usual_attack(space)
            if usual is not None:
                return usual
        inner = "CAPGD()" if isinstance(space, TableSpace) else "PGD(40)"
        raise DurometerError(
            "there is no standard attack on a defender that adapts: give one that rehearses it, "
            f'attack=du.GMSA(du.{inner}, "avg"); attack=None if nobody is to attack'
        )

    def refuses(self, goal: Expandable, run: Carried) -> str | None:
        if goal.together:
            return refused_quota(self)
        if run.until is not None:
            return (
                f"until={run.until}: the rounds of Transductive build on each other, so it is "
                "played to the end and in the order of the data; play fewer rows instead, "
                "data.sample(n)"
            )
        return None

    def answers(self, x: Tensor) -> Tensor:
        """The logits before any adaptation; part of the fingerprint of a run.

        Args:
            x: Inputs (n, ...).
        """
        base = wrap(self.defender.base(*self._started))
        with base.ready(), torch.no_grad():
            return base.logits(x)

    def prepare(
        self, data: Dataset, space: Space | None, goal: Goal, attack: Attack | None
    ) -> tuple[Transductive, Facts]:
        """Checks everything, then starts the defender; see `Game.prepare`."""
        self._check(data)
        if attack is not None and space is None:
            raise DurometerError(
                "evaluate() needs a space: what may change? e.g. space=du.Linf(8/255)"
            )
        check_kinds(space, goal, attack)
        state = self.defender.start()
        base = wrap(self.defender.base(state)).among(data.x[:32])
        with base.ready(), torch.no_grad():
            facts = inspect(base, data.x[:32], data.y, moves=True)
            blank = base.logits(data.x[:1]).new_zeros(len(data), facts.classes)
        answers = facts.classes - (base.reject is not None)
        if data.classes is not None and len(data.classes) != answers:
            raise DurometerError(
                f"the data names {len(data.classes)} classes, but the defender has {answers}"
            )
        if space is not None:
            space.check(data.x)
        if attack is not None and space is not None:
            check_needs(attack, base, space, moves=True)
        targets = goal.targets(data.y, blank, torch.arange(len(data)), class_names(data, base))
        if not bool(targets.any()):
            raise DurometerError(
                f"goal {goal!r}: no row of this data has any class to be pushed to"
            )
        if base.reject is not None and bool(targets[:, base.reject].any()):
            raise DurometerError(
                f"goal {goal!r} counts a rejected input as a success; the reject class is "
                f"{base.reject}: use du.Untargeted(reject={base.reject})"
            )
        if self.probe:
            facts = self._probe(state, data, facts)
        random = self._random if facts.random is None else facts.random
        facts = replace(facts, unattacked=attack is None, one_move=random and self.runs == 1)
        return replace(self, _started=(state,), _random=random), facts

    def _check(self, data: Dataset) -> None:
        for name in ("controlled", "scored"):
            mask = getattr(self, name)
            if mask is not None and np.asarray(mask).shape != (len(data),):
                raise DurometerError(
                    f"{name} has shape {np.asarray(mask).shape}; expected ({len(data)},), one "
                    "truth value per row of the data"
                )

    def _probe(self, state: Any, data: Dataset, facts: Facts) -> Facts:
        """Do answers change with the order of the batch, with its company, with the draw?"""
        x = data.x[self._rounds(data)[0]]
        place = torch.arange(len(x))
        device = wrap(self.defender.base(state)).device or x.device

        def asked(rows: Tensor, draw: int = 0) -> Tensor:
            there = x[rows].to(attack_device(x, device, None))
            return self._logits(self._adapt(state, there, draw)[0], there).to(x.device)

        first = asked(place)
        facts = replace(facts, random=not torch.equal(first, asked(place, 1)))
        if len(x) < 4:
            return facts
        back, half = asked(place.flip(0)).flip(0), place[: len(x) // 2]
        alone = asked(half).argmax(1) != first[half].argmax(1)
        return replace(
            facts,
            order_difference=float((back.argmax(1) != first.argmax(1)).double().mean()),
            company_difference=float(alone.double().mean()),
        )

    @staticmethod
    def _logits(model: Classifier, x: Tensor) -> Tensor:
        with model.ready(), torch.no_grad():
            return model.logits(x)

    def _adapt(self, state: Any, x: Tensor, seed: int) -> tuple[Classifier, Any]:
        model, after = self.defender.adapt(state, x, seed)
        return wrap(model).among(x), after

    def _rounds(self, data: Dataset) -> list[Tensor]:
        """The places of the rows of each round."""
        places = torch.arange(len(data))
        if callable(self.order):
            places = torch.as_tensor(np.ascontiguousarray(self.order(data))).long()
            if not torch.equal(places.sort().values, torch.arange(len(data))):
                raise DurometerError("order(data) must give each of the data's rows exactly once")
        elif self.order == "sorted":
            parts = torch.split(places, self.window or 2 * self.batch)
            places = torch.cat([part[data.y[part].argsort(stable=True)] for part in parts])
        return list(torch.split(places, self.batch))

    def play(
        self,
        data: Dataset,
        space: Space | None,
        goal: Goal,
        attack: Attack | None,
        seed: int,
        options: Play = USUAL,
    ) -> Iterator[Records]:
        """Yields the records of one round after the other; see `Game.play`. Rounds have their own
        batch size.
        """
        (begin,) = self._started or (self.defender.start(),)
        mind = begin  # where the attacker believes the defender to be
        truth, calm = [begin] * self.runs, [begin] * self.runs
        rounds = self._rounds(data)
        # The weights, too: a model that was trained on between two evaluations is another one.
        base = wrap(self.defender.base(begin))
        weights, place = base.hash, attack_device(data.x, base.device or data.x.device, space)
        key = (id(self.defender), weights, data.hash, seed, self.runs, self.batch, _bytes(rounds))
        _, quiet = self._quiet.get(key, (None, {}))
        answers: dict[tuple[int, int], Tensor] = {}
        for number, index in enumerate(rounds):
            turn = Round(
                self.defender,
                begin,
                data,
                index,
                number,
                space,
                goal,
                attack,
                seed,
                options.budget,
                options.observe,
                self.controlled,
                self.scored,
                self._random,
                place,
            )
            parts: list[Records] = []
            if self.information == "start":
                move = turn.attack(mind, derive(seed, "simulation", number))
            for r in range(self.runs):
                referee_seed = derive(seed, "referee", r, number)
                if self.information != "start":
                    private = derive(seed, "simulation", r, number)
                    shown = referee_seed if self.information == "seed" else None
                    move = turn.attack(truth[r], private, shown)
                clean = quiet.get((r, number))
                if clean is None and attack is not None:
                    clean, calm[r] = turn.untouched(calm[r], referee_seed)
                record, truth[r], answers[r, number] = turn.judge(
                    move, truth[r], clean, referee_seed, r
                )
                parts.append(record)
            if self.defender.stateful and self.information == "start":
                shown_to = move.x.to(place)
                _, mind = self._adapt(mind, shown_to, derive(seed, "attacker", number))
            yield Records.concat(parts)
        self._quiet[key] = (self.defender, answers)  # whole games only; the id stays in use


def _bytes(rounds: list[Tensor]) -> bytes:
    """The order of the rows, as part of a key."""
    order: bytes = torch.cat(rounds).numpy().tobytes()
    return order


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

    defender: Defender
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
        if isinstance(self.defender, Unrolls):
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
                    simulation=DefenderSimulation(
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
