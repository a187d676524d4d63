"""Rob over random (S, T): read off one table of pairs, the same as an evaluation of each choice."""

import itertools

import numpy as np
import pytest
import torch
from tests.goals.test_quota import toy

import durometer as du
from durometer.core.errors import DurometerError

HOW = {"space": du.Linf(0.08), "attack": du.APGD(20)}


def linear_hits(net, data, eps):
    """(n, C): what a linear model can be made to say, by corners of the cube."""
    corners = torch.tensor(list(itertools.product([-eps, 0.0, eps], repeat=data.x.shape[1])))
    hits = np.zeros((len(data), 5), bool)
    with torch.no_grad():
        for i, x in enumerate(data.x):
            labels = net((x + corners).clamp(0, 1)).argmax(1).unique()
            hits[i, labels.numpy()] = True
    return hits


def test_every_choice_is_the_evaluation_of_its_group():
    net, data = toy()
    found = du.sample_groups(net, data, sizes=[(2, 2), (1, 3)], count=6, **HOW)
    assert len(found.table) == 12 and found.table["rob"].nunique() > 2
    for row in found.table.itertuples():
        goal = du.Group({s: list(row.targets) for s in row.sources})
        each = du.evaluate(
            net, data, goal=goal, space=HOW["space"], attack=du.Guess(HOW["attack"], mode="best")
        )
        assert row.rob == pytest.approx(each.metric("robust").value, abs=1.5 / row.n)
        assert row.n == each.metric("robust").n
        assert row.accuracy_on_targets == each.metric("clean_on_targets").value
        assert row.low <= row.rob <= row.high


def test_a_table_of_pairs_holds_what_an_exact_search_finds():
    net, data = toy()
    hits = linear_hits(net, data, 0.08)
    found = du.sample_groups(net, data, sizes=[(2, 2)], count=10, **HOW)
    for row in found.table.itertuples():
        mine = np.isin(data.y.numpy(), ["abcde".index(s) for s in row.sources])
        wanted = ["abcde".index(t) for t in row.targets]
        exact = 1 - hits[mine][:, wanted].any(1).mean()
        assert row.rob <= exact + 1e-9  # corners are points of the ball: the attack finds as many
        assert row.rob >= exact - 0.1


def test_a_choice_with_k_is_a_quota():
    net, data = toy()
    found = du.sample_groups(
        net, data, [*"ab"], [*"cde"], sizes=[(2, 3)], count=1, k=2, reuse=False, **HOW
    )
    vault = du.Quota(2, sources=("a", "b"), targets=("c", "d", "e"), reuse=False)
    report = du.evaluate(net, data, goal=vault, **HOW)
    (row,) = found.table.itertuples()
    assert row.sources == ("a", "b") and row.targets == ("c", "d", "e")
    assert row.rob == pytest.approx(report.metric("robust").value, abs=0.05)


def test_choices_depend_on_the_seed_alone_and_have_no_class_on_both_sides():
    net, data = toy()
    quick = {"space": du.Linf(0.05), "attack": du.PGD(1)}
    one, two = (
        du.sample_groups(net, data, sizes=[(2, 2)], count=8, **quick).table for _ in range(2)
    )
    other = du.sample_groups(net, data, sizes=[(2, 2)], count=8, seed=1, **quick).table
    assert one.equals(two) and not one["sources"].equals(other["sources"])
    assert all(not set(r.sources) & set(r.targets) for r in one.itertuples())
    assert "median" in str(du.sample_groups(net, data, sizes=[(1, 1)], count=2, **quick))


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"sizes": []}, "expected pairs"),
        ({"sizes": [(1, 1)], "sources": "ab"}, "is one class; expected a list"),
        ({"sizes": [(0, 1)]}, "no pair"),
        ({"sizes": [(3, 3)]}, "cannot always be drawn"),
        ({"sizes": [(1, 1)], "count": 0}, "count=0"),
        ({"sizes": [(2, 2)], "k": 3}, "k=3"),
        ({"sizes": [(1, 2)], "k": 2, "reuse": False}, "1 to 1"),
    ],
)
def test_choices_that_cannot_be_drawn_are_refused(wrong, word):
    net, data = toy()
    with pytest.raises(DurometerError, match=word):
        du.sample_groups(net, data, **(HOW | wrong))
