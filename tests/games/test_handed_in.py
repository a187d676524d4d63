"""What an attacker may hand in: its own rows, inside the space; and what it may know of seeds."""

import numpy as np
import pytest
import torch
from tests.toys.transductive import Dice, Median, plane

import durometer as du
from durometer.core.streams import derive
from durometer.extend import Needs

SPACE = du.Linf(0.05)


class Forger:
    """Writes what it likes where the referee keeps the batch."""

    needs = Needs()

    def __call__(self, problem):
        problem.referee.best[:] = 0.9


class Poisoner:
    """Hands in a whole batch the proper way, and is told which rows were taken."""

    needs = Needs()
    taken: torch.Tensor

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, problem):
        batch = problem.kept(torch.arange(len(problem.y))) + self.shift
        type(self).taken = problem.hand_in(batch.clamp(0, 1))


def play(attack, data, **rules):
    return du.evaluate(du.Transductive(Median(), batch=len(data), probe=False, **rules),
                       data, space=SPACE, attack=attack)  # fmt: skip


def test_rows_that_were_forged_are_put_back_and_flagged():
    data = plane(24)
    mine = np.arange(24) < 8
    report = play(Forger(), data, controlled=mine, scored=~mine)
    np.testing.assert_array_equal(report.adversarial, data.x.numpy())
    assert report.table["valid"].all()
    (flag,) = (f for f in report.flags if f.id == "put-back")
    assert "24 rows" in flag.text and flag.level == "warning"
    assert not [f for f in play(du.Transfer(du.PGD(3)), data).flags if f.id == "put-back"]


@pytest.mark.parametrize(("shift", "taken"), [(0.04, 8), (0.2, 0)])
def test_a_batch_is_handed_in_row_by_row(shift, taken):
    data = plane(24)
    mine = np.arange(24) < 8
    report = play(Poisoner(shift), data, controlled=mine, scored=~mine)
    assert int(Poisoner.taken.sum()) == taken and not Poisoner.taken[8:].any()
    moved = (report.adversarial != data.x.numpy()).any(1)
    assert moved.sum() == taken and not moved[~mine].any()
    assert not report.flags or "put-back" not in {f.id for f in report.flags}


def test_a_batch_of_another_shape_is_refused():
    class Short(Poisoner):
        def __call__(self, problem):
            problem.hand_in(problem.kept(torch.arange(2)))

    with pytest.raises(du.DurometerError, match=r"hand_in.*\(2, 2\).*\(24, 2\)"):
        play(Short(0), plane(24))
    with pytest.raises(du.Unsupported, match="model that moves"):
        du.evaluate(torch.nn.Linear(2, 2), plane(8), space=SPACE, attack=Poisoner(0.01))


@pytest.mark.parametrize("information", ["start", "state"])
def test_the_attackers_seed_says_nothing_of_the_defenders(information):
    used, known = [], []

    class Watched(Dice):
        def adapt(self, state, x, seed):
            used.append(seed)
            return super().adapt(state, x, seed)

    class Look:
        needs = Needs()

        def __call__(self, problem):
            known.append(problem.random.seed)

    game = du.Transductive(Watched(), batch=12, probe=False, information=information)
    du.evaluate(game, plane(12), space=SPACE, attack=Look(), seed=5)
    assert used and known
    for seed in known:
        guesses = {seed, *(derive(seed, "referee", run, 0) for run in range(3))}
        assert guesses.isdisjoint(used), "the private seed can be guessed"
