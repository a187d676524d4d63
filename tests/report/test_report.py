"""Reports: figures are views of the rows, and what was saved is what is loaded."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats as sps

import durometer as du
from durometer.core.errors import DurometerError
from durometer.report.comparison import Comparison
from durometer.report.report import Report
from durometer.report.stats import wilson

X = torch.rand(60, 4, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)


class Net(torch.nn.Module):
    """The largest of the first three features; raises after so many rows, if asked to."""

    def __init__(self, limit=None, error=None):
        super().__init__()
        self.limit, self.error, self.seen = limit, error or RuntimeError("broke down"), 0

    def forward(self, x):
        self.seen += len(x)
        if self.limit is not None and self.seen > self.limit:
            raise self.error
        return 5 * x[:, :3]


def evaluate(ids=None, net=None, **how):
    how = {"space": du.Linf(0.05), "attack": du.PGD(5), "batch": 16} | how
    y = Y.clone()
    y[:5] = (y[:5] + 1) % 3  # wrong from the start
    data = du.Dataset(X, y, ids=ids, classes=("a", "b", "c"), name="toy")
    return du.evaluate(net or Net().eval(), data, **how)


def test_figures_are_computed_from_the_rows():
    report = evaluate()
    t = report.table
    assert report.metric("clean") == wilson(int((t["clean"] == t["y"]).sum()), 60)
    assert report.metric("robust") == wilson(int((~t["success"]).sum()), 60)
    attacked = t[t["winner"] != "clean"]
    assert len(attacked) == 55
    assert report.metric("success") == wilson(int(attacked["success"].sum()), 55)
    assert report.metric("forwards").value == pytest.approx(attacked["forwards"].mean())
    near = attacked[attacked["success"]]["distance"]
    assert report.metric("distance").value == pytest.approx(near.mean()) and near.max() <= 0.05001


def test_metrics_by_a_column():
    report = evaluate()
    by = report.metric("robust", by="y")
    t = report.table
    assert list(by) == ["a", "b", "c"]
    for value, e in by.items():
        rows = t[t["y"] == "abc".index(value)]
        assert e == wilson(int((~rows["success"]).sum()), len(rows))
    assert sum(e.n for e in by.values()) == 60
    with pytest.raises(DurometerError, match="no metric 'robst'; did you mean 'robust'"):
        report.metric("robst")
    with pytest.raises(DurometerError, match="no column 'winer'"):
        report.metric("robust", by="winer")


def test_parts_are_named_by_their_class_where_names_are_clear():
    report = evaluate()
    for classes in (None, ["a", "a", "c"]):
        other = Report(replace(report.spec, classes=classes), report.records)
        assert list(other.metric("robust", by="y")) == [0, 1, 2]
    assert set(report.metric("robust", by="round")) == {0}


IDS = {
    "none": None,
    "int": np.arange(60) + 7,
    "text": [f"row/{k}" for k in range(60)],
    "digits": [f"{k:03d}" for k in range(60)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_what_is_saved_is_what_is_loaded(ids, tmp_path):
    report = evaluate(ids)
    loaded = Report.load(report.save(tmp_path / "run"))
    for name, column in report.records.columns.items():
        other = loaded.records.columns[name]
        assert other.dtype == column.dtype, name
        same = (
            column == other
            if column.dtype.kind != "f"
            else np.isclose(column, other, equal_nan=True)
        )
        assert np.all(same), name
    assert np.array_equal(loaded.adversarial, report.adversarial)
    assert loaded.flags == report.flags
    assert loaded.spec == report.spec
    assert str(loaded) == str(report)
    assert loaded.compare(report).p_value == 1.0


def test_a_run_from_before_a_field_was_added_is_loaded(tmp_path):
    report = evaluate()
    file = report.save(tmp_path / "run") / "records.parquet"
    pd.read_parquet(file).drop(columns="adapting").to_parquet(file)
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    del spec["saved"]  # digests of the files, which 0.1 did not write
    (tmp_path / "run" / "spec.json").write_text(json.dumps(spec))
    loaded = Report.load(tmp_path / "run")
    assert loaded.metric("robust") == report.metric("robust")
    assert loaded.table["adapting"].isna().all()


def test_loading_what_is_no_report(tmp_path):
    with pytest.raises(DurometerError, match="no saved report in"):
        Report.load(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DurometerError, match="cannot write the report"):
        evaluate().save(tmp_path / "file")


def test_comparison_is_paired():
    weak, strong = evaluate(attack=du.PGD(1, step=0.1)), evaluate(attack=du.APGD(20))
    a, b = weak.table["success"].to_numpy(), strong.table["success"].to_numpy()
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    c = weak.compare(strong)
    assert only_b > 0
    assert (c.only_first, c.only_second) == (only_a, only_b)
    assert c.p_value == pytest.approx(sps.binomtest(only_a, only_a + only_b, 0.5).pvalue)
    assert c.robust.value == pytest.approx(b.mean() - a.mean())
    d = weak.table["forwards"].to_numpy() - strong.table["forwards"].to_numpy()
    assert c.queries_p_value == pytest.approx(sps.wilcoxon(d[d != 0]).pvalue)
    assert "McNemar" in str(c)


def test_comparison_is_by_id_not_by_place():
    whole = evaluate()
    back = np.arange(60)[::-1]
    data = du.Dataset(X, Y).take(back.copy())
    turned = du.evaluate(Net().eval(), data, space=du.Linf(0.05), attack=du.PGD(5))
    c = whole.compare(turned)
    assert (c.only_first, c.only_second) == (5, 0)  # the five with other labels
    apart = du.evaluate(Net().eval(), du.Dataset(X, Y, ids=range(100, 160)), space=du.Linf(0.05),
                        attack=du.PGD(1))  # fmt: skip
    with pytest.raises(DurometerError, match="no example in common"):
        whole.compare(apart)


def test_rows_of_other_data_are_not_compared_though_their_ids_are_alike():
    mine = evaluate()
    other = du.evaluate(Net().eval(), du.Dataset(X * 0.5, Y), space=du.Linf(0.05),
                        attack=du.PGD(1))  # fmt: skip
    with pytest.raises(DurometerError, match="different data.*60 of 60 rows with the same id"):
        mine.compare(other)
    part = du.evaluate(Net().eval(), du.Dataset(X, Y)[:20], space=du.Linf(0.05), attack=du.PGD(1))
    assert mine.compare(part).robust.n == 20  # the same rows of the same data
    for report in (mine, other):  # as in runs of before this was kept
        report.records.columns["input"][:] = 0
    mine, other = (Report(r.spec, r.records) for r in (mine, other))
    assert mine.compare(evaluate()).robust.n == 60
    with pytest.raises(DurometerError, match="do not say row by row"):
        mine.compare(other)


def test_only_rows_that_were_played_are_compared():
    goal = du.Group({"a": ["b"], "b": ["a", "c"]})
    weak, strong = (evaluate(goal=goal, attack=a) for a in (du.PGD(1, step=0.01), du.APGD(20)))
    c, n = weak.compare(strong), weak.metric("robust").n
    assert n < 60 and c.robust.n == n
    want = weak.metric("robust").value - strong.metric("robust").value
    assert c.robust.value == pytest.approx(want) and want > 0
    assert f"{weak.metric('robust').value:.3f} against" in str(c)


def test_noises_are_compared_by_their_probabilities():
    data = du.Dataset(X, Y)
    little, much = (
        du.evaluate(du.Nature(Net().eval(), du.Normal(sd=sd), draws=300), data)
        for sd in (0.05, 0.2)
    )
    c = little.compare(much)
    want = little.metric("robust").value - much.metric("robust").value
    assert c.robust.value == pytest.approx(want) and c.robust.low > 0
    assert "probability it stays" in str(c) and "McNemar" not in str(c)


def test_several_runs_of_an_example_are_not_so_many_examples():
    t = pd.DataFrame({"id": np.repeat(np.arange(40), 5), "run": np.tile(np.arange(5), 40)})
    t["success"], t["forwards"] = t["id"] % 2 == 0, 1
    t["probability_low"] = t["probability_high"] = np.nan
    first = t.set_index(["id", "run"])
    once, often = (
        Comparison(f, f.assign(success=False)).robust
        for f in (first.xs(0, level="run", drop_level=False), first)
    )
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_text_names_every_figure_with_interval_and_rows():
    text = str(evaluate())
    for word in ("clean accuracy", "robust accuracy", "valid share", "95 % interval", "60",
                 "broken by", "PGD", "seed 0", "Linf(0.05)"):  # fmt: skip
        assert word in text
    assert "<pre>" in evaluate()._repr_html_() or "<" in evaluate()._repr_html_()


def test_ctrl_c_returns_the_finished_batches():
    report = evaluate(net=Net(380, KeyboardInterrupt()).eval())
    done = len(report.records)
    assert 0 < done < 60 and done % 16 == 0
    assert [f.id for f in report.flags if f.id == "interrupted"] == ["interrupted"]
    whole = evaluate()
    assert report.table["success"].tolist() == whole.table["success"].tolist()[:done]
    with pytest.raises(KeyboardInterrupt):
        evaluate(net=Net(90, KeyboardInterrupt()).eval())


def test_a_model_that_breaks_down_leaves_what_was_finished():
    with pytest.raises(RuntimeError, match="broke down") as caught:
        evaluate(net=Net(380).eval())
    partial = caught.value.partial
    assert 0 < len(partial.records) < 60
    assert partial.metric("clean").n == len(partial.records)
    assert any("rows were finished" in note for note in caught.value.__notes__)


def test_clean_accuracy_of_the_rows_played_stands_beside_robust_accuracy():
    """Rows that break their space are left out of one figure, so the other is printed twice."""
    net, data = du.testing.toy()
    x = data.x.clone()
    low, high = float(x.min()), float(x.max())
    schema = du.Schema([du.Feature(f"f{i}", "real", low, high) for i in range(x.shape[1])],
                       ["f0 <= f1"])  # fmt: skip
    table = du.Dataset(x, data.y, schema=schema)
    report = du.evaluate(
        net, table, space=schema.space(eps=0.1), attack=du.Graft(3), progress=False
    )
    kept = (x[:, 0] <= x[:, 1]).numpy()
    assert 0 < kept.sum() < len(kept)
    title, played = report.shown["clean_played"]
    assert played.n == report.metric("robust").n == kept.sum()
    assert title in str(report)
