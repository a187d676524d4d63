"""MOEVA, BF*, Graft and CAA: what they find is valid and theirs, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from tests.toys.search import SCHEMA, Net, rows, valid

import durometer as du
from durometer import losses
from durometer.core.streams import Stream
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee

EPS = 0.45
MOEVA = du.MOEVA(generations=30, population=40, offspring=20)
SEARCHES = (MOEVA, du.BFS(iterations=30, bins=20), du.Graft(evaluations=600, offspring=20))
SPACE = SCHEMA.space(eps=EPS, p=2)


def problem(keep: str = "first", seed: int = 0) -> Problem:
    data, model = rows(), du.wrap(Net())
    clean = model.logits(data.x)
    targets = torch.nn.functional.one_hot(1 - data.y, 2).bool()
    referee = Referee(targets, data.x.clone(), keep, 0.0)
    stream = Stream(seed, torch.arange(len(data.x)))
    return Problem(model, SPACE.around(data.x), referee, stream, data.y, clean, targets, losses.ce)


@pytest.mark.parametrize("attack", SEARCHES)
def test_successes_are_valid_by_other_rules_and_fool_the_model(attack) -> None:
    data = rows()
    report = du.evaluate(Net(), data, space=SPACE, attack=attack, progress=False)
    won = report.table["success"].to_numpy()
    assert won.sum() >= 2, "an attack that finds nothing proves nothing"
    x = torch.as_tensor(report.adversarial)[torch.from_numpy(won)]
    assert valid(x.numpy(), data.x.numpy()[won], EPS).all()
    assert (Net()(x).argmax(1) == 0).all()
    assert set(report.table["winner"][won]) == {type(attack).__name__}


@pytest.mark.parametrize("attack", SEARCHES)
def test_a_budget_is_kept_where_a_row_asks_many_at_once(attack) -> None:
    narrow = SCHEMA.space(eps=0.01)  # nothing to be found
    how = {"space": narrow, "attack": attack, "progress": False}
    few = du.evaluate(Net(), rows(), budget=du.Budget(forwards=7), **how)
    assert set(few.table["forwards"]) == {7}


@pytest.mark.parametrize("attack", SEARCHES)
def test_batches_and_memory_do_not_change_what_a_row_is_tried_with(attack) -> None:
    data = rows(8)
    tight = type(attack)(**{**vars(attack), "memory": 1})  # one row at a time
    whole = du.evaluate(Net(), data, space=SPACE, attack=attack, progress=False)
    for other, batch in ((attack, 3), (tight, 256)):
        cut = du.evaluate(Net(), data, space=SPACE, attack=other, batch=batch, progress=False)
        np.testing.assert_array_equal(whole.table["forwards"], cut.table["forwards"])
        np.testing.assert_array_equal(whole.adversarial, cut.adversarial)


@pytest.mark.parametrize("attack", SEARCHES)
def test_solved_rows_cost_nothing_more_unless_the_best_is_wanted(attack) -> None:
    first, best = problem("first"), problem("best")
    attack(first)
    attack(best)
    won = first.referee.solved
    assert bool(won.any())
    assert bool((first.referee.forwards[won] < best.referee.forwards[won]).all())
    assert bool((best.referee.value[won] >= first.referee.value[won]).all())
    # Kept to the end, whatever is won on the way stays won.
    assert bool(best.referee.solved[won].all())


@pytest.mark.parametrize("attack", SEARCHES)
def test_another_seed_is_another_search_where_anything_is_random(attack) -> None:
    one, again, two = problem("best", 0), problem("best", 0), problem("best", 1)
    for asked in (one, again, two):
        attack(asked)
    assert torch.equal(one.referee.best, again.referee.best)
    random = not isinstance(attack, du.BFS)
    assert torch.equal(one.referee.best, two.referee.best) != random


@pytest.mark.parametrize("attack", SEARCHES)
def test_a_forest_and_a_group_goal(attack) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((300, 6))
    y = (x[:, 0] * 3).astype(int)
    forest = RandomForestClassifier(20, random_state=0).fit(x, y)
    x, y = x[:40], y[:40]
    goal = du.Group({0: [1], 2: [0, 1]})
    report = du.evaluate(forest, du.Dataset(x, y), space=du.Linf(0.3), goal=goal, attack=attack,
                         progress=False)  # fmt: skip
    won = report.table["success"].to_numpy()
    assert won.sum() >= 3
    final = forest.predict(report.adversarial[won])
    allowed = {(0, 1), (2, 0), (2, 1)}
    assert {(int(a), int(b)) for a, b in zip(y[won], final, strict=True)} <= allowed
    assert np.abs(report.adversarial - x).max() <= 0.3 + 1e-9


@pytest.mark.parametrize("attack", SEARCHES)
@pytest.mark.parametrize("p", [0, 1, 2, float("inf")])
def test_every_norm_in_images_of_float32(attack, p: float) -> None:
    data = du.datasets.mnist().test.take(np.arange(6))
    weight = torch.randn(10, 784, generator=torch.Generator().manual_seed(0)) / 28
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    net[1].weight.data = weight
    with torch.no_grad():
        data = du.Dataset(data.x, net(data.x).argmax(1).numpy())
    space = {0: du.L0(20), 1: du.L1(8.0), 2: du.L2(1.5), float("inf"): du.Linf(0.1)}[p]
    small = du.BFS(iterations=2) if isinstance(attack, du.BFS) else attack
    report = du.evaluate(net, data, space=space, attack=small, progress=False)
    assert report.table["valid"].all()
    if p == float("inf") and isinstance(attack, du.Graft):
        assert report.table["success"].any()


def test_moeva_spends_what_it_says() -> None:
    view = problem("best")
    MOEVA(view)
    expected = 1 + (MOEVA.generations - 1) * MOEVA.offspring
    assert (view.referee.forwards == expected).all()
    spent = problem("best")
    du.Graft(evaluations=130, offspring=20)(spent)
    assert (spent.referee.forwards == 130).all()


def test_caa_says_who_won_and_leaves_no_more_than_either_part() -> None:
    data = rows()
    caa = du.CAA(gradient=du.CAPGD(steps=1, random=False, step=0.4), search=SEARCHES[2])
    done = {
        a: du.evaluate(Net(), data, space=SPACE, attack=a, progress=False).table
        for a in (caa, caa.gradient, caa.search)
    }
    robust = {a: 1 - t["success"].mean() for a, t in done.items()}
    assert robust[caa] <= min(robust[caa.gradient], robust[caa.search])
    winners = done[caa]["winner"][done[caa]["success"]]
    by_gradient = done[caa.gradient]["success"]
    assert (winners[by_gradient] == "CAPGD-ce").all()
    assert (winners[~by_gradient] == "Graft").all() and (~by_gradient[winners.index]).any()


def test_caa_by_default_is_the_published_one() -> None:
    assert du.CAA() == du.CAA(du.CAPGD(steps=10), du.MOEVA(100, 206, 100))


def test_refusals_name_the_value_and_what_would_work() -> None:
    for attack, wrong in ((du.MOEVA, "generations"), (du.Graft, "offspring"), (du.BFS, "bins")):
        with pytest.raises(du.DurometerError, match=f"{wrong}=0.*expected .*at least"):
            attack(**{wrong: 0})
    with pytest.raises(du.DurometerError, match="memory=0"):
        du.MOEVA(memory=0)(problem())
    forest = RandomForestClassifier(5).fit(rows().x.numpy(), np.arange(12) % 2)
    with pytest.raises(du.Unsupported, match="MOEVA"):
        du.evaluate(forest, rows(), space=SPACE, attack=du.CAA(), progress=False)


def test_uniform_cost_finds_the_nearest_and_greedy_the_quickest() -> None:
    """On a single row with a known answer: one feature, threshold at 3.5 bins."""
    schema = du.Schema([du.Feature("a", "real", 0, 10), du.Feature("b", "real", 0, 10)])

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, 0] - 3.5 + 0 * x[:, 1], 3.5 - x[:, 0]], dim=1)

    data = du.Dataset(np.array([[0.0, 5.0]]), np.array([1]), schema=schema)
    cost = {}
    for weight in (0.0, 1e6):
        attack = du.BFS(bins=10, weight=weight)
        table = du.evaluate(model, data, space=schema.space(1.0, 2), attack=attack,
                            progress=False).table  # fmt: skip
        assert table["success"].all() and table["distance"][0] == pytest.approx(0.4)
        cost[weight] = table["forwards"][0]
    assert cost[1e6] < cost[0.0]
