"""`verify` tells apart: re-checked by certificate, consistent but unchecked, contradicted,
unreadable."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner
from xgboost import XGBClassifier

import durometer as du
from durometer.cli.app import app
from durometer.report.report import Report


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    x = rng.random((400, 3))
    y = (x[:, 0] + 0.5 * x[:, 1] > 0.7).astype(int)
    model = XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1).fit(x, y)
    data = du.Dataset(x[:40], y[:40])
    report = du.evaluate(model, data, space=du.Linf(0.04), attack=du.Exact(certificates=True))
    verdict = report.table["verdict"]
    assert (verdict == "proven").sum() > 10 and (verdict == "broken").sum() > 4
    return model, data, report


def saved(report, folder, certificates):
    """The same run saved anew, with other certificates."""
    records = type(report.records)(report.records.columns, report.adversarial, certificates)
    return Report(report.spec, records, report.flags).save(folder)


def test_verified_means_that_every_proof_was_rechecked(made, tmp_path):
    model, data, report = made
    found = du.verify(report.save(tmp_path / "run"), model, data)
    proven = int((report.table["verdict"] == "proven").sum())
    assert found and found.status == "verified" and found.checked["proofs"] == proven
    assert not found.unchecked and ": verified" in str(found)


def test_forged_proofs_without_a_certificate_are_not_verified(made, tmp_path):
    model, data, report = made
    columns = {k: v.copy() for k, v in report.records.columns.items()}
    x, five = report.adversarial.copy(), np.flatnonzero(columns["success"])[:5]
    columns["verdict"][five], columns["success"][five] = "proven", False
    x[five], columns["final"][five] = data.x[five].numpy(), columns["clean"][five]
    records = type(report.records)(columns, x, None)
    found = du.verify(
        Report(report.spec, records, report.flags).save(tmp_path / "run"), model, data
    )
    many = int((columns["verdict"] == "proven").sum())
    assert not found and found.status == "consistent" and not found.findings
    assert found.unchecked == {"they have no certificate": many}
    assert f"{many} of {many} proofs not checked" in str(found)
    assert ": verified" not in str(found)


def test_one_certificate_that_is_missing_is_one_proof_that_was_not_checked(made, tmp_path):
    model, data, report = made
    kept = report.records.certificates.copy()
    kept[next(i for i, c in enumerate(kept) if c is not None)] = None
    found = du.verify(saved(report, tmp_path / "run", kept), model, data)
    assert found.status == "consistent" and sum(found.unchecked.values()) == 1
    assert "1 of" in str(found)


def test_proofs_of_networks_have_no_certificate_and_are_not_verified(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.rand(20, 3)
    data = du.Dataset(x, net(x).argmax(1).detach())
    report = du.evaluate(net, data, space=du.Linf(0.01), attack=du.Bounds())
    assert (report.table["verdict"] == "proven").any()
    found = du.verify(report.save(tmp_path / "run"), net, data)
    assert found.status == "consistent" and "they have no certificate" in found.unchecked


def test_without_the_model_no_proof_is_checked(made, tmp_path):
    found = du.verify(made[2].save(tmp_path / "run"))
    assert found.status == "consistent" and list(found.unchecked) == [
        "no model and data were given"
    ]


def test_a_contradiction_outweighs_what_was_not_checked(made, tmp_path):
    model, data, report = made
    moved = du.Dataset(data.x * 0.99, data.y)
    found = du.verify(saved(report, tmp_path / "run", None), model, moved)
    assert found.status == "contradicted" and not found


def test_every_outcome_has_an_exit_code_of_its_own(made, tmp_path):
    def code(folder):
        return CliRunner().invoke(app, ["verify", str(folder)]).exit_code

    net, data = du.testing.toy()
    plain = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5)).save(tmp_path / "plain")
    assert code(plain) == 0
    (plain / "report.html").write_text("another")
    assert code(plain) == 1
    assert code(tmp_path / "nowhere") == 2
    assert code(made[2].save(tmp_path / "proven")) == 3
    (tmp_path / "proven" / "records.parquet").write_bytes(b"no table")
    shown = CliRunner().invoke(app, ["verify", str(tmp_path / "proven")])
    assert shown.exit_code == 4 and "cannot be read" in shown.output
    said = CliRunner().invoke(app, ["verify", "--help"]).output
    assert all(
        word in said for word in ("verified", "contradicted", "consistent", "cannot be read")
    )
