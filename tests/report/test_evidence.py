"""Evidence of a run of every kind: seven groups filled, nothing asked for, hostile names inert."""

from __future__ import annotations

import hashlib
import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import durometer as du
from durometer.report.evidence import GROUPS, SCOPE, document

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)

KINDS = ("images", "table", "nature", "moving", "groups", "quota")
TOLD = {field: f"{field} {pages.HOSTILE}" for field in SCOPE}


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[du.Report, Path]]:
    return pages.with_evidence(tmp_path_factory.mktemp("evidence"), TOLD)


@pytest.mark.parametrize("kind", KINDS)
def test_all_seven_groups_are_filled(saved: dict, kind: str) -> None:
    report, folder = saved[kind]
    found = json.loads((folder / "evidence.json").read_text())
    assert tuple(k for k in found if k in GROUPS) == GROUPS
    assert all(found["scope"][field] == TOLD[field] for field in SCOPE)
    assert all(found["threat"].get(k) for k in ("goal", "capability", "knowledge", "stage"))
    assert found["criterion"]["decision"]
    assert found["figures"] and all(f["method"] and f["promise"] for f in found["figures"])
    assert all(
        f["low"] <= f["value"] <= f["high"] for f in found["figures"] if f["value"] is not None
    )
    assert found["limits"]["threats not tested"] and found["limits"]["rows"] == len(report.records)
    assert found["integrity"]["files"] and found["integrity"]["versions"]
    for name, digest in found["integrity"]["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_worst_slices_have_intervals_for_all_of_them_at_once(saved: dict) -> None:
    for kind in ("images", "groups", "moving"):
        report, folder = saved[kind]
        slices = json.loads((folder / "evidence.json").read_text())["slices"]
        assert slices and slices[0]["slices looked at"] >= len(slices)
        worst = min(slices, key=lambda s: s["value"])
        alone = min(report.metric("robust", by="y").values(), key=lambda e: e.value)
        assert worst["high"] - worst["low"] >= alone.high - alone.low - 1e-9


THREATS = {
    "images": ("evasion, untargeted", "within Linf", "white-box"),
    "table": ("evasion, untargeted", "within TableSpace", "black-box"),
    "nature": ("none: nobody attacks", "none: nobody attacks", "none: nobody attacks"),
    "moving": ("evasion", "of each batch that the defender adapts on", "white-box"),
    "groups": ("targeted", "testing data control", "white-box"),
    "quota": ("several distinct impersonations", "testing data control", "white-box"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_threat_is_derived_from_the_axes(saved: dict, kind: str) -> None:
    threat = json.loads((saved[kind][1] / "evidence.json").read_text())["threat"]
    for field, words in zip(("goal", "capability", "knowledge"), THREATS[kind], strict=True):
        assert words in threat[field], (field, threat[field])


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_asks_for_nothing_and_runs_nothing(saved: dict, kind: str) -> None:
    page = (saved[kind][1] / "evidence.html").read_text()
    reader = Reader(page)
    assert pages.HOSTILE in reader.text and "no legal advice" in reader.text
    assert [t for t, _ in reader.tags].count("script") == 1  # the page's own, by its hash
    assert "default-src 'none'" in page
    for tag, attrs in reader.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form"), tag
        assert not any(n.startswith("on") or n in ("style", "src") for n in attrs), (tag, attrs)
        assert (attrs.get("href") or "#").startswith("#")
    for number in range(1, 8):
        assert any(f"{number} " in line for line in reader.text.splitlines())
    assert "Sign-off" in reader.text and "Signature" in reader.text


def test_under_noise_the_words_are_about_noise_and_the_counts_about_records(saved: dict) -> None:
    found = json.loads((saved["nature"][1] / "evidence.json").read_text())
    assert "noise" in found["threat"]["in words"] and "wins" not in found["threat"]["in words"]
    assert found["limits"]["records that keep their answer with probability 0.99 or more"] > 0
    assert "broken rows" not in found["limits"]


def test_empty_fields_are_shown_as_empty() -> None:
    page = Reader(pages.drawn(document(pages.images(), {}))).text
    assert page.count("(empty)") == len(SCOPE)
    assert "no criterion was fixed beforehand" in page
