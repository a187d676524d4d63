"""Documents read by tools that others wrote (requirements/guests.sh documents): signatures by
securesystemslib, statements by in-toto-attestation, JUnit by lxml, the sheet by pypdf."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import durometer as du
from durometer.report.interchange import dsse, facts, intoto

pytestmark = pytest.mark.heavy
WHY = "requirements/guests.sh documents"
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net, data = du.testing.toy()
    job = du.Job(net, data, du.Linf(0.1), attack=du.PGD(10))
    outcome = du.gate(job, ["robust >= 0.01"])
    assert outcome.report is not None
    return outcome.report.save(tmp_path_factory.mktemp("run") / "run")


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_securesystemslib_verifies_our_envelope(folder: Path, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("securesystemslib", reason=WHY, exc_type=ImportError)
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    made = [ed25519.Ed25519PrivateKey.generate() if kind == "ed25519"
            else ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]  # fmt: skip
    pem = made[0].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption())  # fmt: skip
    (tmp_path / "key.pem").write_bytes(pem)
    sealed = json.loads(dsse.envelope(intoto.statement(facts.read(folder)), tmp_path / "key.pem"))
    named = sealed["signatures"][0]["keyid"]
    keys = [SSlibKey.from_crypto(key.public_key(), keyid=named) for key in made]
    found = Envelope.from_dict(json.loads(json.dumps(sealed)))
    assert {*found.verify([keys[0]], 1)} == {named}
    with pytest.raises(VerificationError):
        found.verify([keys[1]], 1)
    found.payload = found.payload.replace(b"PASSED", b"FAILED")
    with pytest.raises(VerificationError):
        found.verify([keys[0]], 1)


def test_published_classes_read_the_statement(folder: Path) -> None:
    pytest.importorskip("in_toto_attestation", reason=WHY, exc_type=ImportError)
    from google.protobuf.json_format import ParseDict
    from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Message

    found = json.loads(intoto.statement(facts.read(folder)))
    Statement.copy_from_pb(ParseDict(found, Message())).validate()
    predicate = ParseDict(found["predicate"], test_result_pb2.TestResult())
    assert predicate.result == "PASSED" and [*predicate.passed_tests] == ["robust >= 0.01"]
    with pytest.raises(ValueError):
        Statement.copy_from_pb(ParseDict({**found, "subject": []}, Message())).validate()


def test_lxml_finds_what_our_reader_of_the_junit_schema_finds(folder: Path) -> None:
    etree = pytest.importorskip("lxml.etree", reason=WHY, exc_type=ImportError)
    from xml.etree import ElementTree as Xml

    from durometer.gates.writers import junit

    sys.path.insert(0, str(Path(__file__).parents[2] / "oracles"))
    import xsd

    sys.path.pop(0)
    theirs, ours = (
        etree.XMLSchema(etree.parse(DATA / "junit-10.xsd")),
        xsd.Schema(DATA / "junit-10.xsd"),
    )
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10), progress=False)
    texts = [junit(du.gate(report, [c]), "gate.toml") for c in
             ("robust >= 0.01", "robust >= 0.99", "robust >= 0.3")]  # fmt: skip
    changes = (
        (' errors="0"', ""), ("<testcase ", "<testcase sort='x' "), ("system-out", "output"),
        ("<testsuite ", "<testsuite time='soon' "), ("<testsuites>", "<testsuites>word"),
    )  # fmt: skip
    spoilt = [texts[0].replace(*change) for change in changes]
    agreed = []
    for text in texts + spoilt:
        valid = theirs.validate(etree.fromstring(text.encode()))
        assert valid == (not ours.wrong(Xml.fromstring(text)))
        agreed.append(valid)
    assert agreed == [True] * 3 + [False] * 5


def test_pypdf_reads_the_sheet(folder: Path) -> None:
    pypdf = pytest.importorskip("pypdf", reason=WHY, exc_type=ImportError)
    pytest.importorskip("matplotlib")
    import io

    from durometer.report.interchange import sheet

    known = facts.read(folder)
    text = " ".join(
        page.extract_text() for page in pypdf.PdfReader(io.BytesIO(sheet.pdf(known))).pages
    )
    words = " ".join(text.split())
    for said in ("robust >= 0.01", "passed", "Signature", known.digest[:16], "du.gate("):
        assert said in words, said
    assert np.isclose(known.decided[0].figure.value, report_value(folder))


def report_value(folder: Path) -> float:
    return float(du.Report.load(folder).metric("robust"))
