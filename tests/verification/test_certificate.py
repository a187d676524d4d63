"""Proofs of trees are checked by their certificates; whatever is changed in one is refused."""

import zlib

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from tests.oracles.tampering import forge, numbers, tampers
from xgboost import XGBClassifier

import durometer as du
from durometer.core import serialization
from durometer.proofs.search.decide import pack_certificate
from durometer.report.report import Report
from durometer.trees import read
from durometer.verification.assumptions import around
from durometer.verification.certificate import check, constraints
from durometer.verification.domain import Refused

SCHEMA = du.Schema(
    [
        du.Feature("a", "integer", 0, 12),
        du.Feature("b", "integer", 0, 12),
        du.Feature("c", "real", 0.1, 4.0),
        du.Feature("d", "real", 0.5, 4.0),
        du.Feature("k", "category", values=("u", "v", "w")),
    ],
    ["a + b <= 14", "if a > 6 then b > 1", "c * d <= 9", "if k == 'u' then a <= 9"],
)


def table(seed, rows=500):
    rng = np.random.default_rng(seed)
    numbers = [rng.integers(0, 8, rows), rng.integers(2, 7, rows), 0.6 + 2 * rng.random(rows)]
    x = np.stack([*numbers, 1 + 3 * rng.random(rows), rng.integers(0, 3, rows)], axis=1)
    y = (x[:, 0] + 2 * x[:, 2] - x[:, 3] + (x[:, 4] == 1) > 5).astype(int)
    return x.astype(float), y


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    x, y = table(0)
    model = XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1).fit(x, y)
    data = du.Dataset(x[:60], y[:60], schema=SCHEMA)
    space = SCHEMA.space(eps=0.12, p=2)
    report = du.evaluate(model, data, space=space, attack=du.Exact(certificates=True))
    folder = report.save(tmp_path_factory.mktemp("proofs") / "run")
    return model, data, space, report, folder


def rows(report):
    kept = report.records.certificates
    return [i for i in range(len(kept)) if kept[i] is not None]


def row(made, i, y=None):
    _, data, space, *_ = made
    y = int(data.y[i]) if y is None else y
    return around(serialization.to_dict(space), SCHEMA, data.x[i].numpy(), np.arange(2) != y, False)


def refused(certificate, trees, said):
    try:
        check(certificate, trees, said.row)
    except Refused:
        return True
    return not all(said.implies(claim) for claim in constraints(certificate))


def test_every_proof_is_checked_when_a_run_is_verified(made):
    model, data, _, report, folder = made
    found = du.verify(folder, model, data)
    proven = int((report.table["verdict"] == "proven").sum())
    assert found, str(found)
    assert found.checked["proofs"] == proven == len(rows(report)) > 10
    again = Report.load(folder).records.certificates
    assert [c for c in again] == [c for c in report.records.certificates]


def test_a_run_that_keeps_certificates_finds_what_it_found_before(made):
    model, data, space, report, _ = made
    plain = du.evaluate(model, data, space=space, attack=du.Exact())
    assert list(plain.table["verdict"]) == list(report.table["verdict"])
    assert plain.records.certificates is None


def test_certificates_survive_chunks_and_resuming(made, tmp_path):
    model, data, space, report, _ = made
    asked = {"space": space, "attack": du.Exact(certificates=True), "batch": 25}
    kept = du.evaluate(model, data, run=du.Run(tmp_path / "run"), **asked)
    again = du.evaluate(model, data, run=du.Run(tmp_path / "run", resume=True), **asked)
    for other in (kept, again):
        assert [c for c in other.records.certificates] == [c for c in report.records.certificates]


def test_a_forged_run_is_refused_and_its_rows_are_named(made, tmp_path):
    model, data, _, report, _ = made
    columns = {k: v.copy() for k, v in report.records.columns.items()}
    broken = int(np.flatnonzero(columns["success"] & (columns["clean"] == columns["y"]))[0])
    kept, x = report.records.certificates.copy(), report.adversarial.copy()
    trees = read(model)
    kept[broken] = forge(kept[rows(report)[0]], data.x[broken].numpy(), trees)
    columns["verdict"][broken], columns["success"][broken] = "proven", False
    x[broken], columns["final"][broken] = data.x[broken].numpy(), columns["clean"][broken]
    records = type(report.records)(columns, x, kept)
    folder = Report(report.spec, records, report.flags).save(tmp_path / "run")
    found = du.verify(folder, model, data)
    assert [f.kind for f in found.findings] == ["proof"]
    assert found.findings[0].rows == (columns["id"][broken],)


def test_another_row_another_model_and_another_goal_are_refused(made):
    model, data, _, report, _ = made
    trees = read(model)
    other = read(XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(*table(1)))
    a, b = rows(report)[:2]
    certificate = report.records.certificates[a]
    assert not refused(certificate, trees, row(made, a))
    assert refused(certificate, trees, row(made, b))
    assert refused(certificate, other, row(made, a))
    assert refused(certificate, trees, row(made, a, y=1 - int(data.y[a])))


def test_tampered_certificates_are_refused(made):
    model, _, _, report, _ = made
    trees = read(model)
    asked = 0
    for i in rows(report)[:6]:
        said, rng = row(made, i), np.random.default_rng(i)
        assert said.complete
        for name, changed in tampers(report.records.certificates[i], said.row.x0, rng):
            assert refused(pack_certificate(changed), trees, said), (i, name)
            asked += 1
    assert asked >= 24


def test_what_is_no_certificate_is_refused(made):
    model, _, _, report, _ = made
    trees, i = read(model), rows(report)[0]
    right = numbers(report.records.certificates[i])
    for wrong in (b"", b"nothing", zlib.compress(b"12345"), pack_certificate(right[:-1]),
                  pack_certificate(right[:3]), pack_certificate(np.append(right, 0.0)),
                  pack_certificate(np.full(40, np.nan))):  # fmt: skip
        with pytest.raises(Refused):
            check(wrong, trees, row(made, i).row)


@pytest.mark.parametrize("space", [du.Linf(0.05), du.L2(0.08), du.L1(0.1), du.L0(1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_balls_and_several_classes(space, dtype, tmp_path):
    rng = np.random.default_rng(3)
    x = rng.random((400, 4)).astype(dtype)
    y = np.clip((x > 0.4).sum(1) - 1, 0, 2)
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(x, y)
    data = du.Dataset(x[:60], y[:60])
    report = du.evaluate(model, data, space=space, attack=du.Exact(certificates=True))
    assert len(rows(report)) == int((report.table["verdict"] == "proven").sum()) > 3
    found = du.verify(report.save(tmp_path / "run"), model, data)
    assert found and found.checked["proofs"] == len(rows(report)), str(found)
