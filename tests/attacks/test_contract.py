"""Every attack and combination keeps every promise that `check_attack` lists; cheats are caught."""

import math
from dataclasses import dataclass

import pytest
import torch

import durometer as du
from durometer.attacks.autoattack import AutoAttack
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.testing import check_attack, check_goal, check_space

ATTACKS = [
    du.FGSM(),
    du.PGD(6),
    du.PGD(5, start="clean", restarts=2, loss="margin"),
    du.APGD(6),
    du.APGD(4, loss="odds", restarts=2, eot=2),
    du.FAB(5, targets=2, restarts=2),
    du.Square(30),
    du.Square(24, restarts=2),
    du.CW(steps=40, searches=3, c=1.0, lr=0.1),
    du.Then(du.FGSM(), du.Square(20)),
    du.Worst(du.PGD(3), du.Square(20)),
    du.Restarts(du.PGD(3), 2),
    du.Guess(du.PGD(3)),
    du.Guess(du.APGD(3), mode="best", most=2),
    AutoAttack(steps=3, targets=2, queries=10),
    du.Then(du.PGD(3), du.Square(40, p=0.1, start="best", prune=True)),
    du.Cascade(steps=3, nearest=2, queries=16),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attack_keeps_its_promises(attack):
    check_attack(attack)


def test_fab_at_all_classes_at_once_spends_one_backward_pass_per_class():
    check_attack(du.FAB(4, targets=None), at_once=10)


def test_average_guess_is_an_estimate_and_need_not_beat_luck():
    check_attack(du.Guess(du.PGD(3), mode="average"), luck=0)


@pytest.mark.parametrize("attack", [du.PGD(5), du.FAB(4, targets=2), du.Square(60)], ids=str)
@pytest.mark.parametrize("space", [du.L1(15.0, -10.0, 40.0), du.Linf(2.0, -10.0, 40.0)], ids=str)
def test_scale_of_the_box_does_not_matter(attack, space):
    check_attack(attack, space)


@dataclass(frozen=True)
class Cheat:
    """Does nothing, or what `how` says."""

    how: str = ""

    @property
    def needs(self):
        return Needs()

    def __call__(self, problem: Problem) -> None:
        if self.how == "solve":
            problem.referee.solved[:] = True
        elif self.how == "global":
            torch.rand(1)
        elif self.how == "spend":
            rows = problem.open
            for _ in range(12):
                problem.submit(rows, problem.region(rows).origin)
        elif self.how == "batch":
            rows = problem.open
            start = problem.region(rows).origin
            noise = torch.rand(start.shape, generator=torch.Generator().manual_seed(0))
            for _ in range(40):
                noise = noise.roll(1, 1)
                problem.submit(rows, problem.region(rows).project(start + 9 * (noise - 0.5)))
                rows = problem.open
                start, noise = problem.region(rows).origin, noise[: len(rows)]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("", "random points find"),
        ("solve", "do not hold"),
        ("global", "torch's global random"),
        ("batch", "in batches of"),
    ],
)
def test_check_attack_catches(how, message):
    with pytest.raises(AssertionError, match=message):
        check_attack(Cheat(how))


def test_check_attack_catches_a_broken_budget():
    with pytest.raises(AssertionError, match="forwards, budget 7"):
        check_attack(Cheat("spend"), luck=0)


@pytest.mark.parametrize("space", [du.Linf(0.1), du.L2(0.5), du.L1(0.7), du.L0(2)], ids=str)
@pytest.mark.parametrize("shape", [(6,), (1, 4, 4), (2, 3, 2, 2)], ids=str)
def test_space_keeps_its_promises(space, shape):
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(9, *shape, generator=generator)
    check_space(space, x)
    check_space(space, x.round().double())  # on the box's corners


def test_space_with_an_open_box_keeps_its_promises():
    x = torch.tensor([[1.0, -2.0, 3.0], [5.0, 0.0, 0.0]])
    inf = float("inf")
    for space in (du.Linf, du.L2, du.L1):
        check_space(space(0.5, low=[-inf, -2.0, -inf], high=[inf, inf, 3.0]), x)


def test_check_space_catches_a_projection_that_leaves_the_ball():
    space = du.L2(0.5)

    @dataclass(frozen=True)
    class Loose:
        def check(self, x):
            space.check(x)

        def around(self, x):
            region = space.around(x)
            object.__setattr__(region, "project", lambda z: z.clamp(0, 1))
            return region

    with pytest.raises(AssertionError, match="leaves the region"):
        check_space(Loose(), torch.full((4, 3), 0.5))


@pytest.mark.parametrize(
    "goal",
    [
        du.Untargeted(),
        du.Untargeted(reject=9),
        du.Targeted(3),
        du.Targeted([1, 2, 3] * 10),
        du.LeastLikely(),
        du.Group({0: [1, 2], 5: [6]}),
    ],
    ids=str,
)
def test_goal_keeps_its_promises(goal):
    check_goal(goal)


def test_check_goal_catches_a_true_class_among_the_targets():
    class Own:
        def targets(self, y, clean, index, names=None):
            return torch.ones_like(clean, dtype=torch.bool)

    with pytest.raises(AssertionError, match="true class"):
        check_goal(Own())


@dataclass(frozen=True)
class TwentyPoints:
    """An honest random search: as good as the points it is compared with, and not better."""

    @property
    def needs(self):
        return Needs()

    def __call__(self, problem):
        for _ in range(20):
            rows = problem.open
            if len(rows):
                problem.submit(rows, problem.region(rows).random(problem.random, rows))


@dataclass(frozen=True)
class Idle(TwentyPoints):
    """Asks, and never moves."""

    def __call__(self, problem):
        for _ in range(20):
            problem.submit(problem.open, problem.region(problem.open).origin)


def test_an_honest_random_search_is_not_failed_by_luck():
    check_attack(TwentyPoints())
    with pytest.raises(AssertionError, match="random points find"):
        check_attack(Idle())


@dataclass(frozen=True)
class _Square28:
    """Takes every picture for a square one of one channel."""

    @property
    def needs(self):
        return Needs(norms=(math.inf,))

    def __call__(self, problem):
        rows = problem.open
        region = problem.region(rows)
        side = int(region.origin.shape[1] ** 0.5)
        z = region.random(problem.random, rows)
        if region.origin.shape[1] != 8:
            z = z.reshape(len(rows), side, side).flatten(1)
        problem.submit(rows, z)


def test_an_attack_that_dies_of_a_shape_fails():
    with pytest.raises(AssertionError, match="colour image.*invalid for input of size"):
        check_attack(_Square28(), luck=0)
