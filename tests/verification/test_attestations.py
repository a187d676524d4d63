"""`verify --attestation`: a changed byte in model, data, run or statement is found, offline.

The oracle of signatures is the openssl command: it checks ours, and makes one that we check.
"""

from __future__ import annotations

import base64
import copy as copy_module
import hashlib
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import durometer as du
from durometer.cli import app
from durometer.report.interchange import dsse

RUN = """
[data]
path = "rows.csv"
label = "paid"
[model]
path = "loans.joblib"
[space]
type = "Linf"
eps = 0.05
[attack]
type = "Square"
queries = 20
[gate]
criteria = ["robust >= 0.2"]
"""
KEYS = {
    "ed25519": ["-algorithm", "ed25519"],
    "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
}


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its rows, a run, and an unsigned attestation."""
    place = tmp_path_factory.mktemp("attested")
    x = np.random.default_rng(0).random((60, 4)).round(3)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(paid=(x.sum(1) > 2).astype(int))
    frame.to_csv(place / "rows.csv", index=False)
    fitted = LogisticRegression(C=100).fit(x, frame["paid"])
    joblib.dump(fitted, place / "loans.joblib")
    (place / "run.toml").write_text(RUN)
    assert call("gate", place / "run.toml", "--out", place / "run", "-q").exit_code == 0
    done = call("export", place / "run", "--format", "intoto", "--out", place / "a.json")
    assert done.exit_code == 0, done.output
    return place


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def check(place: Path, *more: object, file: str = "a.json") -> Any:
    files = ("--model", place / "loans.joblib", "--data", place / "rows.csv")
    return call("verify", place / "run", "--attestation", place / file, *files, *more)


def flip(file: Path, at: int) -> None:
    written = bytearray(file.read_bytes())
    written[at] ^= 1 << (at % 7)
    file.write_bytes(bytes(written))


def test_an_untouched_run_is_verified(made: Path) -> None:
    done = check(made)
    assert done.exit_code == 0 and "not signed" in done.output, done.output


def test_what_is_not_named_is_not_called_verified(made: Path) -> None:
    done = call("verify", made / "run", "--attestation", made / "a.json")
    assert done.exit_code == 3
    assert "model/loans.joblib: name the file with --model" in done.output
    rows = ("--data", made / "rows.csv")
    done = call("verify", made / "run", "--attestation", made / "a.json", *rows)
    assert done.exit_code == 3 and "data/rows.csv" not in done.output


def test_sha256_is_of_the_files_themselves(made: Path) -> None:
    found = json.loads((made / "a.json").read_text())
    known = {one["name"]: one["digest"]["sha256"] for one in found["subject"]}
    files = {"model/loans.joblib": made / "loans.joblib", "data/rows.csv": made / "rows.csv"}
    files |= {n: made / n for n in known if n.startswith("run/")}
    assert {*known} == {*files} and "run/records.parquet" in known
    assert known == {n: hashlib.sha256(f.read_bytes()).hexdigest() for n, f in files.items()}


def test_a_file_may_have_another_name_where_it_is_checked(copy: Path) -> None:
    (copy / "loans.joblib").rename(copy / "renamed.joblib")
    files = ("--model", copy / "renamed.joblib", "--data", copy / "rows.csv")
    done = call("verify", copy / "run", "--attestation", copy / "a.json", *files)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["loans.joblib", "rows.csv", "run/records.parquet",
                                  "run/evidence.json", "run/spec.json", "run/adversarial.npz",
                                  "run/config.toml", "run/report.html"])  # fmt: skip
def test_a_changed_byte_of_a_file_is_found(copy: Path, name: str) -> None:
    file = copy / name
    whole = file.read_bytes()
    draw = random.Random(name)
    for at in {0, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(4))}:
        flip(file, at)
        done = check(copy)
        assert done.exit_code in (1, 4), (at, done.output)
        assert "attestation:" in done.output
        file.write_bytes(whole)
    assert check(copy).exit_code == 0


def test_a_changed_byte_of_a_statement_is_found(copy: Path) -> None:
    whole = (copy / "a.json").read_bytes()
    draw = random.Random(0)
    for at in {0, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(60))}:
        flip(copy / "a.json", at)
        found = du.verify(copy / "run", attestation=copy / "a.json")
        assert found.status == "contradicted", at
        (copy / "a.json").write_bytes(whole)


def test_another_result_is_named(copy: Path) -> None:
    text = (copy / "a.json").read_text()
    assert text.count('"PASSED"') == 1
    (copy / "a.json").write_text(text.replace('"PASSED"', '"FAILED"'))
    found = du.verify(copy / "run", attestation=copy / "a.json")
    assert "predicate.result: 'FAILED' attested, 'PASSED' in the run" in str(found)


def test_nothing_is_loaded_from_a_file_that_is_not_attested(copy: Path) -> None:
    told = copy / "told"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (told,)

    joblib.dump(Trap(), copy / "loans.joblib")
    done = check(copy)
    assert done.exit_code == 1 and "the file of the model is not the attested one" in done.output
    assert not told.exists()


def test_names_of_a_statement_are_no_paths(copy: Path) -> None:
    found = json.loads((copy / "a.json").read_text())
    secret = copy / "secret"
    secret.write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()
    for name in ("run/../secret", str(secret), "run/" + str(secret), "../secret"):
        spoilt = {**found, "subject": [{"name": name, "digest": {"sha256": digest}}]}
        (copy / "b.json").write_text(json.dumps(spoilt, indent=1) + "\n")
        out = du.verify(copy / "run", attestation=copy / "b.json")
        assert out.status == "contradicted" and "is no file of a run" in str(out)
        assert out.checked["attested files"] == 0


def test_a_link_in_the_run_is_not_followed(copy: Path) -> None:
    shutil.move(copy / "run" / "records.parquet", copy / "elsewhere.parquet")
    (copy / "run" / "records.parquet").symlink_to(copy / "elsewhere.parquet")
    assert check(copy).exit_code in (1, 2, 4)


def test_what_cannot_be_an_attestation_is_said(made: Path, tmp_path: Path) -> None:
    gone = call("verify", made / "run", "--attestation", tmp_path / "none.json")
    assert gone.exit_code == 2 and "no such file" in gone.output
    for text in ("", "[]\n", "{}\n", "[" * 3000, '{"payload": 1}', "\udcff"):
        (tmp_path / "x.json").write_text(text, errors="surrogateescape")
        assert du.verify(made / "run", attestation=tmp_path / "x.json").status == "contradicted"


def test_nothing_is_exported_of_a_run_that_was_changed(copy: Path) -> None:
    flip(copy / "run" / "records.parquet", 100)
    for kind in ("intoto", "cyclonedx", "oscal", "pdf"):
        done = call("export", copy / "run", "--format", kind, "--out", copy / "new.json")
        assert done.exit_code == 2 and not (copy / "new.json").exists()


def test_exports_are_the_same_bytes_and_keep_the_run_verified(copy: Path) -> None:
    for kind, name in (("intoto", "attestation.json"), ("cyclonedx", "bom.cdx.json"),
                       ("oscal", "assessment-results.json"), ("pdf", "evidence.pdf")):  # fmt: skip
        assert call("export", copy / "run", "--format", kind).exit_code == 0
        first = (copy / "run" / name).read_bytes()
        assert call("export", copy / "run", "--to", kind).exit_code == 0
        assert (copy / "run" / name).read_bytes() == first
        assert str(copy).encode() not in first
    assert (copy / "run" / "attestation.json").read_bytes() == (copy / "a.json").read_bytes()
    assert check(copy).exit_code == 0


def test_a_run_of_python_names_no_file_of_its_model(tmp_path: Path) -> None:
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5))
    folder = report.save(tmp_path / "run")
    done = call("export", folder, "--format", "intoto", "--out", tmp_path / "a.json")
    assert "names no file of the model" in done.output
    assert report.spec.model_hash in (tmp_path / "a.json").read_text()
    found = du.verify(folder, net, data, attestation=tmp_path / "a.json")
    assert found.status == "verified"
    other = copy_module.deepcopy(net)
    next(iter(other.parameters())).data += 0.01
    found = du.verify(folder, other, data, attestation=tmp_path / "a.json")
    assert "model" in [f.kind for f in found.findings]


# Signatures


@pytest.fixture(scope="module", params=list(KEYS))
def keys(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    place = tmp_path_factory.mktemp(request.param)
    for name in ("key", "other"):
        pem = str(place / f"{name}.pem")
        subprocess.run(["openssl", "genpkey", *KEYS[request.param], "-out", pem], check=True)
        public = ["-pubout", "-out", str(place / f"{name}.pub")]
        subprocess.run(["openssl", "pkey", "-in", pem, *public], check=True)
    return place


def signed(copy: Path, keys: Path) -> Path:
    pytest.importorskip("cryptography")
    file = copy / "signed.json"
    words = ("--format", "intoto", "--sign", keys / "key.pem", "--out", file)
    done = call("export", copy / "run", *words)
    assert done.exit_code == 0, done.output
    return file


def test_a_signature_is_checked(copy: Path, keys: Path) -> None:
    signed(copy, keys)
    done = check(copy, "--key", keys / "key.pub", file="signed.json")
    assert done.exit_code == 0, done.output
    done = check(copy, "--key", keys / "other.pub", file="signed.json")
    assert done.exit_code == 1 and "signature" in done.output
    done = check(copy, file="signed.json")
    assert done.exit_code == 3 and "give the public key" in done.output
    done = check(copy, "--key", keys / "key.pub")
    assert done.exit_code == 1 and "not signed" in done.output


def test_a_changed_byte_of_an_envelope_is_found(copy: Path, keys: Path) -> None:
    file = signed(copy, keys)
    whole, draw = file.read_bytes(), random.Random(1)
    tail = range(len(whole) - 260, len(whole))  # key id and signature
    for at in {*(draw.randrange(len(whole)) for _ in range(30)), *draw.sample(tail, 30)}:
        flip(file, at)
        found = du.verify(copy / "run", attestation=file, key=keys / "key.pub")
        assert found.status == "contradicted", at
        file.write_bytes(whole)


def test_a_statement_forged_with_its_whole_run_is_found_by_the_key(copy: Path, keys: Path) -> None:
    """Everything is made anew and agrees with itself, but for the signature."""
    file = signed(copy, keys)
    envelope = json.loads(file.read_text())
    text = base64.b64decode(envelope["payload"]).decode().replace('"PASSED"', '"WARNED"')
    envelope["payload"] = base64.b64encode(text.encode()).decode()
    file.write_text(json.dumps(envelope, indent=1) + "\n")
    found = du.verify(copy / "run", attestation=file, key=keys / "key.pub")
    assert any("signature" in f.text for f in found.findings)


def test_openssl_agrees(copy: Path, keys: Path, tmp_path: Path) -> None:
    """The command checks our signature, and we check one that the command made."""
    envelope = json.loads(signed(copy, keys).read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = b"application/vnd.in-toto+json"
    (tmp_path / "pae").write_bytes(
        b"DSSEv1 " + b"28 " + kind + b" " + str(len(payload)).encode() + b" " + payload
    )
    assert len(kind) == 28 and envelope["payloadType"].encode() == kind
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw = ["-rawin"] + (["-digest", "sha256"] if "ecdsa" in keys.name else [])
    base = ["openssl", "pkeyutl", *raw, "-in", str(tmp_path / "pae")]
    public = [
        "-verify",
        "-pubin",
        "-inkey",
        str(keys / "key.pub"),
        "-sigfile",
        str(tmp_path / "sig"),
    ]
    subprocess.run([*base, *public], check=True, capture_output=True)
    theirs = [*base, "-sign", "-inkey", str(keys / "key.pem"), "-out", str(tmp_path / "sig2")]
    subprocess.run(theirs, check=True, capture_output=True)
    sig = base64.b64encode((tmp_path / "sig2").read_bytes()).decode()
    envelope["signatures"][0]["sig"] = sig
    (copy / "theirs.json").write_text(json.dumps(envelope, indent=1) + "\n")
    assert check(copy, "--key", keys / "key.pub", file="theirs.json").exit_code == 0


def test_keys_that_will_not_do_are_refused_by_name(made: Path, keys: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    export = ("export", made / "run", "--format", "intoto", "--out", tmp_path / "x", "--sign")
    run = ("openssl", "genpkey", "-algorithm", "RSA", "-out", str(tmp_path / "rsa.pem"))
    subprocess.run(run, check=True, capture_output=True)
    (tmp_path / "no.pem").write_text("nothing")
    wrong = {tmp_path / "rsa.pem": "expected ed25519", tmp_path / "no.pem": "no private",
             tmp_path / "gone.pem": "cannot be read", keys / "key.pub": "no private"}  # fmt: skip
    for file, said in wrong.items():
        done = call(*export, file)
        assert done.exit_code == 2 and said in done.output, done.output
    assert not (tmp_path / "x").exists()
    done = call("verify", made / "run", "--attestation", made / "a.json", "--key", keys / "key.pem")
    assert done.exit_code == 2 and "no public key" in done.output
    done = call("verify", made / "run", "--key", keys / "key.pub")
    assert done.exit_code == 2 and "without an attestation" in done.output
    assert call("export", made / "run", "--to", "csv", "--sign", keys / "key.pem").exit_code == 2


def test_without_cryptography_it_says_what_to_install(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [n for n in sys.modules if n.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(du.Unsupported, match="durometer\\[sign\\]"):
        dsse.envelope("{}", tmp_path / "key.pem")
    with pytest.raises(du.Unsupported, match="durometer\\[sign\\]"):
        du.verify(made / "run", attestation=made / "a.json", key=tmp_path / "key.pub")
