"""Rows with missing cells: what `Exact` says of them, by an enumeration that shares no code with
it.

The oracle writes down every record of a small grid, the gap as one more value of each feature that
may have one, judges it by rules of its own (distance, cost, gaps, relations in three-valued logic)
and asks the library's own `predict`.
"""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import durometer as du

NAN = float("nan")
VALUES = {"a": (0, 1, 2, 3), "b": (0, 1, 2, 3, 4), "c": (0, 1, 2), "d": (0, 1)}
COSTS = {"a": 2.0, "b": 1.0, "c": 3.0, "d": 1.5}
GAPS = ("a", "c")


def table(seed, n=260):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({k: rng.choice(v, n).astype(float) for k, v in VALUES.items()})
    y = ((frame.b + frame.d + (frame.c == 1) * 2 + (frame.a > 1)) + rng.random(n) > 4.2).astype(int)
    for name in GAPS:
        frame.loc[rng.random(n) < 0.35, name] = NAN
    return frame, y.to_numpy()


def models(seed):
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    return {
        "tree": DecisionTreeClassifier(max_depth=5, random_state=seed),
        "forest": RandomForestClassifier(7, max_depth=4, random_state=seed),
        "hist": HistGradientBoostingClassifier(max_iter=6, max_depth=3, random_state=seed),
        "xgboost": XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1, random_state=seed),
        "lightgbm": LGBMClassifier(
            n_estimators=8, max_depth=3, min_child_samples=5, n_jobs=1, verbose=-1
        ),
    }


def schema(relations=(), **options):
    own = {k: dict(options.get(k, {})) for k in VALUES}
    kinds = {"a": "integer", "b": "integer", "c": "category", "d": "boolean"}
    made = []
    for k, values in VALUES.items():
        bounds = {"values": values} if k == "c" else {"low": min(values), "high": max(values)}
        bounds = {} if k == "d" else bounds
        made.append(du.Feature(k, kinds[k], missing=k in GAPS, cost=COSTS[k], **bounds, **own[k]))
    return du.Schema(made, relations)


def changed(was, now, name, p, options):
    """What a change of one cell adds to the p-th power of the distance; None: not allowed."""
    there, here = not math.isnan(was), not math.isnan(now)
    if not there and not here:
        return 0.0
    if there and here and was == now:
        return 0.0
    if not options.get("mutable", True):
        return None
    if there != here:
        price = (
            options.get("hide_cost" if there else "fill_cost")
            if p == "cost"
            else (options.get("hide" if there else "fill"))
        )
        if price is None:
            return None
        return price if p in ("cost", 1, math.inf) else 1.0 if p == 0 else price**2
    if p == 0:
        return 1.0
    if p == "cost":
        return COSTS[name] * (1.0 if name == "c" else abs(now - was))
    if name == "c":
        return {1: 2.0, 2: 2.0, math.inf: 1.0}[p]
    share = abs(now - was) / (max(VALUES[name]) - min(VALUES[name]))
    return share if p in (1, math.inf) else share**2


def near(row, p, eps, options):
    """Every record within eps of a row."""
    each = []
    for name, was in zip(VALUES, row, strict=True):
        choices = [*map(float, VALUES[name]), *([NAN] if name in GAPS else [])]
        priced = [(v, changed(was, v, name, p, options.get(name, {}))) for v in choices]
        each.append([(v, c) for v, c in priced if c is not None])
    for cells in itertools.product(*each):
        costs = [c for _, c in cells]
        size = max(costs) if p == math.inf else sum(costs)
        if size <= (eps**2 if p == 2 else eps) * (1 + 1e-9):
            yield [v for v, _ in cells]


def unknown(f, *values):
    return None if any(math.isnan(v) for v in values) else f(*values)


def either(*parts):
    return True if True in parts else None if None in parts else False


# Relations as text, and as three-valued functions of (a, b, c, d): None is accepted, as in SQL.
RELATIONS = {
    "none": ((), lambda a, b, c, d: True),
    "sum": (["a + b <= 6"], lambda a, b, c, d: unknown(lambda u, v: u + v <= 6, a, b)),
    "or": (
        ["a >= 2 or b <= 3"],
        lambda a, b, c, d: either(unknown(lambda u: u >= 2, a), b <= 3),
    ),
    "count": (
        ["count(a > 1, b > 1, d > 0) <= 2"],
        lambda a, b, c, d: unknown(lambda u: (u > 1) + (b > 1) + (d > 0) <= 2, a)
        if (b > 1) + (d > 0) == 2
        else True,
    ),
    "remainder": (["(a * a) % 3 + b * d <= 4"],
                  lambda a, b, c, d: unknown(lambda u: (u * u) % 3 + b * d <= 4, a)),
    "filled": (["fill(a, 1) * b <= 8"],
               lambda a, b, c, d: (1 if math.isnan(a) else a) * b <= 8),
}  # fmt: skip
SPACES = {
    "L0-1": (0, 1), "L0-2": (0, 2), "L1": (1, 0.8), "L1-far": (1, 2.1), "L2": (2, 0.6),
    "L2-far": (2, 1.45), "Linf": (math.inf, 0.3), "Linf-far": (math.inf, 1.0),
    "cost": ("cost", 3.0),
}  # fmt: skip
STATES = {
    "kept": {},
    "fixed a": {"a": {"mutable": False}},
    "both": {k: {"fill": 0.4, "hide": 0.4, "fill_cost": 1.0, "hide_cost": 1.0} for k in GAPS},
}


