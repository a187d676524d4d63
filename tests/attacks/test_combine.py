"""Then, Worst, Restarts, Guess, budgets: who is run on what, and what is kept."""

from dataclasses import dataclass, field

import pytest
import torch

import durometer as du
from durometer.games.game import Play
from durometer.problem.needs import Needs


@dataclass(frozen=True)
class Spy:
    """Moves each open row `by` to the right, and notes which rows it was given to move where."""

    by: float = 0.0
    name: str = "spy"
    seen: list = field(default_factory=list, repr=False)

    @property
    def needs(self):
        return Needs()

    def __call__(self, problem):
        rows = problem.open
        region = problem.region(rows)
        wanted = [t.nonzero()[:, 0].tolist() for t in problem.targets[rows]]
        self.seen.append(dict(zip(rows.tolist(), wanted, strict=True)))
        problem.submit(rows, region.project(region.origin + self.by))


class Steps(torch.nn.Module):
    """Class = the unit interval the input lies in: 0 below 1, 1 below 2, 2 below 3."""

    def forward(self, x):
        return -(x - torch.tensor([0.5, 1.5, 2.5], dtype=x.dtype)).abs()


X = torch.tensor([[0.9], [0.5], [0.1]]).double()
DATA = du.Dataset(X, [0, 0, 0])
SPACE = du.Linf(2.5, 0.0, 3.0)


def play(attack, data=DATA, **more):
    return du.evaluate(Steps(), data, space=SPACE, attack=attack, progress=False, **more)


def test_then_gives_the_next_attack_only_what_is_left():
    first, second, third = Spy(0.2, "a"), Spy(0.7, "b"), Spy(1.0, "c")
    report = play(du.Then(first, second, third))
    assert [sorted(s.seen[0]) for s in (first, second, third)] == [[0, 1, 2], [1, 2], [2]]
    assert report.table["winner"].tolist() == ["a", "b", "c"]


def test_then_does_not_run_what_has_nothing_left():
    last = Spy(0.1)
    play(du.Then(Spy(1.0), last))
    assert last.seen == []


def test_worst_runs_all_and_keeps_the_nearest():
    far, near = Spy(1.5, "far"), Spy(0.6, "near")
    report = play(du.Worst(far, near))
    assert [sorted(s.seen[0]) for s in (far, near)] == [[0, 1, 2]] * 2
    assert report.table["winner"].tolist() == ["near", "near", "far"]
    assert report.table["distance"].tolist() == pytest.approx([0.6, 0.6, 1.5])
    assert report.table["forwards"].tolist() == [3, 3, 3]


def test_worst_keeps_the_first_of_equals():
    assert play(du.Worst(Spy(1.0, "a"), Spy(1.0, "b"))).table["winner"].tolist() == ["a"] * 3


def test_worst_counts_each_gradient_once():
    attack, seen = du.Then(du.FGSM(), du.Worst(du.FGSM(), du.FGSM())), []
    game, _ = du.Static(Steps()).prepare(DATA, du.Linf(0.01, 0.0, 3.0), du.Untargeted(), attack)
    how = (DATA, du.Linf(0.01, 0.0, 3.0), du.Untargeted(), attack, 0)
    (records,) = game.play(*how, Play(observe=seen.append))
    assert seen[0].facts()["gradients"] == records.columns["backwards"].sum() == 3 * len(DATA)


def test_restarts_run_again_only_on_what_is_open_and_with_fresh_numbers():
    spy = Spy(0.3)
    play(du.Restarts(spy, 3))
    assert [sorted(s) for s in spy.seen] == [[0, 1, 2], [1, 2], [1, 2]]

    starts = []

    @dataclass(frozen=True)
    class Start(Spy):
        def __call__(self, problem):
            starts.append(problem.random.uniform(problem.open, 1))

    play(du.Restarts(Start(), 2))
    assert not bool((starts[0] == starts[1]).any())


def test_guess_tries_single_targets_from_the_likeliest():
    spy = Spy(0.0)
    play(du.Guess(spy))
    assert spy.seen == [{0: [1], 1: [1], 2: [1]}, {0: [2], 1: [2], 2: [2]}]


def test_guess_stops_at_the_first_success_but_best_goes_on():
    for mode, runs in (("until_success", 1), ("best", 2)):
        spy = Spy(1.0)
        report = play(du.Guess(spy, mode=mode))
        assert report.table["success"].all()
        assert len(spy.seen) == runs


def test_guess_most_limits_and_average_takes_one_target_per_row():
    spy = Spy(0.0)
    play(du.Guess(spy, most=1))
    assert len(spy.seen) == 1
    spy = Spy(0.0)
    many = du.Dataset(torch.full((400, 1), 0.5).double(), [0] * 400)
    play(du.Guess(spy, mode="average"), many, batch=400)
    (seen,) = spy.seen
    assert all(len(t) == 1 for t in seen.values())
    assert 0.4 < sum(t == [1] for t in seen.values()) / 400 < 0.6


def test_guess_refuses_an_unknown_mode():
    with pytest.raises(du.DurometerError, match="mode='bset'"):
        play(du.Guess(Spy(), mode="bset"))


def test_a_targeted_goal_is_not_reached_by_another_wrong_class():
    report = play(Spy(1.0), goal=du.Targeted(2))
    assert not report.table["success"].any()
    assert play(Spy(2.2), goal=du.Targeted(2)).table["success"].all()


def test_solved_rows_and_rows_without_a_target_cost_nothing():
    data = du.Dataset(torch.tensor([[0.5], [1.5]]).double(), [0, 0])  # the second is wrong already
    report = play(du.PGD(5), data)
    assert report.table["forwards"].tolist()[1] == 1
    assert report.table["winner"].tolist()[1] == "clean"
    report = play(du.PGD(5), goal=du.Group({1: [2]}), data=du.Dataset(X, [0, 0, 1]))
    assert report.table["skipped"].tolist()[:2] == ["no target"] * 2
    assert report.table["forwards"].tolist()[:2] == [1, 1]
