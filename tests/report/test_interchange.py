"""Evidence as in-toto, CycloneDX and OSCAL documents: valid, deterministic, no stronger than it.

CycloneDX and OSCAL are validated against their published schemas (tests/data/README.md). in-toto
publishes no JSON schema: required fields and types are checked by hand, as its specification says.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

import durometer as du
from durometer.core.errors import DurometerError
from durometer.report.evidence import SCOPE
from durometer.report.interchange import cyclonedx, facts, intoto, oscal, sheet
from durometer.report.wording import SIGN_OFF

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)

DATA = Path(__file__).parents[1] / "data"
KINDS = ("images", "table", "nature", "moving", "groups", "quota")
TOLD = {field: f"{field} {pages.HOSTILE}" for field in SCOPE}
WRITERS = {
    "intoto": intoto.statement,
    "cyclonedx": cyclonedx.bom,
    "oscal": oscal.assessment_results,
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[du.Report, Path]]:
    return pages.with_evidence(tmp_path_factory.mktemp("evidence"), TOLD)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, facts.Facts]:
    """Runs with a criterion that passes, fails, and stays open."""
    net, data = du.testing.toy()
    made = {}
    for name, criteria in (
        ("pass", ["robust >= 0.01"]),
        ("fail", ["robust >= 0.01", "robust >= 0.99"]),
        ("undecided", ["robust >= 0.01", "robust >= 0.3"]),
    ):
        job = du.Job(net, data, du.Linf(0.1), attack=du.PGD(10))
        outcome = du.gate(job, criteria)
        assert outcome.outcome == name
        folder = outcome.report.save(tmp_path_factory.mktemp(name))
        made[name] = replace(facts.read(folder), flags=())
    return made


def schema_of(name: str) -> Any:
    with gzip.open(DATA / name) as file:
        return json.load(file)


@pytest.fixture(scope="module")
def bom_schemas() -> dict[str, jsonschema.protocols.Validator]:
    known = schema_of("cyclonedx-schemas.json.gz")
    named = [(name, Resource.from_contents(s)) for name, s in known.items()]
    base = "http://cyclonedx.org/schema/"
    registry = Registry().with_resources([*named, *((base + n, r) for n, r in named)])
    return {
        v: jsonschema.Draft7Validator(known[f"bom-{v}.SNAPSHOT.schema.json"], registry=registry)
        for v in ("1.6", "1.7")
    }


@pytest.fixture(scope="module")
def oscal_schema() -> jsonschema.protocols.Validator:
    schema = schema_of("oscal-assessment-results.json.gz")
    # Python's re knows no \p{..}: letters and digits of any script, in its own words.
    token = schema["definitions"]["TokenDatatype"]
    token["pattern"] = r"^([^\W\d_]|_)([^\W\d_]|\d|[.\-_])*$"
    return jsonschema.Draft7Validator(schema)


def all_facts(saved: dict, gated: dict) -> list[facts.Facts]:
    return [facts.read(saved[kind][1]) for kind in KINDS] + list(gated.values())


def test_cyclonedx_is_valid_as_1_6_and_1_7(saved: dict, gated: dict, bom_schemas: dict) -> None:
    for known in all_facts(saved, gated):
        bom = json.loads(cyclonedx.bom(known))
        assert bom["specVersion"] == "1.7"
        bom_schemas["1.7"].validate(bom)
        bom_schemas["1.6"].validate({**bom, "specVersion": "1.6"})
        metrics = bom["metadata"]["component"]["modelCard"]["quantitativeAnalysis"]
        shown = [f for f in (*known.figures, *known.slices) if f.value is not None]
        assert [float(m["value"]) for m in metrics["performanceMetrics"]] == [
            f.value for f in shown
        ]
    spoilt = json.loads(cyclonedx.bom(known))
    spoilt["metadata"]["component"]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"][0][
        "value"
    ] = 1.0  # a number: the schema wants text
    with pytest.raises(jsonschema.ValidationError):
        bom_schemas["1.7"].validate(spoilt)


def test_oscal_is_valid(saved: dict, gated: dict, oscal_schema: Any) -> None:
    for known in all_facts(saved, gated):
        document = json.loads(oscal.assessment_results(known))
        oscal_schema.validate(document)
        (result,) = document["assessment-results"]["results"]
        assert len(result["observations"]) == len(known.figures) + len(known.slices)
        resources = document["assessment-results"]["back-matter"]["resources"]
        ids = [r["uuid"] for r in resources] + [o["uuid"] for o in result["observations"]]
        assert len({*ids}) == len(ids)
        assert document["assessment-results"]["import-ap"]["href"] == f"#{resources[0]['uuid']}"
    del document["assessment-results"]["import-ap"]
    with pytest.raises(jsonschema.ValidationError):
        oscal_schema.validate(document)


def test_a_criterion_is_satisfied_only_where_it_passed(gated: dict) -> None:
    found = {}
    for name, known in gated.items():
        (result,) = json.loads(oscal.assessment_results(known))["assessment-results"]["results"]
        found[name] = [f["target"]["status"]["state"] for f in result["findings"]]
    assert found == {
        "pass": ["satisfied"],
        "fail": ["satisfied", "not-satisfied"],
        "undecided": ["satisfied", "not-satisfied"],
    }


def check_statement(found: Any) -> None:
    """What the specification asks of a Statement v1 with a Test Result v0.1."""
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert {*found} == {"_type", "subject", "predicateType", "predicate"}
    for one in (*found["subject"], *found["predicate"]["configuration"]):
        assert isinstance(one["name"], str) and one["name"]
        assert re.fullmatch("[0-9a-f]{64}", one["digest"]["sha256"])
        assert {*one} <= {"name", "digest", "annotations"}
    names = [one["name"] for one in found["subject"]]
    assert names and len({*names}) == len(names)
    predicate = found["predicate"]
    assert predicate["result"] in ("PASSED", "WARNED", "FAILED")
    assert predicate["configuration"]
    for key in ("passedTests", "warnedTests", "failedTests"):
        assert all(isinstance(test, str) for test in predicate[key])


def test_statements_are_as_specified_and_cover_every_file(saved: dict, gated: dict) -> None:
    for known in all_facts(saved, gated):
        found = json.loads(intoto.statement(known))
        check_statement(found)
        names = {one["name"] for one in found["subject"]}
        assert names >= {f"run/{n}" for n in (*known.files, "evidence.json")}


def test_a_result_is_no_stronger_than_the_decision(gated: dict) -> None:
    predicates = {n: json.loads(intoto.statement(k))["predicate"] for n, k in gated.items()}
    assert {n: p["result"] for n, p in predicates.items()} == {
        "pass": "PASSED", "fail": "FAILED", "undecided": "WARNED",
    }  # fmt: skip
    assert predicates["undecided"]["warnedTests"] == ["robust >= 0.3"]
    assert predicates["fail"]["failedTests"] == ["robust >= 0.99"]
    doubt = (facts.Notice("labels-only", "warning", "..."),)
    doubted = json.loads(intoto.statement(replace(gated["pass"], flags=doubt)))["predicate"]
    assert doubted["result"] == "WARNED" and doubted["warnedTests"] == ["flag: labels-only"]
    bare = replace(gated["pass"], decided=(), decision="none: no criterion was fixed beforehand")
    predicate = json.loads(intoto.statement(bare))["predicate"]
    assert predicate["result"] == "WARNED"
    assert predicate["warnedTests"] == ["no criterion was fixed beforehand"]
    gone = facts.Decided("robust no lower than runs/main by more than 0.02", "none: no such run")
    lost = replace(gated["pass"], decided=(gone,), decision="none: no such run")
    assert json.loads(intoto.statement(lost))["predicate"]["result"] == "WARNED"


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_run_gives_the_same_bytes(saved: dict, name: str) -> None:
    for kind in KINDS:
        folder = saved[kind][1]
        first, again = (WRITERS[name](facts.read(folder)) for _ in range(2))
        assert first == again and first.isascii() and first.endswith("}\n")
        assert str(folder) not in first


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("scope", "date"), "yesterday"),
        (("scope", "rows"), -1),
        (("figures",), {}),
        (("figures", 0, "value"), "high"),
        (("figures", 0, "n"), True),
        (("integrity", "files"), {"records.parquet": "abc"}),
        (("integrity", "sources"), {"model/x": "A" * 64}),
        (("limits", "flags"), [{"id": 3}]),
        (("criterion", "decision"), None),
        (("digest",), "0"),
    ],
)
def test_a_spoilt_document_is_refused(saved: dict, tmp_path: Path, path: tuple, value: Any) -> None:
    found = json.loads((saved["images"][1] / "evidence.json").read_text())
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (tmp_path / "evidence.json").write_text(json.dumps(found))
    with pytest.raises(DurometerError):
        facts.read(tmp_path)


def sheet_texts(known: facts.Facts) -> str:
    """What is drawn on the pages, and that nothing is drawn beside them."""
    drawn = sheet._Pages()
    sheet._filled(drawn, known)
    lines = [t for drawing in drawn.drawings for t in drawing.texts]
    assert all(sheet.BOTTOM <= t.get_position()[1] <= sheet.TOP for t in lines)
    for drawing in drawn.drawings:
        widest = max(t.get_window_extent().x1 for t in drawing.texts)
        assert widest <= drawing.bbox.width
    return " ".join(t.get_text() for t in lines)


def test_the_sheet_holds_limit_result_figures_sign_off_and_command(gated: dict) -> None:
    for name, known in gated.items():
        text = sheet_texts(known)
        for d in known.decided:
            assert f"{d.criterion}: {sheet.IN_WORDS[d.outcome]}" in text
        assert f"As a whole: {sheet.IN_WORDS[name]}." in text
        for figure in known.figures:
            assert figure.title in text and f"n = {figure.n:,}" in text
        assert known.repeat[:40] in text and known.sha256 in text
        assert all(said in text for said in SIGN_OFF)
        assert all(threat[:60] in text for threat in known.untested)


def test_a_sheet_is_no_stronger_than_its_run(gated: dict) -> None:
    doubt = (facts.Notice("labels-only", "warning", "asked for labels"),)
    text = sheet_texts(replace(gated["pass"], flags=doubt))
    assert "warnings that make it doubtful" in text and "asked for labels" in text
    assert "doubtful" not in sheet_texts(gated["pass"])
    bare = replace(gated["pass"], decided=(), decision="none: no criterion was fixed beforehand")
    text = sheet_texts(bare)
    assert "this run decides nothing" in text and "passed" not in text


def test_sheets_are_pdf_and_the_same_bytes_whatever_they_hold(saved: dict, gated: dict) -> None:
    for known in all_facts(saved, gated):
        made = sheet.pdf(known)
        assert made == sheet.pdf(known)
        assert made.startswith(b"%PDF-1.") and made.rstrip().endswith(b"%%EOF")
        assert b"CreationDate" not in made
    strange = {**known.scope, "model": "$\\frac{1}$ \u4f60 \x07 " + 400 * "x", "notes": 9000 * "y "}
    text = sheet_texts(replace(known, scope=strange))
    assert "$\\frac{1}$ \ufffd" in text
    assert sheet.pdf(replace(known, scope=strange)).count(b"/Type /Page ") > 1
