"""Certificates of networks and linear models: honest ones are accepted, all others refused."""

import io

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import durometer as du
from durometer.core.records import Records
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema


def _net(seed=0, dtype=torch.float32, kind=nn.ReLU):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(4, 12), kind(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3)
    ).to(dtype)
    x = torch.rand(30, 4, dtype=dtype)
    with torch.no_grad():
        for k in (0, 2, 4):
            net[k].weight *= 2
        net[4].bias -= net(x).mean(0)
    return net.eval(), x


def _saved(net, x, space, folder, attack=None, y=None):
    y = net(x).argmax(1) if y is None else y
    data = du.Dataset(x, y)
    report = du.evaluate(net, data, space=space, attack=attack or du.Bounds(certificates=True))
    report.save(folder)
    return report, data


@pytest.mark.parametrize("space", [du.Linf(0.08), du.L2(0.1), du.L1(0.2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_honest_ones_are_accepted_in_balls(space, dtype, tmp_path):
    net, x = _net(dtype=dtype)
    report, data = _saved(net, x, space, tmp_path)
    found = du.verify(tmp_path, net, data)
    proven = int((report.table["verdict"] == "proven").sum())
    assert not found.findings and found.checked["proofs"] >= 0.9 * proven > 5
    if space.p != 1:  # parts of an L1 ball that are empty are not written down
        assert found.status == "verified"


def test_convolutions_batch_norm_and_leaky_relus(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(4), nn.LeakyReLU(0.1),
        nn.Conv2d(4, 4, 2, dilation=2), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(16, 3),
    )  # fmt: skip
    x = torch.rand(12, 2, 8, 8)
    net(x)  # running statistics
    net.eval()
    _, data = _saved(net, x, du.Linf(0.01), tmp_path)
    found = du.verify(tmp_path, net, data)
    assert found.status == "verified" and found.checked["proofs"] > 5


def test_a_table_of_whole_numbers(tmp_path):
    net, _ = _net(dtype=torch.float64)
    schema = Schema([Feature(f"v{i}", "integer", 0, 9) for i in range(4)], ["v0 <= v1 + 9"])
    x = torch.randint(0, 10, (20, 4)).double()
    with torch.no_grad():
        net[0].weight /= 5
    data = du.Dataset(x, net(x).argmax(1), schema=schema)
    report = du.evaluate(
        net, data, space=schema.space(eps=0.2, p=np.inf), attack=du.Bounds(certificates=True)
    )
    report.save(tmp_path)
    found = du.verify(tmp_path, net, data)
    assert not found.findings and found.checked["proofs"] >= 3


@pytest.mark.parametrize("space", [du.Linf(0.05), du.L2(0.05)], ids=str)
def test_linear_models_of_both_libraries(space, tmp_path):
    x = np.random.default_rng(0).random((40, 4))
    model = LogisticRegression(C=100).fit(x, (x[:, 0] + x[:, 1] > 1).astype(int))
    data = du.Dataset(x, model.predict(x))
    du.evaluate(model, data, space=space, attack=du.Linear(certificates=True)).save(tmp_path / "a")
    found = du.verify(tmp_path / "a", model, data)
    assert found.status == "verified" and found.checked["proofs"] > 10
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).double().eval()
    z = torch.from_numpy(x)
    with torch.no_grad():
        net[1].bias -= net(z).mean(0)
    _, rows = _saved(net, z, space, tmp_path / "b", du.Linear(certificates=True))
    found = du.verify(tmp_path / "b", net, rows)
    assert found.status == "verified" and found.checked["proofs"] > 10


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """A run in which rows that attacks can break are said to be proven, with honest rows' bytes."""
    folder = tmp_path_factory.mktemp("forged")
    net, x = _net()
    report, data = _saved(net, x, du.Linf(0.08), folder / "honest")
    attacked = du.evaluate(net, data, space=du.Linf(0.08), attack=du.PGD(40))
    fell = np.flatnonzero(attacked.table["verdict"] == "broken")
    honest = report.records.certificates
    some = [c for c in honest if c is not None]
    assert len(fell) > 3 and len(some) > 3
    return net, data, report, fell, some, folder


def _resaved(report, certificates, proven, folder):
    columns = {k: v.copy() for k, v in report.records.columns.items()}
    columns["verdict"][proven] = "proven"
    records = Records(columns, report.records.adversarial, certificates)
    du.Report(report.spec, records, report.flags).save(folder)
    return folder


def test_a_row_that_can_be_broken_has_no_certificate_whatever_is_written(forged):
    net, data, report, fell, some, folder = forged
    kept = report.records.certificates.copy()
    for k, i in enumerate(fell):
        kept[i] = some[k % len(some)]
    found = du.verify(_resaved(report, kept, fell, folder / "a"), net, data)
    assert found.status == "contradicted"
    (finding,) = [f for f in found.findings if f.kind == "proof"]
    assert set(report.table["id"][fell]) == set(finding.rows)


def test_without_a_certificate_it_is_not_verified(forged):
    net, data, report, fell, _, folder = forged
    found = du.verify(_resaved(report, report.records.certificates, fell, folder / "b"), net, data)
    assert found.status == "consistent" and sum(found.unchecked.values()) == len(fell)


def _changed(kept, **change):
    with np.load(io.BytesIO(kept)) as file:
        held = {k: file[k] for k in file.files} | change
    out = io.BytesIO()
    np.savez(out, **held)
    return out.getvalue()


@pytest.mark.parametrize(
    "tamper",
    [
        lambda c: c[: len(c) // 2],
        lambda c: b"PK" + b"\0" * 40,
        lambda c: _changed(c, digest=np.array("another")),
        lambda c: _changed(c, cuts=np.zeros((0, 2), np.int32)),
        lambda c: _changed(c, cuts=np.array([[0, 0], [-1, 0]], np.int32)),  # one side of a cut
        lambda c: _changed(c, cuts=np.array([[0, 0], [0, 0], [-1, 0], [-1, 0], [-1, 0]])),
        lambda c: _changed(c, cuts=np.array([[7, 0]], np.int32)),
        lambda c: _changed(c, cuts=np.array([[-3, 99]], np.int32)),
        lambda c: _changed(c, cuts=np.array([[-2, 0]]), alpha=np.ones(3), beta=np.ones(3)),
        lambda c: _changed(c, cuts=np.array([[-2, 0]]), alpha=np.ones(22), beta=-np.ones(22)),
        lambda c: _changed(c, cuts=np.array([[-2, 0]]), alpha=np.full(22, np.nan)),
    ],
)  # fmt: skip
def test_tampered_ones_are_refused(forged, tamper, tmp_path):
    net, data, report, _, _, _ = forged
    kept = report.records.certificates.copy()
    at = next(i for i, c in enumerate(kept) if c is not None)
    kept[at] = tamper(kept[at])
    found = du.verify(_resaved(report, kept, [], tmp_path), net, data)
    assert found.status == "contradicted" and found.findings[0].rows == (report.table["id"][at],)


def test_another_model_is_refused(forged):
    _, data, _, _, _, folder = forged
    other, _ = _net(seed=3)
    assert du.verify(folder / "honest", other, data).status == "contradicted"


@pytest.mark.parametrize("what", ["hook", "subclass", "curve"])
def test_what_the_checker_does_not_read_is_unchecked(what, tmp_path):
    kind = nn.Tanh if what == "curve" else nn.ReLU
    net, x = _net(kind=kind)
    report, data = _saved(net, x, du.Linf(0.05), tmp_path)
    if what == "curve":
        assert all(c is None for c in report.records.certificates or [None])
        assert du.verify(tmp_path, net, data).status == "consistent"
        return
    if what == "hook":
        net[1].register_forward_hook(lambda m, a, out: out)
    else:
        net[1] = type("Mine", (nn.ReLU,), {})().eval()
    found = du.verify(tmp_path, net, data)
    assert found.status != "verified" and not found.checked.get("proofs")
