"""The price of hardening holds on fresh rows as often as is said, though the best round is
picked."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import durometer as du
from durometer.training.hardening.harden import FREE, _plans
from durometer.training.hardening.judge import _error
from durometer.training.hardening.path import Change, Guide, Round, choice
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


def made_path(rng):
    """A path as the judge makes it, with what each round really loses."""
    rounds = list(paths(rng))
    first, at = rounds[0][0], int(0.3 * ROWS)  # rows before `at` guide, the others test
    path = []
    for k, (right, _) in enumerate(rounds):
        seen = right[:at]
        lost, gained = (first & ~right)[at:].sum(), (right & ~first)[at:].sum()
        proven = 0.1 + 0.5 * (k > 0) + 0.001 * k
        guide = Guide(seen.mean(), (), proven, _error(seen, first[:at]))
        change = Change(ROWS - at, int(lost), int(gained))
        path.append(Round(k, 0.1, 0, right.mean(), (), proven, 0, 0, 0, 0, guide, (change,)))
    return path, [true for _, true in rounds]


def picked(confidence, runs=200):
    """The share of runs in which a round was chosen that loses more than was allowed."""
    rng, over = np.random.default_rng(0), 0
    for _ in range(runs):
        path, true = made_path(rng)
        over += true[choice(path, {None: PRICE}, None, confidence=confidence)] > PRICE
    return over / runs


def test_with_the_stated_confidence_no_round_beyond_the_price_is_chosen():
    assert picked(0.95) <= 0.09  # 0.05 and the luck of 200 runs
    assert picked(0.5) > 0.2


def test_the_test_of_a_price_is_as_often_wrong_as_it_says():
    """Against draws: a loss that equals the price is taken for smaller in at most 5 %."""
    rng = np.random.default_rng(0)
    for n, most, spare in ((150, 0.015, 0.0), (600, 0.015, 0.02), (2000, 0.01, 0.05)):
        lost, gained = most + spare, spare
        drawn = rng.multinomial(n, [lost, gained, 1 - lost - gained], size=3000)
        wrong = np.mean([Change(n, int(b), int(c)).excludes(most, 0.95) for b, c, _ in drawn])
        assert wrong <= 0.062, (n, wrong)
    assert Change(2000, 10, 8).excludes(0.01, 0.95)  # and it does not only say no


def test_a_price_by_class():
    same, worse = Change(500, 0, 0), Change(500, 30, 0)
    r = Round(1, 0, 1, 0.9, (0.9, 0.9), 0.9, 0, 0, 0, 0, None, (same, worse))
    assert r.keeps({0: 0.01}, 0.95)
    assert not r.keeps({1: 0.01}, 0.95)
    assert not r.keeps({0: 0.01, 1: 0.01}, 0.95)
    assert r.keeps({0: 0.01, 1: 0.1, None: 0.06}, 0.95)


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


def test_a_class_that_does_not_exist_is_named():
    x = np.random.default_rng(0).random((80, 3))
    y = np.where(x[:, 0] > 0.5, "spam", "good")
    model = RandomForestClassifier(3, random_state=0).fit(x, y)
    with pytest.raises(du.DurometerError, match="no class 'spma'; did you mean 'spam'"):
        du.training.harden(model, du.Dataset(x, y), du.Linf(0.1), max_loss={"spma": 0.1})
