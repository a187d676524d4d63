"""What every attack, space and goal must pass: `check_attack`, `check_space`, `check_goal`.

Small built-in problems with boxes other than [0, 1], and a second opinion in plain numpy that
shares no code with the attacks: the model is evaluated and every claim checked from the weights up.
A failed check is an `AssertionError` that says which promise was broken, on which problem.

>>> from durometer.attacks.pgd import PGD
>>> check_attack(PGD(10))
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

import durometer
from durometer._evaluate import evaluate
from durometer.attacks.base import Attack
from durometer.core.streams import Stream
from durometer.defenses.copies import copied
from durometer.games.transductive import Defender
from durometer.goals.classes import Targeted, Untargeted
from durometer.goals.goal import Goal, reached
from durometer.goals.group import Group
from durometer.kernels.arrays import Array
from durometer.model.classifier import wrap
from durometer.problem.budget import Budget
from durometer.report.report import Report
from durometer.report.stats import at_most
from durometer.spaces.lp import Lp
from durometer.spaces.region import Space
from durometer.testing.toys import ROWS, Case, cases, odd_shapes

_LUCK = 1e-3  # how unlikely it must be that an honest search is that unlucky
PART = 24  # rows for what is run many times over


def check_attack(attack: Attack, space: Lp | None = None, at_once: int = 1, luck: int = 20) -> None:
    """Checks that an attack keeps every promise of an attack.

    Its successes hold, it takes inputs of any shape, it finds at least what random points find, it
    does not depend on the batch, it stays within its budget, and it leaves global random states and
    the model untouched.

    Args:
        attack: The attack.
        space: An Lp space with a finite box. None: one of each norm that the attack works in.
        at_once: Queries of a row that the attack makes in one go, by which it may exceed a budget.
        luck: Random points per row that it must not lose to.

    Raises:
        AssertionError: A promise is broken; the message says which.

    >>> from durometer import Linf, PGD, testing
    >>> testing.check_attack(PGD(5), Linf(0.1))  # silent: all promises are kept
    """
    _check_repr(attack)
    try:
        _check_cases(attack, space, at_once, luck)
    except (RuntimeError, TypeError, ValueError, LookupError) as error:
        raise AssertionError(
            f"{attack!r} dies of {type(error).__name__}: {error}; inputs come in batches of any "
            "number of rows, flat or as images: search in z (n, D)"
        ) from error


def _check_cases(attack: Attack, space: Lp | None, at_once: int, luck: int) -> None:
    for case in cases(space, attack.needs.norms):
        classes = case.model.b.shape[1]
        ring = {c: [(c + 1) % classes, (c + 2) % classes][: classes - 1] for c in range(classes)}
        for goal in (Untargeted(), Targeted(0), Group(ring))[: classes if classes < 3 else 3]:
            with _untouched(case.model, f"{attack!r} on {case.name}"):
                report = evaluate(case.model, case.data, space=case.space, goal=goal,
                                  attack=attack, progress=False)  # fmt: skip
            _check_claims(report, case, goal, attack)
            if isinstance(goal, Untargeted):
                _check_strength(report, case, attack, luck)
                if not attack.needs.shares_answers:
                    _check_batches(report, case, attack)
        _check_budget(case, attack, at_once)
    for case in odd_shapes(space, attack.needs.norms):
        try:
            report = evaluate(case.model, case.data, space=case.space, attack=attack,
                              progress=False)  # fmt: skip
        except Exception as error:
            raise AssertionError(
                f"{attack!r} on {case.name}: {type(error).__name__}: {error}"
            ) from error
        _check_claims(report, case, Untargeted(), attack)


def _check_repr(thing: object) -> None:
    public = {n: getattr(durometer, n) for n in dir(durometer)} | vars(durometer.orders)
    names = {type(thing).__name__: type(thing), "inf": math.inf, "nan": math.nan}
    again = eval(repr(thing), {}, public | names)
    _expect(repr(again) == repr(thing), f"{thing!r}: its repr does not give it back: {again!r}")


def _expect(holds: object, message: str) -> None:
    if not bool(holds):
        raise AssertionError(message)


@contextmanager
def _untouched(model: torch.nn.Module, what: str) -> Iterator[None]:
    """No global random number is drawn, and the model keeps its mode and its gradient flags."""
    model.train()
    states = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state())  # type: ignore[index]  # noqa: NPY002
    yield
    now = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state())  # type: ignore[index]  # noqa: NPY002
    _expect(states[0] == now[0], f"{what}: draws from Python's global random numbers")
    _expect(states[1] == now[1], f"{what}: draws from numpy's global random numbers")
    _expect(torch.equal(states[2], now[2]), f"{what}: draws from torch's global random numbers")
    _expect(model.training, f"{what}: leaves the model in eval mode")
    for p in model.parameters():
        _expect(p.requires_grad, f"{what}: leaves a weight's requires_grad switched off")
        _expect(p.grad is None, f"{what}: leaves gradients in the model's weights")


def _check_claims(report: Report, case: Case, goal: Goal, attack: Attack) -> None:
    """Every success is valid and reaches the goal, by numpy alone."""
    table, what = report.table, f"{attack!r} on {case.name}, {goal!r}"
    won = table["success"].to_numpy()
    x, found = case.data.x.numpy()[won], _adversarial(report)[won]
    d = (found - x).reshape(len(x), math.prod(x.shape[1:]))
    size = np.linalg.norm(d, case.space.p, axis=1) if len(d) else np.zeros(0)
    _expect((size <= case.space.eps * (1 + 1e-5)).all(), f"{what}: a success outside the ball")
    _expect((found >= case.space.low).all() and (found <= case.space.high).all(),
            f"{what}: a success outside the box")  # fmt: skip
    y, predicted = case.data.y.numpy()[won], case.model.numpy(found).argmax(1)
    if isinstance(goal, Untargeted):
        fine = predicted != y
    elif isinstance(goal, Targeted):
        fine = predicted == goal.target
    else:
        assert isinstance(goal, Group) and goal.relation is not None
        fine = np.array([p in goal.relation[s] for p, s in zip(predicted, y, strict=True)], bool)
    _expect(fine.all(), f"{what}: {int((~fine).sum())} of {len(fine)} successes do not hold")


def _adversarial(report: Report) -> Array:
    assert report.adversarial is not None
    return report.adversarial


def _check_strength(report: Report, case: Case, attack: Attack, luck: int) -> None:
    tries = min(luck, max(3, int(report.table["forwards"].max()) - 1))
    rng = np.random.default_rng(0)
    x, y, space = case.data.x.numpy(), case.data.y.numpy(), case.space
    lucky = np.zeros(len(x), bool)
    for _ in range(tries):
        d = rng.standard_normal((len(x), x[0].size))
        d *= space.eps / np.linalg.norm(d, min(space.p, 2.0) or 1.0, axis=1, keepdims=True)
        if space.p == math.inf:
            # Corners are the strongest random points; a search without gradients may draw as
            # `Region.random` does, and is compared with its like.
            steered = attack.needs.gradient
            d = space.eps * (np.sign(d) if steered else rng.uniform(-1, 1, d.shape))
        elif space.p == 0.0:
            d *= 0.0
        near = np.clip(x + d.reshape(x.shape), space.low, space.high)
        lucky |= case.model.numpy(near).argmax(1) != y
    found = report.table["success"].to_numpy(bool)
    # Two equal random searches differ by luck: what counts is that the rows found by one of the two
    # only are the random points' more often than chance would have it.
    only_lucky, only_found = int((lucky & ~found).sum()), int((found & ~lucky).sum())
    unlucky = at_most(only_found, only_found + only_lucky, 0.5) >= _LUCK
    excused = unlucky and not attack.needs.gradient
    _expect(only_found >= only_lucky or excused,
            f"{attack!r} on {case.name}: finds {found.sum()} of {len(x)} rows, {tries} random "
            f"points find {lucky.sum()}; give a smaller luck= if that is all it asks")  # fmt: skip


def _check_batches(report: Report, case: Case, attack: Attack) -> None:
    """Batches of 1 (on a few rows), 7 and 64 in another order: the same flags and inputs."""
    parts: tuple[tuple[int, range], ...] = ((1, range(0, ROWS, 16)), (7, range(PART - 1, -1, -1)))
    if attack.needs.donors:  # drawn from all of the data: these stay as they are, reordered
        parts = ((7, range(ROWS - 1, -1, -1)),)
    for batch, rows in parts:
        other = evaluate(case.model, case.data.take(rows), space=case.space, attack=attack,
                         batch=batch, progress=False)  # fmt: skip
        index = np.array(rows)
        flags = report.table["success"].to_numpy()[index] == other.table["success"].to_numpy()
        _expect(flags.mean() >= 0.99,
                f"{attack!r} on {case.name}: {int((~flags).sum())} of {len(flags)} rows end "
                f"differently in batches of {batch}")  # fmt: skip
        apart = (
            np.abs(_adversarial(report)[index] - _adversarial(other)).reshape(len(index), -1).max(1)
        )
        _expect((apart < 1e-6).mean() >= 0.9,
                f"{attack!r} on {case.name}: in batches of {batch} other points are tried: "
                "draw random numbers from problem.random, row by row")  # fmt: skip


def _check_budget(case: Case, attack: Attack, at_once: int) -> None:
    for limit in (Budget(forwards=7), Budget(backwards=5)):
        table = evaluate(case.model, case.data.take(range(PART)), space=case.space, attack=attack,
                         budget=limit, progress=False).table  # fmt: skip
        for name, most in (("forwards", limit.forwards), ("backwards", limit.backwards)):
            spent = int(table[name].max())
            _expect(most is None or spent <= most + at_once,
                    f"{attack!r} on {case.name}: {spent} {name}, budget {most}")  # fmt: skip


def check_space(space: Space, x: Tensor, seed: int = 0) -> None:
    """Checks that the regions of a space keep every promise of a region.

    Args:
        space: The space.
        x: At least two clean inputs (n, ...) that lie in the space.
        seed: Seed of the points that are tried.

    Raises:
        AssertionError: A promise is broken; the message says which.

    >>> from durometer.spaces.lp import L2
    >>> check_space(L2(0.5), torch.rand(8, 3))  # silent: all promises are kept
    """
    x = torch.as_tensor(x)
    n, rows, what = len(x), torch.arange(len(x)), repr(space)
    space.check(x)
    region = space.around(x)
    z0 = region.origin
    _expect(
        z0.ndim == 2 and len(z0) == n, f"{what}: origin has shape {tuple(z0.shape)}, not (n, D)"
    )
    _expect(region.contains(x).all(), f"{what}: clean inputs are not contained")
    _expect(torch.equal(region.decode(region.encode(x)), x), f"{what}: decode(encode(x)) is not x")
    _expect(torch.equal(region.encode(x), z0), f"{what}: the origin is not encode(x)")
    _expect((region.distance(x) == 0).all(), f"{what}: a clean input is not at distance 0")
    _expect((region.penalty(z0) <= 1e-9).all(), f"{what}: a clean input has a penalty")
    stream = Stream(seed, torch.arange(n))
    noise = stream.normal(rows, z0.shape[1], z0.dtype)
    starts = region.random(stream, rows)
    for name, z in (("project", region.project(z0 + 10 * region.eps * noise)), ("random", starts)):
        _expect(z.shape == z0.shape and z.isfinite().all(), f"{what}: {name} gives {z.shape}, {z}")
        again = region.project(z)
        _expect((again - z).abs().max() <= 1e-5 * (1 + z.abs().max()),
                f"{what}: {name} gives points that project() still moves")  # fmt: skip
        given = region.decode(z)
        free = region.penalty(region.encode(given)) == 0
        _expect(region.contains(given)[free].all(), f"{what}: {name} leaves the region")
        _expect(torch.equal(region.decode(region.encode(given)), given),
                f"{what}: decode, encode and decode again differ")  # fmt: skip
        some = torch.arange(n - 1, -1, -2)
        part = region.take(some)
        _expect(torch.equal(part.decode(z[some]), given[some]) and
                torch.equal(part.contains(given[some]), region.contains(given)[some]) and
                torch.allclose(part.project(z[some]), again[some], atol=1e-6),
                f"{what}: take() gives rows that behave differently")  # fmt: skip
    drawn = region.take(rows[1:]).random(_skip_normal(seed, n, z0.shape[1]), rows[1:])
    _expect(torch.equal(drawn, starts[1:]), f"{what}: random() depends on the other rows")
    step = torch.full((n,), 0.1 * region.eps, dtype=z0.dtype)
    gain = ((region.ascend(z0, noise, step) - z0) * noise).sum(1)
    _expect((gain >= 0).all(), f"{what}: ascend() steps against the gradient")


def _skip_normal(seed: int, n: int, size: int) -> Stream:
    """A fresh stream at the place where the first one stood when random() was called."""
    stream = Stream(seed, torch.arange(n))
    stream.normal(torch.arange(n), size)
    return stream


def check_goal(goal: Goal, classes: int = 10, names: tuple[str, ...] | None = None,
               rows: int | None = None) -> None:  # fmt: skip
    """Checks that a goal gives a proper mask, row by row.

    Args:
        goal: The goal.
        classes: Number of classes to try it with.
        names: Names of the classes, where the goal uses names.
        rows: Number of rows, where the goal has a fixed one. None: three per class.

    Raises:
        AssertionError: A promise is broken; the message says which.

    >>> check_goal(Targeted(3))  # silent: all promises are kept
    """
    n, what = rows or 3 * classes, repr(goal)
    index = torch.arange(n)
    y = index % classes
    clean = Stream(0, index).normal(index, classes)
    mask = goal.targets(y, clean, index, names)
    _expect(mask.shape == (n, classes) and mask.dtype == torch.bool,
            f"{what}: targets has shape {tuple(mask.shape)} and type {mask.dtype}")  # fmt: skip
    _expect(not mask.gather(1, y[:, None]).any(), f"{what}: a true class is among the targets")
    _expect(mask.any(), f"{what}: no class has a target")
    _expect(torch.equal(mask, goal.targets(y, clean, index, names)), f"{what}: answers differ")
    some = torch.arange(n - 1, -1, -2)
    part = goal.targets(y[some], clean[some], some, names)
    _expect(torch.equal(part, mask[some]), f"{what}: a row's targets depend on the other rows")
    for c in range(classes):
        logits = torch.nn.functional.one_hot(torch.full((n,), c), classes).double()
        _expect(torch.equal(reached(logits, mask), mask[:, c]), f"{what}: reached() at class {c}")
    _check_repr(goal)


def check_defender(defender: Defender, x: Tensor, seed: int = 0) -> None:
    """Checks that a test-time defence is a pure function of state, batch and seed.

    Args:
        defender: The defence.
        x: A batch (n, ...).
        seed: Seed of the adaptation.

    Raises:
        AssertionError: It changes its state or the batch, depends on global random numbers, or
            answers differently the second time.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> du.testing.check_defender(du.defenses.TENT(model), data.x)
    """
    what = type(defender).__name__
    first_state = defender.start()
    twin = copied if isinstance(first_state, torch.nn.Module) else copy.deepcopy
    before, given = twin(first_state), x.clone()
    state = twin(before)
    globals_before = torch.random.get_rng_state()
    first, after = _adapted(defender, state, x, seed)
    _expect(torch.equal(globals_before, torch.random.get_rng_state()),
            f"{what}: adapt() draws from the global random numbers")  # fmt: skip
    _expect(torch.equal(x, given), f"{what}: adapt() changes the batch it is given")
    torch.rand(7)
    again, after_again = _adapted(defender, state, x, seed)
    _expect(torch.equal(first, again),
            f"{what}: the same state and seed give another answer the second time")  # fmt: skip
    fresh, _ = _adapted(defender, before, x, seed)
    _expect(torch.equal(first, fresh), f"{what}: adapt() changes the state it is given")
    base = wrap(defender.base(state))
    with base.ready(), torch.no_grad():
        _expect(base.logits(x).shape == first.shape, f"{what}: base() has other classes")
    next_one, _ = _adapted(defender, after, x, seed + 1)
    next_two, _ = _adapted(defender, after_again, x, seed + 1)
    _expect(torch.equal(next_one, next_two), f"{what}: equal rounds leave unequal states")
    if not defender.stateful:
        stay, _ = _adapted(defender, state, x, seed + 1)
        _expect(torch.equal(next_one, stay), f"{what}: says it is stateless, but a round matters")


def _adapted(defender: Defender, state: Any, x: Tensor, seed: int) -> tuple[Tensor, Any]:
    model, after = defender.adapt(state, x, seed)
    model = wrap(model)
    with model.ready(), torch.no_grad():
        logits: Tensor = model.logits(x, torch.arange(len(x)))
    return logits, after
