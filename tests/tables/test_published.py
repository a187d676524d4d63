"""The paper's data sets: successes judged again by studies/caa/table_rules.py, plain numpy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.streams import Stream

_FILE = Path(__file__).parents[2] / "studies" / "caa" / "table_rules.py"
_SPEC = importlib.util.spec_from_file_location("table_rules", _FILE)
table_rules = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(table_rules)

LOAD = {
    "url": lambda: du.datasets.url().test,
    "lcld47": lambda: du.datasets.lcld(47).test,
    "ctu13": lambda: du.datasets.ctu13().test,
}


def network(data, seed=0):
    """Random weights behind the schema's scaling, with the median record on the border."""
    row = torch.tensor([0])
    stream, size = Stream(seed, row), data.x.shape[1]
    low = torch.tensor([f.range[0] for f in data.schema.features], dtype=torch.float64)
    width = torch.tensor(
        [data.schema.layout.width(n) for n in data.schema.names], dtype=torch.float64
    )
    a = stream.normal(row, size * 32).reshape(size, 32)
    b = stream.normal(row, 32)[0]

    def score(x):
        return torch.tanh((x - low) / width @ a) @ b

    middle = score(data.x).quantile(0.3)
    return lambda x: torch.stack([middle - score(x), score(x) - middle], 1)


@pytest.mark.parametrize("name", LOAD)
@pytest.mark.parametrize("eps", [0.1, 0.5])
def test_every_success_passes_the_second_judge(name, eps):
    data = LOAD[name]()
    data = data.take(slice(0, 120))
    model = network(data)
    data = du.Dataset(data.x, model(data.x).argmax(1), schema=data.schema)
    report = du.evaluate(
        model, data, space=data.schema.space(eps), attack=du.CAPGD(), progress=False
    )
    won = report.table.success.to_numpy()
    x0, x = data.x.numpy()[won], np.asarray(report.adversarial)[won]
    assert won.sum() >= 10, "too few successes to tell anything"
    assert table_rules.valid(name, data.schema.features, x0, x, eps).all()
    assert (model(torch.from_numpy(x)).argmax(1).numpy() != data.y.numpy()[won]).all()


@pytest.mark.parametrize("name", LOAD)
def test_library_and_second_judge_agree_on_moved_records(name):
    data = LOAD[name]()
    x0, schema = data.x[:200], data.schema
    region = schema.space(0.5).around(x0)
    index = torch.arange(len(x0))
    stream = Stream(1, index)
    unrepaired = region.unrepaired()
    points = [
        unrepaired.decode(
            unrepaired.origin + 0.02 * size * stream.normal(index, region.origin.shape[1])
        )
        for size in (0.0, 0.3, 1.0)
    ] + [region.decode(region.random(stream, index))]
    verdicts = []
    for x in points:
        ours = region.contains(x).numpy()
        theirs = table_rules.valid(name, schema.features, x0.numpy(), x.numpy(), 0.5)
        assert (ours == theirs).all()
        verdicts.append(ours.mean())
    assert max(verdicts) > 0.9
    assert min(verdicts) < 0.9, "nothing invalid was tried"


def test_both_judges_draw_the_line_of_more_than_nothing_at_the_same_place():
    """`ip <= 0 or ratio_digits_url > 0`: 1e-6 of the ratio's range of 0.72 is nothing."""
    data = LOAD["url"]()
    names = list(data.schema.names)
    ip, share = names.index("ip"), names.index("ratio_digits_url")
    x0 = data.x[(data.x[:, ip] > 0) & (data.x[:, share] < 0.3)][:1].repeat(6, 1)
    x = x0.clone()
    x[:, share] = torch.tensor([0.0, 1e-9, 7e-7, 7.3e-7, 9e-7, 1e-3], dtype=torch.float64)
    ours = data.schema.space(0.5).around(x0).contains(x).numpy()
    theirs = table_rules.valid("url", data.schema.features, x0.numpy(), x.numpy(), 0.5)
    assert ours.tolist() == theirs.tolist() == [False] * 3 + [True] * 3
