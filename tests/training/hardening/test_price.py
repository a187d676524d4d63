"""The price of hardening holds on fresh rows as often as is said, though the best round is
picked."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import durometer as du
from durometer.training.hardening.harden import FREE, _plans
from durometer.training.hardening.judge import _error
from durometer.training.hardening.path import Round, choice, standard_errors
from durometer.training.hardening.refit import free_trees

PRICE, ROUNDS, ROWS = 0.015, 40, 1500


def paths(rng):
    """Rounds that lose a little more than the price and prove the more the more they seem to
    keep."""
    first = rng.random(ROWS) < 0.95
    yield first, 0.0
    for _ in range(ROUNDS):
        lost = 0.04 + PRICE + 0.001
        draw = rng.random(ROWS)  # independent rounds: the hardest case for picking the best
        right = np.where(first, draw > lost / 0.95, draw < 0.04 / 0.05)
        yield right, PRICE + 0.001


def picked(caution, runs=60):
    """The share of runs in which a round was chosen that loses more than was allowed."""
    rng, over = np.random.default_rng(0), 0
    for _ in range(runs):
        made = list(paths(rng))
        first = made[0][0]
        path = [
            Round(k, 0.1, 0, float(right.mean()), (), 0.1 + 0.5 * (k > 0), 0.0, 0.0, 0.0, 0,
                  _error(right, first))
            for k, (right, _) in enumerate(made)
        ]  # fmt: skip
        over += made[choice(path, PRICE, None, caution=caution)][1] > PRICE
    return over / runs


def test_with_the_stated_confidence_no_round_beyond_the_price_is_chosen():
    assert picked(standard_errors(0.95, ROUNDS)) <= 0.1  # 0.05 and the luck of 60 runs
    assert picked(1.0) > 0.5  # one standard error is far too few: the best of forty is picked


def test_shares_that_come_to_equal_tree_counts_are_fitted_once():
    x = np.random.default_rng(0).random((80, 3))
    model = RandomForestClassifier(30, random_state=0).fit(x, x[:, 0] > 0.5)
    plans = _plans(model, np.array([True, False, True]), FREE)
    counts = [free_trees(30, f) for f in plans]
    assert len(set(counts)) == len(counts) < len(FREE)
    assert {free_trees(30, f) for f in FREE} == set(counts)


def test_a_confidence_that_is_none_is_refused():
    x = np.random.default_rng(0).random((80, 3))
    model = RandomForestClassifier(3, random_state=0).fit(x, x[:, 0] > 0.5)
    with pytest.raises(du.DurometerError, match="confidence=1.5"):
        du.training.harden(
            model, du.Dataset(x, (x[:, 0] > 0.5).astype(int)), du.Linf(0.1), confidence=1.5
        )
