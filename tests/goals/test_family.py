"""Quota(filled=...): any wish about who passes for whom, against brute force over every band."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.goals.test_quota import toy

import durometer as du
from durometer.attacks.campaign import bands, rank_pairs, replay
from durometer.core.errors import DurometerError
from durometer.core.spec import Spec
from durometer.goals.coalition_probability import Pairs, chances
from durometer.goals.minimal_sets import minimal
from durometer.report.report import Report

FLOORS = {"c": 0, "d": 0, "e": 1}


def two_floors(pairs):
    """Somebody passes for a person of each floor."""
    return {FLOORS[t] for _, t in pairs} == {0, 1}


def three_of(pairs):
    return len({t for _, t in pairs}) >= 3


def nobody_twice(pairs):
    """Both burglars get in, as different people."""
    return any(a[0] != b[0] and a[1] != b[1] for a, b in itertools.combinations(sorted(pairs), 2))


@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=6))
def test_the_minimal_sets_of_a_rule_are_found_whatever_they_are(family):
    wanted = {frozenset(m) for m in family if not any(o < m for o in family)}

    def filled(places):
        return any(m <= places for m in wanted)

    found = minimal(filled, 6)
    assert {frozenset(i for i in range(6) if m >> i & 1) for m in found} == wanted


def test_a_rule_that_shrinks_or_cannot_be_filled_is_refused():
    with pytest.raises(DurometerError, match="never"):
        du.Quota(sources=["a", "b"], targets=["c", "d"], filled=lambda pairs: False).rule(
            5, "abcde"
        )
    with pytest.raises(DurometerError, match="without any"):
        du.Quota(sources=["a"], targets=["c"], filled=lambda pairs: True).rule(5, "abcde")
    with pytest.raises(DurometerError, match="one pair more"):
        even = du.Quota(
            sources=["a", "b"], targets=["c", "d"], filled=lambda pairs: len(pairs) in (2, 4)
        )
        even.rule(5, "abcde")
    with pytest.raises(DurometerError, match="k=2"):
        du.Quota(2, sources=["a"], targets=["c", "d"], filled=two_floors)
    with pytest.raises(DurometerError, match="expected a function"):
        du.Quota(sources=["a"], targets=["c"], filled=3)
    with pytest.raises(DurometerError, match=r"\('a', 'e'\).*no pair"):
        du.Quota(sources=["a"], targets=["c"], filled=[[("a", "e")]])


def test_a_quota_said_as_a_rule_is_that_quota():
    sources, targets = ["a", "b"], ["c", "d", "e"]
    rng = np.random.default_rng(0)
    hits = rng.random((9, 3)) < 0.4
    pairs = Pairs(np.arange(9), np.repeat([0, 1, 1], 3), (2, 3, 4), hits, rng.random((9, 3)))
    for quota, said in (
        (du.Quota(3, sources, targets), three_of),
        (du.Quota(2, sources, targets, reuse=False), nobody_twice),
    ):
        other = du.Quota(sources=sources, targets=targets, filled=said)
        usual, general = (q.rule(5, "abcde") for q in (quota, other))
        assert general.k == quota.k
        np.testing.assert_allclose(
            chances(pairs, general, each_input=True), chances(pairs, usual, each_input=True)
        )
        for band in bands(pairs, usual, 20):
            ends = [replay(pairs, r, band, rank_pairs(pairs)) for r in (usual, general)]
            assert ends[0].filled == ends[1].filled


@given(st.integers(0, 10**6))
def test_the_chance_is_the_share_of_all_bands(seed):
    rng = np.random.default_rng(seed)
    names = [["a", "b"], ["c", "d", "e"]]
    ways = [
        [(rng.choice(names[0]), rng.choice(names[1])) for _ in range(rng.integers(1, 4))]
        for _ in range(rng.integers(1, 4))
    ]
    rule = du.Quota(sources=names[0], targets=names[1], filled=ways).rule(5, "abcde")
    stored = json.loads(json.dumps(Spec(quota=rule).to_json()))
    rule = Spec.from_json(stored).quota  # as a report keeps it
    hits = rng.random((6, 3)) < 0.6
    pairs = Pairs(np.arange(6), np.repeat([0, 1], 3), (2, 3, 4), hits, rng.random((6, 3)))
    won = []
    for one, two in itertools.product(range(3), range(3, 6)):
        reached = {("a", names[1][t]) for t in np.flatnonzero(hits[one])}
        reached |= {("b", names[1][t]) for t in np.flatnonzero(hits[two])}
        won.append(any(set(way) <= reached for way in ways))
        end = replay(pairs, rule, np.array([one, two]), rank_pairs(pairs))
        assert end.filled == won[-1] and end.attempts <= 6
    assert chances(pairs, rule)[0] == pytest.approx(np.mean(won))


def test_attempts_stop_when_every_way_is_barred():
    pairs = Pairs(np.arange(2), np.arange(2), (2, 3), np.array([[0, 1], [1, 1]], bool),
                  np.array([[0.0, 3.0], [1.0, 2.0]]))  # fmt: skip
    ways = [[("a", "c"), ("b", "c")], [("a", "d"), ("b", "d")]]
    rule = du.Quota(sources=["a", "b"], targets=["c", "d"], filled=ways).rule(4, "abcd")
    end = replay(pairs, rule, np.arange(2), pairs.scores)
    # (a, c) fails, which bars the first way: (b, c) is never tried.
    assert (end.attempts, end.filled) == (3, True)
    barred = du.Quota(sources=["a", "b"], targets=["c", "d"], filled=ways[:1]).rule(4, "abcd")
    assert replay(pairs, barred, np.arange(2), pairs.scores).attempts == 1


def test_a_report_of_a_rule_is_the_same_after_loading(tmp_path):
    net, data = toy()
    vault = du.Quota(sources=("a", "b"), targets=("c", "d", "e"), filled=two_floors)
    report = du.evaluate(
        net, data, space=du.Linf(0.12), goal=vault, attack=du.Campaign(du.APGD(20))
    )
    pairs = Pairs.of(report.records.columns)
    members = [np.flatnonzero(pairs.source == s) for s in (0, 1)]
    won = [
        two_floors({(s, "cde"[t]) for s, i in zip("ab", band, strict=True)
                    for t in np.flatnonzero(pairs.hits[i])})
        for band in itertools.product(*members)
    ]  # fmt: skip
    assert 0 < np.mean(won) < 1
    assert report.metric("robust").value == pytest.approx(1 - np.mean(won))
    again = Report.load(report.save(tmp_path / "run"))
    assert again.metric("robust") == report.metric("robust")
    assert "two_floors" in str(report) and "two_floors" in report.html()


def test_a_source_without_rows_bars_the_ways_that_need_it():
    hits = np.ones((2, 2), bool)
    pairs = Pairs(np.arange(2), np.array([0, 0]), (2, 3), hits, hits * 1.0)
    ways = [[("a", "c"), ("b", "c")]]
    rule = du.Quota(sources=["a", "b"], targets=["c", "d"], filled=ways).rule(4, "abcd")
    assert chances(pairs, rule)[0] == 0
    assert not replay(pairs, rule, np.array([0]), pairs.scores).filled
