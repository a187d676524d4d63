"""Checks and penalties: plain Python on random relations, and extracts of the published ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.rules import holds

from durometer.core.errors import DurometerError
from durometer.relations import parse
from durometer.relations.language import F, count, divide, floor, log, maximum, minimum, where
from durometer.relations.normal_form import Layout
from durometer.relations.program import Program
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema

NAMES = ("a", "b", "c", "d")
LAYOUT = Layout(
    {"a": (0.0, 8.0), "b": (-4.0, 4.0), "c": (0.0, 3.0), "d": (-4.0, 4.0)}, frozenset("ac")
)
ROWS = torch.tensor(
    [[a, b, c, d] for a in (0.0, 1.0, 8.0) for b in (-4.0, -0.5, 0.0, 2.25) for c in (0.0, 3.0)
     for d in (-4.0, 0.0, 2.25)], dtype=torch.float64,
)  # fmt: skip
BEFORE = ROWS.flip(0)

leaf = st.one_of(
    st.sampled_from([F.a, F.b, F.c, F.d, F.a.original, F.b.original]),
    st.sampled_from(["0", "1", "2", "-1.5", "3"]).map(parse.expression),
)
numbers = st.recursive(
    leaf,
    lambda e: st.one_of(
        st.tuples(e, e).map(lambda p: p[0] + p[1]),
        st.tuples(e, e).map(lambda p: p[0] - p[1]),
        st.tuples(e, e).map(lambda p: p[0] * p[1]),
        st.tuples(e, e).map(lambda p: p[0] / p[1]),
        st.tuples(e, e).map(lambda p: p[0] % p[1]),
        st.tuples(e, e, e).map(lambda p: divide(*p)),
        st.tuples(e, e).map(lambda p: minimum(*p)),
        st.tuples(e, e).map(lambda p: maximum(*p)),
        e.map(abs), e.map(lambda v: -v), e.map(floor), e.map(log), e.map(lambda v: v**2),
        st.tuples(e, e).map(lambda p: log(*p)),
    ),
    max_leaves=4,
)  # fmt: skip
comparisons = st.one_of(
    st.tuples(numbers, numbers, st.sampled_from(["<=", "<", ">=", ">", "==", "!="])).map(
        lambda t: {"<=": t[0] <= t[1], "<": t[0] < t[1], ">=": t[0] >= t[1], ">": t[0] > t[1],
                   "==": t[0] == t[1], "!=": t[0] != t[1]}[t[2]]
    ),
    st.tuples(numbers, numbers).map(lambda t: (t[0] == t[1]).within(0.5)),
    numbers.map(lambda e: e.isin([0, 2.25, 3])),
)  # fmt: skip
relations = st.recursive(
    comparisons,
    lambda r: st.one_of(
        st.tuples(r, r).map(lambda p: p[0] & p[1]),
        st.tuples(r, r).map(lambda p: p[0] | p[1]),
        r.map(lambda v: ~v),
        st.tuples(r, r).map(lambda p: count(*p) <= 1),
        st.tuples(r, leaf, leaf).map(lambda p: where(*p) <= 2),
    ),
    max_leaves=3,
)


def plain(relation, rows=ROWS, before=BEFORE):
    records = [dict(zip(NAMES, r.tolist(), strict=True)) for r in rows]
    olds = [dict(zip(NAMES, r.tolist(), strict=True)) for r in before]
    return torch.tensor([holds(relation, r, o) for r, o in zip(records, olds, strict=True)])


@settings(max_examples=300, deadline=None)
@given(relations)
def test_check_is_plain_python_and_penalty_is_zero_exactly_where_it_holds(relation):
    program = Program((relation,), LAYOUT)
    found = program.holds(ROWS, BEFORE)[:, 0]
    assert torch.equal(found, plain(relation))
    x = ROWS.clone().requires_grad_()
    penalty = program.penalties(x, BEFORE)[:, 0]
    assert torch.equal(penalty == 0, found)
    assert bool((penalty >= 0).all()) and bool(penalty.isfinite().all())
    if penalty.requires_grad:
        penalty.sum().backward()
        assert bool(x.grad.isfinite().all())


def test_a_multiple_has_no_remainder_though_the_quotient_was_rounded():
    relation = F.b % (F.c / F.d) == 0  # -4 % (3 / 2.25): the divisor is a little below 4 / 3
    row = torch.tensor([[0.0, -4.0, 3.0, 2.25]], dtype=torch.float64)
    assert bool(Program((relation,), LAYOUT).holds(row, row).all())


@settings(max_examples=200, deadline=None)
@given(relations)
def test_text_form_reads_back_as_the_same_relation(relation):
    again = parse.relation(str(relation))
    assert again == relation
    found = [Program((r,), LAYOUT).holds(ROWS, BEFORE) for r in (relation, again)]
    assert torch.equal(*found)


@settings(max_examples=200, deadline=None)
@given(relations)
def test_a_relation_and_its_negation_never_both_hold(relation):
    both = Program((relation, ~relation), LAYOUT)
    found, undefined = both.holds(ROWS, BEFORE), both.undefined(ROWS, BEFORE)
    assert not bool(found.all(1).any())
    assert bool((found.any(1) | undefined.any(1)).all())


@settings(max_examples=50, deadline=None)
@given(st.lists(relations, min_size=1, max_size=6))
def test_grouping_by_shape_changes_nothing(many):
    together = Program(tuple(many), LAYOUT)
    alone = [Program((r,), LAYOUT) for r in many]
    stacked = torch.cat([p.holds(ROWS, BEFORE) for p in alone], dim=1)
    assert torch.equal(together.holds(ROWS, BEFORE), stacked)
    assert torch.equal(together.valid(ROWS, BEFORE), stacked.all(1))
    penalties = torch.cat([p.penalties(ROWS, BEFORE) for p in alone], dim=1)
    assert torch.allclose(together.penalties(ROWS, BEFORE), penalties, rtol=1e-12, atol=0)
    assert torch.allclose(together.penalty(ROWS, BEFORE), penalties.sum(1))


def test_penalty_of_a_linear_relation_is_a_distance_in_scaled_units():
    layout = Layout({"a": (0.0, 1000.0), "b": (0.0, 1000.0)})
    x = torch.tensor([[800.0, 100.0]], dtype=torch.float64)
    penalty = Program((F.a <= F.b,), layout).penalty(x, x)
    assert penalty.item() == pytest.approx(0.7 / math.sqrt(2))


def test_or_takes_the_smallest_and_adds():
    layout = Layout({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    x = torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    low, high = F.a <= 0, F.b <= 0
    single = Program((low, high), layout).penalties(x, x)[0]
    assert Program((low | high,), layout).penalty(x, x).item() == pytest.approx(single.min().item())
    assert Program((low & high,), layout).penalty(x, x).item() == pytest.approx(single.sum().item())


def test_whole_numbers_are_compared_exactly_however_large():
    layout = Layout({"a": (0.0, 1e9), "b": (0.0, 1e9)}, frozenset("ab"))
    x = torch.tensor([[1e9, 1e9 - 1], [1e9, 1e9]], dtype=torch.float64)
    assert Program((F.a == F.b,), layout).holds(x, x)[:, 0].tolist() == [False, True]


def test_division_by_zero_neither_holds_nor_spoils_the_gradient():
    program = Program((F.b / F.d <= 1,), LAYOUT)
    x = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert not program.holds(x, x).any() and program.undefined(x, x).all()
    program.penalty(x, x).sum().backward()
    assert bool(x.grad.isfinite().all())


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (F.aa <= 1, r"no feature 'aa'; did you mean"),
        (F.a == "x", "must be compared with a category"),
    ],
)
def test_unknown_names(relation, message):
    with pytest.raises(DurometerError, match=message):
        Program((relation,), LAYOUT)


# The published relations, small extracts with their meaning, against numpy on rows around the edge.
def test_lending_club_extract():
    names = ["amount", "rate", "term", "installment", "open", "total", "rec", "bankrupt", "ratio"]
    layout = Layout({n: (0.0, 1000.0) for n in names}, frozenset({"term", "open", "total"}))
    program = Program(
        tuple(parse.relation(t) for t in (
            "abs(installment - amount * (rate / 1200 * (1 + rate / 1200) ** term)"
            " / ((1 + rate / 1200) ** term - 1)) <= 0.01",
            "open <= total", "term == 36 or term == 60",
            "ratio == (bankrupt / rec if rec != 0 else -1)",
        )), layout,
    )  # fmt: skip
    amount, rate, term = 1000.0, 12.0, 36.0
    r = rate / 1200
    exact = amount * r * (1 + r) ** term / ((1 + r) ** term - 1)
    good = [amount, rate, term, exact + 0.009, 3, 4, 0, 2, -1]
    x = torch.tensor([good, good, good], dtype=torch.float64)
    x[1, 3] += 0.002
    x[2, 2] = 48
    x[2, 4] = 5
    x[2, 8] = 0
    expected = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0]], dtype=bool)
    assert (program.holds(x, x).numpy() == expected).all()


def test_packet_size_and_sums_extract():
    names = ["tcp", "udp", "out", "in", "pkts", "low", "high"]
    layout = Layout({n: (0.0, 1e6) for n in names}, frozenset(names))
    program = Program(
        tuple(parse.relation(t) for t in (
            "tcp + udp == out + `in`", "(out / pkts if pkts != 0 else 0) <= 1500", "low <= high",
        )), layout,
    )  # fmt: skip
    x = torch.tensor(
        [[100, 50, 150, 0, 0, 1, 1], [100, 51, 150, 0, 1, 2, 1], [3000, 1, 3001, 0, 2, 0, 0]],
        dtype=torch.float64,
    )
    assert program.holds(x, x).tolist() == [[True] * 3, [False, True, False], [True, False, True]]
    moved = x + 0.25 * torch.ones_like(x)
    assert program.penalties(moved, x).shape == (3, 3)


def test_a_denominator_that_is_nearly_zero_is_not_filled_in():
    table = Schema([Feature("a", "real", 0, 10), Feature("b", "real", 0, 10)],
                   ["divide(a, b, 0) <= 2"])  # fmt: skip
    x = torch.tensor([[5, 5e-7], [5, 0], [5, 3], [5, 1]], dtype=torch.float64)
    assert table.program.holds(x, x)[:, 0].tolist() == [False, True, True, False]


def test_a_denominator_seen_positive_may_still_become_negative():
    seen = {"scale": (1, 10)}  # in the data; there is no bound
    table = Schema(
        [Feature("a", "real", **seen), Feature("b", "real", **seen), Feature("c", "real", 0, 10)],
        ["a / b <= 1", "divide(a, b, 0) >= -1", "a / c <= 1"],
    )
    x = torch.tensor([[-5, -1, 1], [5, -1, 6], [1, 2, 0.5], [3, 0, 4]], dtype=torch.float64)
    assert table.program.holds(x, x).tolist() == [
        [False, True, True], [True, False, True], [True, True, False], [False, True, True]
    ]  # fmt: skip
