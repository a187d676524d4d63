"""An untouched run is verified; whatever is changed in a copy is found, and the rows are named."""

import json
import shutil

import numpy as np
import pytest
import torch

import assay as ay
from assay import durable
from assay.report.report import Report


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    net, data = ay.testing.toy()
    report = ay.evaluate(net, data, space=ay.Linf(0.1), attack=ay.PGD(10))
    return net, data, report.save(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made[2], tmp_path / "copy")


def kinds(folder, made):
    return {f.kind for f in ay.verify(folder, *made[:2]).findings}


def test_an_untouched_run_is_verified(made):
    found = ay.verify(made[2], *made[:2])
    assert found, str(found)
    assert found.checked["adversarial examples"] == 11 and found.checked["rows"] == 16


@pytest.mark.parametrize("name", [
    "spec.json", "records.parquet", "adversarial.npz", "examples.npz", "report.html",
    "evidence.html", "evidence.json",
])  # fmt: skip
@pytest.mark.parametrize("where", [0.13, 0.5, 0.97])
def test_one_byte_is_found(made, copy, name, where):
    path = copy / name
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    assert not ay.verify(copy)


def resaved(made, copy, **changed):
    """A run whose maker lies consistently: all digests and figures fit the changed records."""
    report = Report.load(copy)
    columns = {k: v.copy() for k, v in report.records.columns.items()}
    x = report.adversarial.copy()
    for name, change in changed.items():
        if name == "x":
            x = change(x, columns)
        else:
            columns[name] = change(columns[name], columns)
    records = type(report.records)(columns, x)
    Report(report.spec, records, report.flags, examples=report.examples).save(copy)
    return kinds(copy, made)


def first(columns, held=False):
    return int(np.flatnonzero(columns["success"] != held)[0])


def test_lies_that_fit_their_digests_are_found_by_asking_again(made, copy):
    def too_far(x, c):
        x[first(c)] = np.clip(x[first(c)] + 0.3, 0, 1)
        return x

    def clean(x, c):
        x[first(c)] = made[1].x.numpy()[first(c)]
        return x

    def other(values, c):
        values[first(c)] = (values[first(c)] + 1) % 3
        return values

    def broken(values, c):
        values[first(c, held=True)] = True
        return values

    assert "space" in resaved(made, copy, x=too_far)
    for change, kind in (
        ({"x": clean}, "answer"), ({"y": other}, "label"), ({"final": other}, "answer"),
        ({"clean": other}, "answer"), ({"success": broken}, "record"),
    ):  # fmt: skip
        shutil.rmtree(copy)
        shutil.copytree(made[2], copy)
        assert kind in resaved(made, copy, **change), change


def test_another_model_and_other_data_are_found(made):
    net, data, folder = made
    other = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(data.x[0].numel(), 3))
    assert {"model", "answer"} <= {f.kind for f in ay.verify(folder, other, data).findings}
    moved = ay.Dataset(data.x * 0.99, data.y)
    assert "input" in {f.kind for f in ay.verify(folder, net, moved).findings}


def test_a_figure_that_was_written_by_hand_is_found(made, copy):
    from assay.report.evidence.document import digest

    path = copy / "evidence.json"
    content = json.loads(path.read_text())
    robust = next(f for f in content["figures"] if f["name"] == "robust")
    robust["value"] = 0.99
    content["digest"] = digest(content)
    durable.write(path, json.dumps(content, indent=1, ensure_ascii=False))
    found = ay.verify(copy)
    assert {f.kind for f in found.findings} == {"figure"} and "robust" in str(found)


def test_rows_that_fail_are_named(made, copy):
    resaved(made, copy, y=lambda y, c: np.where(np.arange(16) == 5, (y + 1) % 3, y))
    labels = next(f for f in ay.verify(copy, *made[:2]).findings if f.kind == "label")
    assert labels.rows == (made[1].ids[5],)


def test_the_second_judge_of_tables_agrees_with_the_first():
    from assay.verification.judge import allowed

    data = ay.datasets.url().test.sample(40)
    space = data.schema.space(eps=0.5)
    region = space.around(data.x)
    rng = np.random.default_rng(0)
    x = data.x.numpy().copy()
    for i in range(40):  # some moves are allowed, most break a rule
        j = rng.integers(x.shape[1])
        x[i, j] += rng.choice([0, 1, -1, 0.5])
    mine = allowed({"type": "TableSpace", "eps": 0.5, "p": 2.0}, data.x.numpy(), x, data.schema)
    theirs = region.contains(torch.from_numpy(x)).numpy()
    assert (mine == theirs).all() and 0 < theirs.sum() < 40