def breakable(model, frame, y, rows, p, eps, options, holds):
    """(n,) does the grid hold a valid record that the model gives to another class?"""
    found, records, of = np.zeros(len(rows), bool), [], []
    for k, i in enumerate(rows):
        fine = [r for r in near(frame.iloc[i], p, eps, options) if holds(*r) is not False]
        records += fine
        of += [k] * len(fine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = np.asarray(model.predict(pd.DataFrame(records, columns=list(VALUES))))
    found[np.array(of)[answers != y[rows][of]]] = True
    return found


def asked(model, frame, y, rows, rules, p, eps, attack=None):
    space = rules.space(cost=eps) if p == "cost" else rules.space(eps=eps, p=p)
    data = du.Dataset(frame.iloc[rows], y[rows], schema=rules)
    report = du.evaluate(model, data, space=space, attack=attack or du.Exact(), progress=False)
    return report, data


@pytest.mark.parametrize("kind", ["tree", "forest", "hist", "xgboost", "lightgbm"])
@pytest.mark.parametrize("where", SPACES)
def test_rows_with_gaps_as_by_enumeration(kind, where):
    frame, y = table(seed := len(kind))
    model = models(seed)[kind].fit(frame, y)
    own = np.asarray(model.predict(frame)) == y
    rows = np.flatnonzero(own)[:24]
    assert frame.iloc[rows].isna().any(axis=1).sum() >= 10
    p, eps = SPACES[where]
    gap = frame.iloc[rows].isna().any(axis=1).to_numpy()
    for state, options in STATES.items():
        rules = schema(**options)
        report, _ = asked(model, frame, y, rows, rules, p, eps)
        verdict = np.array([str(v) for v in report.table["verdict"]])
        truth = breakable(model, frame, y, rows, p, eps, options, RELATIONS["none"][1])
        assert not truth[verdict == "proven"].any(), (state, np.flatnonzero(truth))
        assert truth[verdict == "broken"].all(), state
        if state != "both":  # a gap that may be filled leaves a row open, others are decided
            assert (verdict != "open").all(), state
            assert truth[gap].any() or where in ("L1", "L2", "Linf")


@pytest.mark.parametrize("kind", ["tree", "xgboost"])
@pytest.mark.parametrize("rule", RELATIONS)
def test_relations_over_gaps_as_by_enumeration(kind, rule):
    frame, y = table(3)
    text, holds = RELATIONS[rule]
    valid = np.array([holds(*r) is not False for r in frame.to_numpy()])
    frame, y = frame[valid].reset_index(drop=True), y[valid]
    model = models(3)[kind].fit(frame, y)
    rows = np.flatnonzero(np.asarray(model.predict(frame)) == y)[:24]
    for state in ("kept", "fixed a"):
        for where in ("L0-1", "L1-far", "Linf", "Linf-far"):
            p, eps = SPACES[where]
            rules = schema(text, **STATES[state])
            report, _ = asked(model, frame, y, rows, rules, p, eps)
            verdict = np.array([str(v) for v in report.table["verdict"]])
            truth = breakable(model, frame, y, rows, p, eps, STATES[state], holds)
            assert not truth[verdict == "proven"].any(), (state, where)
            assert truth[verdict == "broken"].all(), (state, where)
            assert (verdict == "open").sum() <= (8 if rule in ("remainder", "filled") else 0)


def test_a_gap_beside_a_number_that_flips_the_row():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(400), "b": rng.random(400)})
    frame.loc[::4, "a"] = NAN
    y = (frame.b > 0.5).astype(int).to_numpy()
    model = DecisionTreeClassifier(max_depth=1).fit(frame, y)
    rules = du.Schema([du.Feature("a", "real", 0, 1, missing=True), du.Feature("b", "real", 0, 1)])
    for p, eps in ((0, 1), (1, 1.0), (2, 1.0), (math.inf, 1.0)):
        data = du.Dataset(frame[:8], y[:8], schema=rules)
        report = du.evaluate(model, data, space=rules.space(eps=eps, p=p), attack=du.Exact())
        assert set(map(str, report.table["verdict"])) == {"broken"}, p


@pytest.mark.parametrize("where", ["L0-1", "L1", "L2", "Linf", "cost"])
def test_certificates_of_rows_with_gaps_are_accepted(where, tmp_path):
    frame, y = table(4)
    model = models(4)["xgboost"].fit(frame, y)
    rows = np.flatnonzero(np.asarray(model.predict(frame)) == y)[:30]
    p, eps = SPACES[where]
    still = {k: {"mutable": False} for k in ("b", "d")}
    rules = schema(["a <= 2 or b <= 4"], **still)
    report, data = asked(model, frame, y, rows, rules, p, eps, du.Exact(certificates=True))
    proven = (report.table["verdict"] == "proven").to_numpy()
    gap = frame.iloc[rows].isna().any(axis=1).to_numpy()
    assert (proven & gap).any()
    made = du.verify(report.save(tmp_path / "run"), model, data)
    assert made and made.checked["proofs"] == proven.sum(), str(made)


@pytest.mark.parametrize("rule", ["or", "sum", "count", "remainder"])
def test_the_checker_takes_nothing_from_a_relation_over_a_gap(rule):
    from durometer.verification.assumptions import around

    text, _ = RELATIONS[rule]
    rules = schema(text)
    space = {"type": "TableSpace", "eps": 1.0, "p": math.inf}
    none = np.zeros((0, 2))
    goal = np.array([True, False])
    gone = around(space, rules, np.array([NAN, 1.0, 0.0, 0.0]), goal, False)
    for f, most in ((1, 3.0), (1, 2.0), (3, 0.0)):  # every valid point may pass each of these
        assert not gone.implies((most + 0.5, [(f, 0, 1.0, none)]))
        inside = np.array([[-np.inf, most]])
        assert not gone.implies((0.5, [(f, 4, 1.0, inside)]))
        assert not gone.implies((1.5, [(0, 4, 1.0, np.array([[2.0, 3.0]])), (f, 4, 1.0, inside)]))
