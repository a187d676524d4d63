"""The auditor: a false proof of any kind is found on the user's own model, and withdraws the run's.

The proof under test here is a liar (`Claims`): it calls every row proven. What the auditor finds is
judged by the region and the model alone.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import durometer as du
from durometer.core.records import FIELDS, TIMES
from durometer.extend import ANY
from durometer.problem.needs import Needs
from durometer.proofs.audit import PLAN
from durometer.report.verdicts import audit
from durometer.run.merge import merge, report_of
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema

LAST = 28  # points of a row, with gradients


@dataclass(frozen=True)
class Claims:
    """A proof that is wrong wherever a row can be broken."""

    only: int = 10**9  # rows with ids below are claimed
    passes: int = 440

    @property
    def needs(self):
        return Needs(ANY, is_proof=True)

    def __call__(self, problem):
        problem.prove(problem.undecided, passes=self.passes)


def _net(seed=0, width=4):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 2)).double().eval()
    with torch.no_grad():  # both classes are common
        net[2].bias -= net(torch.rand(200, width, dtype=torch.float64)).mean(0)
    return net


def _rows(net, n=40, seed=0):
    x = torch.rand(n, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return du.Dataset(x, net(x).argmax(1))


def _same(a, b, rounding=()):
    """Record by record; `rounding`: columns that a matrix product of other height rounds anew."""
    for name in FIELDS:
        mine, theirs = a.records.columns[name], b.records.columns[name]
        if name in rounding:
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, err_msg=name)
        elif name not in TIMES:
            np.testing.assert_array_equal(mine, theirs, name)


@pytest.fixture(scope="module")
def wrong():
    net = _net()
    data = _rows(net)
    return net, data, du.evaluate(net, data, space=du.Linf(0.2), attack=Claims())


def test_a_false_proof_is_broken_by_a_point_that_can_be_checked(wrong):
    net, data, report = wrong
    c = report.records.columns
    fell = c["overturned"] != ""
    assert fell.sum() > 5
    assert set(c["verdict"][fell]) == {"broken"} and set(c["winner"][fell]) == {"Auditor"}
    x = torch.from_numpy(report.records.adversarial)
    assert ((net(x).argmax(1) != data.y).numpy() == c["success"]).all()
    assert ((x - data.x).abs().amax(1) <= 0.2 + 1e-9).all()
    assert (c["margin"][fell] > 0).all()
    assert "Claims on torch Sequential (Linear, ReLU)" in set(c["overturned"])


def test_one_hit_withdraws_all_proofs_and_says_so(wrong):
    _, _, report = wrong
    c = report.records.columns
    assert "proven" not in set(c["verdict"]) and report.metric("proven").value == 0
    left = c["verdict"] == "open"
    assert left.any() and all("withdrawn" in w for w in c["unproven"][left])
    flag = next(f for f in report.flags if f.id == "contradiction")
    assert "Claims on torch Sequential" in flag.text and "please report it" in flag.text
    assert str(c["id"][np.flatnonzero(c["overturned"] != "")[0]]) in flag.text
    assert "so all are withdrawn" in " ".join(str(report).split())


@pytest.mark.parametrize("batch", [7, 64])
def test_it_does_not_depend_on_batches(wrong, batch):
    net, data, report = wrong
    other = du.evaluate(net, data, space=du.Linf(0.2), attack=Claims(), batch=batch)
    _same(report, other, rounding=("margin",))


def test_nor_on_a_folder_shards_or_where_the_run_was_stopped(wrong, tmp_path):
    net, data, report = wrong
    ask = dict(space=du.Linf(0.2), attack=Claims(), batch=10)
    folder = tmp_path / "whole"
    du.evaluate(net, data, **ask, run=du.Run(folder))
    for part in sorted((folder / "chunks").glob("*"))[:2]:
        part.unlink()
    _same(report, du.evaluate(net, data, **ask, run=du.Run(folder, resume=True)))
    parts = [tmp_path / f"s{i}" for i in (1, 2)]
    for i, out in enumerate(parts, 1):
        du.evaluate(net, data, **ask, run=du.Run(out, shard=(i, 2))).save(out)
    _same(report, report_of(parts, merge(parts, tmp_path / "merged")))


def test_a_hit_in_one_chunk_withdraws_the_proofs_of_the_others():
    net = _net()
    data = _rows(net)
    whole = du.evaluate(net, data, space=du.Linf(0.2), attack=Claims())
    row = int(np.flatnonzero(whole.records.columns["overturned"] != "")[-1])
    x = data.x.clone()
    small = du.evaluate(net, du.Dataset(x, data.y), space=du.Linf(1e-6), attack=Claims())
    assert small.metric("proven").value == 1.0 and not any(
        f.id == "contradiction" for f in small.flags
    )

    class Trap(nn.Module):
        """Answers otherwise near one row only, where no proof was sound."""

        def __init__(self):
            super().__init__()
            self.net, self.at = net, data.x[row].clone()

        def forward(self, x):
            out = self.net(x)
            near = ((x - self.at).abs().amax(1) < 1e-5) & (x != self.at).any(1)
            return torch.where(near[:, None], out.flip(1), out)

    found = du.evaluate(
        Trap().eval(), du.Dataset(x, data.y), space=du.Linf(1e-6), attack=Claims(), batch=4
    )
    c = found.records.columns
    assert (c["overturned"] != "").sum() == 1 and c["overturned"][row]
    assert (c["verdict"] == "proven").sum() == 0 and (c["verdict"] == "open").sum() == 39


def test_true_proofs_stand_and_the_report_says_what_was_tried():
    net = _net()
    report = du.evaluate(net, _rows(net), space=du.Linf(0.05), attack=du.Bounds())
    found = audit(report)
    assert found.overturned == 0 and found.examined == found.proofs > 10
    assert found.points == LAST * found.proofs
    assert f"{found.points:,} valid points" in " ".join(str(report).split())
    assert report.spec.audit == PLAN and du.core.spec.Spec.from_json(report.spec.to_json()).audit


def test_cheap_proofs_of_many_rows_are_drawn_by_their_ids():
    x = np.random.default_rng(0).random((2000, 4))
    model = LogisticRegression().fit(x[:200], x[:200, 0] > 0.5)
    data = du.Dataset(x, model.predict(x).astype(int))
    report = du.evaluate(model, data, space=du.Linf(0.02), attack=du.Linear())
    found = audit(report)
    assert 30 < found.examined < 110 and found.proofs > 1500
    again = du.evaluate(model, data, space=du.Linf(0.02), attack=du.Linear(), batch=100)
    assert (again.table["audited"] == report.table["audited"]).all()


def _table(gap=False):
    rng = np.random.default_rng(1)
    n = 60
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 9, n).astype(float),
            "b": rng.random(n),
            "c": rng.choice([0, 1, 2], n),
        }
    )
    frame["d"] = frame["a"] + rng.integers(0, 3, n)
    if gap:
        frame.loc[::5, "b"] = np.nan
    y = (frame["a"] > 4).astype(int)
    features = [
        Feature("a", "integer", 0, 12),
        Feature("b", "real", 0, 1, missing=gap),
        Feature("c", "category", values=(0, 1, 2)),
        Feature("d", "integer", 0, 15),
    ]
    return frame, y, Schema(features, ["a <= d"])


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("p", [np.inf, 2.0, 1.0, 0.0])
def test_tables_with_relations_categories_and_gaps(gap, p):
    frame, y, schema = _table(gap)
    model = DecisionTreeClassifier(random_state=0).fit(frame, y)
    data = du.Dataset(frame, y, schema=schema)
    space = schema.space(eps=1.0 if p == 0 else 0.3, p=p)
    report = du.evaluate(model, data, space=space, attack=Claims())
    c = report.records.columns
    assert (c["overturned"] != "").any(), "a tree at a > 4 falls when a moves by three"
    true = du.evaluate(model, data, space=space, attack=du.Exact())
    assert not any(f.id == "contradiction" for f in true.flags)
    proven = true.records.columns["verdict"] == "proven"
    assert (true.records.columns["audited"][proven] > 0).all()


def test_texts_and_patches():
    likes = lambda texts: torch.tensor([[float("good" in t), 0.5] for t in texts])  # noqa: E731
    film = du.wrap(likes, inputs="text")
    data = du.Dataset(["a good film", "such a good film"], [0, 0])
    space = du.Text(du.Synonyms({"good": ("fine", "fair")}), most=0.4)
    report = du.evaluate(film, data, space=space, attack=Claims())
    assert set(report.table["verdict"]) == {"broken"} and all(report.table["overturned"])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2)).double().eval()
    x = torch.rand(6, 1, 8, 8, dtype=torch.float64)
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[2:6, 2:6] = True
    patch = du.evaluate(net, du.Dataset(x, net(x).argmax(1)), space=du.Patch(mask), attack=Claims())
    assert (patch.table["overturned"] != "").any()


def test_a_withdrawn_run_is_saved_loaded_and_verified_as_it_is(wrong, tmp_path):
    net, data, report = wrong
    report.save(tmp_path)
    loaded = du.Report.load(tmp_path)
    _same(report, loaded)
    found = du.verify(tmp_path, net, data)
    assert found.status == "verified" and found.checked["adversarial examples"] > 5
