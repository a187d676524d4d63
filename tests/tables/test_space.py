"""The table region: what decode hands in is valid, near, and the clean record is itself exactly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import durometer as du
from durometer.core.errors import DurometerError
from durometer.core.streams import Stream
from durometer.relations.repair import Repair
from durometer.spaces.region import Region, Space
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema


@st.composite
def features(draw, name):
    kind = draw(st.sampled_from(["real", "integer", "category", "boolean"]))
    mutable = draw(st.booleans())
    if kind == "category":
        return Feature(
            name,
            kind,
            values=draw(st.sampled_from([("x", "y", "z"), (0, 1), (36, 60)])),
            mutable=mutable,
        )
    if kind == "boolean":
        return Feature(name, kind, mutable=mutable)
    low = draw(st.sampled_from([0, -5, 3]))
    high = low + draw(st.sampled_from([1, 7, 1000]))
    bound = draw(st.sampled_from([low, low, "original"]))
    return Feature(name, kind, bound, high, mutable, scale=(low, high))


LINEAR = ["a <= b", "a + b == c + d", "2 * a - b <= c", "a == b + 1", "d == a * b", "a < b",
          "c == divide(a, b, 0)", "if a > 1 then b > 1", "a - 3 * b + 2 * c == d",
          "a >= a.original"]  # fmt: skip


@st.composite
def tables(draw):
    schema = [draw(features(n)) for n in "abcd"]
    if not any(f.mutable for f in schema):
        schema[0] = Feature("a", "real", 0, 9)
    chosen = draw(st.lists(st.sampled_from(LINEAR), max_size=3, unique=True))
    try:
        made = Schema(schema, chosen)
    except DurometerError:  # by chance no record could satisfy it
        made = Schema(schema)
    seed = draw(st.integers(0, 10**6))
    return made, rows(made, seed)


def rows(schema, seed, n=24):
    stream, index = Stream(seed, torch.arange(n)), torch.arange(n)
    columns = []
    for f in schema.features:
        u = stream.uniform(index, 1)[:, 0]
        if f.kind == "category":
            columns.append(torch.tensor(f.codes, dtype=torch.float64)[(u * len(f.codes)).long()])
        else:
            low, high = f.range
            x = low + (high - low) * u
            columns.append(x.round() if f.kind != "real" else x)
    return torch.stack(columns, 1)


@settings(max_examples=150)
@given(tables(), st.sampled_from([0.3, 2.0]), st.sampled_from([1.0, 2.0, math.inf]))
def test_decode_respects_everything_but_unrepairable_relations(table, eps, p):
    schema, x = table
    region = schema.space(eps, p).around(x)
    assert isinstance(region, Region)
    assert (
        torch.equal(
            region.decode(region.origin.clone())[~region.contains(x)], x[~region.contains(x)]
        )
        or schema.relations
    )
    z = region.project(
        region.origin
        + 3
        * eps
        * Stream(1, torch.arange(len(x))).normal(torch.arange(len(x)), region.origin.shape[1])
    )
    out = region.decode(z)
    low, high = schema.bounds(x)
    assert bool((out >= low).all()) and bool((out <= high).all())
    assert torch.equal(out[:, ~schema.mutable], x[:, ~schema.mutable])
    assert torch.equal(out[:, schema.whole], out[:, schema.whole].round())
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            assert set(out[:, i].tolist()) <= set(f.codes)
    sane = schema.program.valid(out, x)
    if not schema.relations:
        assert bool(region.contains(out).all())
    assert torch.equal(region.contains(out), sane & (region.distance(out) <= eps * (1 + 1e-9)))


@settings(max_examples=100)
@given(tables())
def test_the_clean_record_is_itself_bit_for_bit_and_others_come_back(table):
    schema, x = table
    region = Schema(schema.features).space(50.0, math.inf).around(x)
    assert torch.equal(region.decode(region.origin.clone()), x)
    other = torch.where(schema.mutable, rows(schema, 77), x)
    low, high = schema.bounds(x)
    other = other.maximum(low).minimum(high)
    back = region.decode(region.encode(other))
    exact = schema.whole | torch.tensor([f.kind == "category" for f in schema.features])
    assert torch.equal(back[:, exact], other[:, exact])
    assert torch.allclose(back, other, rtol=1e-14, atol=1e-11)


@settings(max_examples=150)
@given(tables())
def test_repair_never_worsens_the_violation(table):
    schema, x0 = table
    low, high = schema.bounds(x0)
    x = torch.where(schema.mutable, rows(schema, 5).maximum(low).minimum(high), x0)
    fixed, fine = Repair(schema.program, schema.mutable)(x, x0, low, high, 1e-6)
    before, after = (schema.program.penalty(v, x0) for v in (x, fixed))
    assert bool((after <= before).all())
    assert torch.equal(fine & (after == 0), after == 0) or bool((after[fine] == 0).all())
    assert torch.equal(fixed[:, ~schema.mutable], x[:, ~schema.mutable])
    assert bool((fixed >= low).all()) and bool((fixed <= high).all())
    held = schema.program.valid(x, x0)
    assert torch.equal(fixed[held], x[held])  # what holds is left alone, bit for bit


SUMS = Schema(
    [Feature(n, "integer", "original", 1000, scale=(0, 1000)) for n in ("tcp", "udp", "out")]
    + [Feature("in", "integer", 0, 1000, mutable=False), Feature("ratio", "real", 0, 1000)],
    ["tcp + udp == out + `in`", "ratio == divide(out, udp, 0)"],
)


def test_sums_and_quotients_are_repaired_within_bounds():
    x = torch.tensor([[10.0, 5, 8, 7, 1.6]], dtype=torch.float64)
    region = SUMS.space(0.5).around(x)
    assert bool(region.contains(x))
    z = region.origin.clone()
    z[0, 2] += 0.1  # out grows by 100: tcp and udp must grow by 100 together
    out = region.decode(z)[0].tolist()
    assert out[0] + out[1] == out[2] + out[3] and out[0] > 10 and out[2] > 8
    assert out[4] == pytest.approx(out[2] / out[1])
    assert bool(region.contains(torch.tensor([out], dtype=torch.float64)))


def test_gradient_goes_straight_through_and_through_definitions():
    x = torch.tensor([[10.0, 5, 8, 7, 1.6]], dtype=torch.float64)
    region = SUMS.space(0.5).around(x)
    z = region.origin.clone().requires_grad_()
    region.decode(z)[0, 4].backward()  # ratio = out / udp
    assert z.grad[0].tolist() == pytest.approx(
        [0, -8 / 25 * 1000, 1 / 5 * 1000, 0]
    )  # `in` is immutable: no z


def test_ascent_stays_on_the_sum_and_inside_the_bounds():
    x = torch.tensor([[10.0, 5, 8, 7, 1.6]], dtype=torch.float64)
    region = SUMS.space(0.5).around(x)
    g = torch.tensor([[1.0, 0.2, -1.0, 0.0]], dtype=torch.float64)
    way = region.tangent(region.origin, g)[0]
    assert float(way[0] + way[1] - way[2]) == pytest.approx(0, abs=1e-12)
    assert bool((way[:3] >= 0).all())  # they stand at their lower bound: may only grow


@pytest.mark.parametrize(
    ("p", "far", "near"), [(2.0, math.sqrt(2), 0.1), (0.0, 1, 1), (math.inf, 1, 0.1)]
)
def test_distance_of_a_category_and_a_number(p, far, near):
    schema = Schema([Feature("a", "real", 0, 10), Feature("c", "category", values=("x", "y"))])
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    region = schema.space(3.0, p).around(x)
    assert region.distance(torch.tensor([[1.0, 1.0]], dtype=torch.float64)).item() == pytest.approx(
        far
    )
    assert region.distance(torch.tensor([[2.0, 0.0]], dtype=torch.float64)).item() == pytest.approx(
        near
    )


def test_cost_is_a_budget_in_the_features_own_prices():
    schema = Schema(
        [
            Feature("a", "integer", 0, 100, cost=2.5),
            Feature("c", "category", values=("x", "y"), cost=7),
        ]
    )
    x = torch.tensor([[10.0, 0.0]], dtype=torch.float64)
    region = schema.space(cost=10).around(x)

    def cost(a, c):
        return region.distance(torch.tensor([[a, c]], dtype=torch.float64)).item()

    assert cost(13.0, 0.0) == pytest.approx(7.5) and cost(10.0, 1.0) == pytest.approx(7)
    assert bool(region.contains(torch.tensor([[14.0, 0.0]], dtype=torch.float64)))
    assert not bool(region.contains(torch.tensor([[14.0, 1.0]], dtype=torch.float64)))


def test_one_hot_columns_move_together():
    schema = Schema([Feature(n, "boolean", group="g") for n in "abc"])
    x = torch.tensor([[1.0, 0, 0]], dtype=torch.float64)
    region = schema.space(2.0).around(x)
    z = region.origin.clone()
    z[0] = torch.tensor([0.4, 0.1, 0.8])
    assert region.decode(z).tolist() == [[0, 0, 1]]
    z[0] = torch.tensor([0.8, 0.1, 0.7])
    assert region.decode(z).tolist() == [[1, 0, 0]]
    assert not bool(region.contains(torch.tensor([[1.0, 0, 1]], dtype=torch.float64)))


@pytest.mark.parametrize(
    ("x", "broken"),
    [
        ([10.0, 5, 8, 7, 1.6], None), ([11.0, 5, 8, 7, 1.6], "sum"),
        ([10.5, 5, 8.5, 7, 1.7], "whole"),
        ([10.0, 6, 8, 8, 8 / 6], "immutable"), ([9.0, 6, 8, 7, 8 / 6], "its own value"),
        ([700.0, 5, 698, 7, 139.6], "distance"),
    ],
)  # fmt: skip
def test_contains_is_the_judge(x, broken):
    region = SUMS.space(0.5).around(torch.tensor([[10.0, 5, 8, 7, 1.6]], dtype=torch.float64))
    assert bool(region.contains(torch.tensor([x], dtype=torch.float64))) == (broken is None)


def test_take_and_space_protocol():
    x = rows(SUMS, 3)
    space = SUMS.space(0.5)
    assert isinstance(space, Space)
    region = space.around(x)
    index = torch.tensor([5, 2, 5])
    z = region.project(region.origin + 0.1)
    assert torch.equal(region.take(index).decode(z[index]), region.decode(z)[index])


def test_random_starts_are_inside_and_belong_to_the_row():
    x = rows(SUMS, 3)
    region = SUMS.space(0.5).around(x)
    index = torch.arange(len(x))
    z = region.random(Stream(0, index), index)
    assert bool(((z - region.origin).norm(dim=1) <= 0.5 + 1e-9).all())
    part = region.take(index[4:7]).random(Stream(0, index[4:7]), torch.arange(3))
    assert torch.allclose(part, z[4:7], rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SUMS.space(0.5).around(torch.zeros(2, 4, dtype=torch.float64)), "needs"),
        (lambda: SUMS.space(0.5).around(torch.zeros(2, 5)), "float64"),
        (lambda: SUMS.space(-1), "eps=-1"),
        (lambda: SUMS.space(1, 3), "p=3"),
        (lambda: SUMS.space(1, margin=1), "margin=1"),
        (
            lambda: SUMS.freeze(*SUMS.names).space().check(torch.zeros(1, 5, dtype=torch.float64)),
            "no mutable",
        ),
    ],
)
def test_bad_spaces_are_refused(make, message):
    with pytest.raises(DurometerError, match=message):
        make()


def test_records_on_another_device_are_refused_by_name():
    table = Schema([Feature("r", "real", 0, 1)])
    with pytest.raises(DurometerError, match="x is on meta; tables are .* on the CPU"):
        table.space().check(torch.zeros(2, 1, dtype=torch.float64, device="meta"))


def test_a_bound_between_whole_numbers_leaves_whole_numbers():
    table = Schema([Feature("n", "integer", 0.5, 9.5), Feature("r", "real", 0, 1)])
    region = table.space(eps=5, p=2).around(torch.tensor([[1.0, 0.5]], dtype=torch.float64))
    for way, end in ((-2.0, 1.0), (2.0, 9.0)):
        handed = region.decode(region.project(region.origin + way))
        assert handed[0, 0] == end
        assert region.contains(handed)


def test_eps_and_cost_both_hold():
    """Two budgets at once, against a plain loop over all records: neither is dropped."""
    schema = Schema(
        [Feature("a", "integer", 0, 10, cost=1.0), Feature("b", "integer", 0, 10, cost=5.0)]
    )
    x = torch.tensor([[4.0, 5.0]]).double()
    grid = torch.cartesian_prod(torch.arange(11.0), torch.arange(11.0)).double()
    scaled = (grid - x) / 10
    near = torch.linalg.vector_norm(scaled, dim=1) <= 0.35 + 1e-9
    cheap = (grid[:, 0] - 4).abs() + 5 * (grid[:, 1] - 5).abs() <= 8
    many = x.expand(len(grid), -1)

    def inside(**budgets):
        return schema.space(**budgets).around(many).contains(grid)

    assert torch.equal(inside(eps=0.35), near) and torch.equal(inside(cost=8.0), cheap)
    assert torch.equal(inside(eps=0.35, cost=8.0), near & cheap)
    assert 1 < int((near & cheap).sum()) < min(int(near.sum()), int(cheap.sum()))
    data = du.Dataset(grid, torch.zeros(len(grid), dtype=torch.int64), schema=schema)

    def model(rows):
        return torch.stack([14.5 - rows.sum(1), torch.zeros(len(rows))], dim=1)

    report = du.evaluate(
        model, data, space=schema.space(eps=0.35, cost=8.0), attack=du.Graft(600), progress=False
    )
    for before, after in zip(grid.numpy(), report.adversarial, strict=True):
        step = abs(after - before)
        assert (step**2).sum() <= 12.25 + 1e-6 and step[0] + 5 * step[1] <= 8 + 1e-6
    best = [  # the highest sum that both budgets let a record reach
        max(min(a + i, 10) + min(b + j, 10) for i in range(4) for j in range(2)
            if i * i + j * j <= 12.25 and i + 5 * j <= 8)
        for a, b in grid.tolist()
    ]  # fmt: skip
    assert report.table["success"].tolist() == [s > 14.5 for s in best]


def test_a_budget_asks_for_every_price():
    """A column without a price used to cost 1 a unit, which nobody had said."""
    features = [Feature("amount", "real", 0, 100, cost=2.0), Feature("term", "integer", 1, 10)]
    with pytest.raises(
        du.DurometerError, match="cost=10: 1 features have no price .'term'.; .*cost="
    ):
        du.Schema(features).space(cost=10)
    with pytest.raises(du.DurometerError, match="no price"):
        du.Schema(features).space(eps=0.5, cost=10)
    assert du.Schema(features).space(eps=0.5) is not None
    fixed = [features[0], Feature("term", "integer", 1, 10, mutable=False)]
    assert du.Schema(fixed).space(cost=10).price_list == {"amount": 2.0}


def test_what_a_relation_computes_is_free():
    features = [
        Feature("amount", "real", 0, 100, cost=2.0),
        Feature("term", "real", 1, 10, cost=0.0),
        Feature("instalment", "real", 0, 100),
    ]
    schema = du.Schema(features, ["instalment == amount / term"])
    space = schema.space(cost=10)
    assert space.price_list == {"amount": 2.0, "term": 0.0, "instalment": 0.0}
    assert "amount 2, term 0, instalment 0" in space.description
    x = torch.tensor([[50.0, 5.0, 10.0]], dtype=torch.float64)
    moved = torch.tensor([[54.0, 2.0, 27.0]], dtype=torch.float64)
    region = space.around(x)
    assert bool(region.contains(moved)[0])
    assert float(region.distance(moved)[0]) == pytest.approx(8.0, abs=1e-6)
