"""Would a broken row pass for its class? Against distances computed one pair at a time."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import durometer as du

RNG = np.random.default_rng(0)


def run(schema=None, x=None):
    x = RNG.random((120, 2)) if x is None else x
    y = (x[:, 0] > 0.5).astype(int)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, y)
    data = du.Dataset(x, y, schema=schema)
    space = du.Linf(0.1) if schema is None else schema.space(eps=0.3, p=np.inf)
    return du.evaluate(tree, data, space=space, attack=du.Exact(), progress=False), data


def gower(a, b, width, coded):
    total = 0.0
    for v, w, r, c in zip(a, b, width, coded, strict=True):
        if np.isnan(v) or np.isnan(w):
            total += float(np.isnan(v) != np.isnan(w))
        else:
            total += float(v != w) if c else abs(v - w) / r
    return total / len(a)


@pytest.mark.parametrize("mixed", [False, True])
def test_against_pairs_one_by_one(mixed):
    schema, coded = None, [False, False]
    x = RNG.random((90, 2))
    if mixed:
        x[:, 1] = RNG.integers(0, 3, 90)
        schema = du.Schema(
            [du.Feature("a", "real", 0, 1), du.Feature("b", "category", values=(0, 1, 2))]
        )
        coded = [False, True]
    report, data = run(schema, x)
    found = report.plausibility(data)
    broken = report.table[report.table["success"] & (report.table["winner"] != "clean")]
    assert len(found) == len(broken) > 5
    width = x.max(axis=0) - x.min(axis=0)
    place = {i: k for k, i in enumerate(report.table["id"])}
    for line in found.itertuples():
        row = report.adversarial[place[line.id]]
        assert line.final == report.table["final"].iloc[place[line.id]]
        of_class = x[data.y.numpy() == line.final]
        far = sorted(gower(row, r, width, coded) for r in of_class)
        own = [
            sorted(gower(r, q, width, coded) for k, q in enumerate(of_class) if k != j)
            for j, r in enumerate(of_class)
        ]
        more = sum(d[4] >= far[4] - 1e-12 for d in own)
        assert line.nearest == pytest.approx(far[0])
        assert line.usual == pytest.approx(np.median([d[0] for d in own]))
        assert line.rank == pytest.approx((1 + more) / (1 + len(of_class)), abs=1 / len(of_class))
    assert found["rank"].is_monotonic_decreasing


def test_a_row_far_from_its_class_ranks_low_and_is_filtered():
    x = np.concatenate([RNG.random((60, 2)) * 0.1, [[0.92, 0.92]], 0.9 + RNG.random((60, 2)) * 0.1])
    y = np.array([0] * 60 + [0] + [1] * 60)
    tree = DecisionTreeClassifier(max_depth=1).fit(x, (x[:, 0] > 0.5).astype(int))
    data = du.Dataset(x[[3]], y[[3]])
    report = du.evaluate(tree, data, space=du.Linf(0.6), attack=du.Exact(), progress=False)
    records = du.Dataset(x, y)
    far = report.plausibility(records)
    assert len(far) == 1 and far["rank"][0] == pytest.approx(1 / 61) and far["nearest"][0] > 0.1
    assert len(report.plausibility(records, least=0.05)) == 0


def test_what_cannot_be_compared_is_said():
    report, data = run()
    with pytest.raises(du.DurometerError, match="2 features, the records 3"):
        report.plausibility(du.Dataset(RNG.random((20, 3)), [0, 1] * 10))
    with pytest.raises(du.DurometerError, match="least=2"):
        report.plausibility(data, least=2)
