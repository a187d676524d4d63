"""Relations that are no sums: boxes cut until intervals decide, against all records."""

import numpy as np
import pytest
import torch
from tests.oracles.brute import records
from xgboost import XGBClassifier

import durometer as du
from durometer.proofs.search.box_splitting import Boxes
from durometer.relations.normal_form import normal_form

RULES = {
    "squares": ("a**2 + b**2 == c**2 + d**2",
                lambda g: g[:, 0]**2 + g[:, 1]**2 == g[:, 2]**2 + g[:, 3]**2),
    "products": ("a * b + c <= 20", lambda g: g[:, 0] * g[:, 1] + g[:, 2] <= 20),
    "min": ("c == min(8, a * b)", lambda g: g[:, 2] == np.minimum(8, g[:, 0] * g[:, 1])),
    "parity": ("(a + b) % 3 == 0", lambda g: (g[:, 0] + g[:, 1]) % 3 == 0),
    "either": ("a * b <= 6 or c * d <= 6",
               lambda g: (g[:, 0] * g[:, 1] <= 6) | (g[:, 2] * g[:, 3] <= 6)),
    "count": ("count(a * b > 6, c * d > 6, a + c > 9) <= 1",
              lambda g: ((g[:, 0] * g[:, 1] > 6).astype(int) + (g[:, 2] * g[:, 3] > 6)
                         + (g[:, 0] + g[:, 2] > 9)) <= 1),
    "floor": ("floor(a / 2) != b % 3", lambda g: np.floor(g[:, 0] / 2) != g[:, 1] % 3),
}  # fmt: skip
GRID = np.array(np.meshgrid(*[range(9)] * 4)).reshape(4, -1).T.astype(float)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("eps", "p"), [(0.26, np.inf), (0.4, 2), (2, 0)])
def test_every_row_is_decided_as_all_its_records_say(name, eps, p):
    text, rule = RULES[name]
    schema = du.Schema([du.Feature(c, "integer", 0, 8) for c in "abcd"], [text])
    rng = np.random.default_rng(len(name))
    x = rng.permutation(GRID[rule(GRID)])[:600]
    y = (x @ [1.0, -0.8, 0.6, -0.5] + rng.normal(0, 1, len(x)) > 1).astype(int)
    model = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(x[8:], y[8:])
    answer = model.predict(x[:8])
    near = [records(r, [range(9)] * 4, ["number"] * 4, eps, p, rule) for r in x[:8]]
    truth = np.array([(model.predict(g) != a).any() for g, a in zip(near, answer, strict=True)])
    data = du.Dataset(torch.from_numpy(x[:8]), answer, schema=schema)
    report = du.evaluate(model, data, space=schema.space(eps=eps, p=p), attack=du.Exact())
    assert report.table["verdict"].tolist() == np.where(truth, "broken", "proven").tolist()


def test_reals_on_a_curved_relation_are_never_judged_against_sampled_records():
    schema = du.Schema([du.Feature(c, "real", 0, 1) for c in "abc"], ["a * b + a * c == 0.4"])
    rng = np.random.default_rng(0)
    x = rng.uniform(0.4, 1, (600, 3))
    x[:, 1] *= 0.6
    x[:, 2] = 0.4 / x[:, 0] - x[:, 1]
    x = x[(x[:, 2] >= 0) & (x[:, 2] <= 1)]
    y = (x[:, 0] + x[:, 1] > 1).astype(int)
    model = XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(x, y)
    rows = x[:12]
    space = schema.space(eps=0.08, p=np.inf)
    data = du.Dataset(torch.from_numpy(rows), model.predict(rows), schema=schema)
    report = du.evaluate(model, data, space=space, attack=du.Exact(0.2))
    verdict = report.table["verdict"].to_numpy()
    assert {"broken", "proven"} <= set(verdict)
    for row, said, answer in zip(rows, verdict, data.y, strict=True):
        near = row + rng.uniform(-0.08, 0.08, (4000, 3))
        near[:, 2] = 0.4 / near[:, 0] - near[:, 1]
        region = space.around(torch.from_numpy(np.repeat(row[None], 4000, 0)))
        valid = region.contains(torch.from_numpy(near)).numpy()
        hit = (model.predict(near[valid]) != int(answer)).any()
        assert not (hit and said == "proven")


@pytest.mark.parametrize("text", [t for t, _ in RULES.values()])
def test_a_refuted_box_holds_no_valid_record(text):
    schema = du.Schema([du.Feature(c, "integer", 0, 8) for c in "abcd"], [text])
    rng = np.random.default_rng(1)
    low = rng.integers(0, 9, (300, 4)).astype(float)
    high = np.minimum(low + rng.integers(0, 3, (300, 4)), 8)
    x0 = GRID[rng.integers(0, len(GRID), 300)]
    out = Boxes(schema.layout, x0, low, high, 1e-6).refute(
        normal_form(schema.relations[0], schema.layout)
    )
    assert out.any()
    for k in np.flatnonzero(out):
        inside = GRID[((low[k] <= GRID) & (high[k] >= GRID)).all(1)]
        was = torch.from_numpy(x0[k]).expand(len(inside), -1)
        assert not schema.program.valid(torch.from_numpy(inside), was).any()
