"""The evidence of a run as a page to print: seven groups and a sign-off, no script needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from durometer.report.page.section import Section, draw, render, table
from durometer.report.wording import SIGN_OFF

if TYPE_CHECKING:
    from durometer.report.evidence import Content, Evidence

_NOTE = "This document states what was measured and how. It is no legal advice and no certificate."


def page(evidence: Evidence) -> str:
    """The whole document."""
    c = evidence.content
    scope = c["scope"]
    model = scope["model"] or scope["model evaluated"]
    sections = (
        Section("scope", "1 Scope", _pairs(scope), "Fields in brackets were left empty.",
                wide=False),
        Section("threat", "2 Threat", _pairs(c["threat"]), wide=False),
        Section("criterion", "3 Criterion and decision", _criterion(c["criterion"])),
        Section("figures", "4 Figures and methods", _figures(c["figures"]),
                "Method classes as in ISO/IEC TR 24029-1; intervals are 95 %."),
        Section("slices", "5 Worst slices", _slices(c["slices"]),
                "Intervals are widened so that all of them hold at once (Bonferroni).", wide=False),
        Section("limits", "6 Limits", _limits(c["limits"]), wide=False),
        Section("integrity", "7 Integrity", _integrity(c["integrity"])),
        Section("sign-off", "Sign-off", table(("", "to be filled in"), ((n, "") for n in SIGN_OFF)),
                wide=False),
    )  # fmt: skip
    title = f"Evidence: robustness of {model} on {scope['data evaluated']}"
    return render(title, title, _NOTE, sections)


def _pairs(given: Mapping[str, object], *without: str) -> Markup:
    return table(("field", "value"), ((k, _said(v)) for k, v in given.items() if k not in without))


def _said(value: object) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value)) or "none"
    return "(empty)" if value in ("", None) else str(value)


def _number(e: Content) -> tuple[str, str, str]:
    if e["value"] is None:
        return "-", "-", str(e["n"])
    return f"{e['value']:.4g}", f"{e['low']:.4g} to {e['high']:.4g}", str(e["n"])


def _criterion(c: Content) -> Markup:
    given, body = c.get("decisions", ()), _pairs(c, "decisions")
    head = ("criterion", "decision", "figure", "95 % interval", "rows", "decided after row",
            "open rows")  # fmt: skip
    rows = [(d["criterion"], d["outcome"], *_number(d), str(d.get("decided after row", "-")),
             str(d["open"])) for d in given]  # fmt: skip
    apart = [(d["criterion"], d["not in both runs"]) for d in given if "not in both runs" in d]
    body += table(head, rows) if rows else ""
    return body + (table(("criterion", "not in both runs"), apart) if apart else "")


def _figures(given: list[Content]) -> Markup:
    head = ("figure", "value", "95 % interval", "rows", "method", "what it promises")
    return table(head, ((f["title"], *_number(f), f["method"], f["promise"]) for f in given))


def _slices(given: list[Content]) -> Markup:
    if not given:
        return draw("sentence", "There is only one slice with enough rows.")
    looked = draw("sentence", f"{given[0]['slices looked at']} slices were looked at.")
    head = ("slice", "robust", "interval", "rows")
    return looked + table(head, ((s["slice"], *_number(s)) for s in given))


def _limits(given: Content) -> Markup:
    flags = [(f["level"], f["id"], f["text"]) for f in given["flags"]]
    told = table(("level", "flag", "what it says"), flags) if flags else ""
    untested = table(("threats not tested",), ((t,) for t in given["threats not tested"]))
    return _pairs(given, "flags", "threats not tested") + told + untested


def _integrity(given: Content) -> Markup:
    versions = {f"version of {k}": v for k, v in given["versions"].items()}
    kept = table(("file", "SHA-256"), {**given["sources"], **given["files"]}.items())
    return _pairs({**given, **versions}, "files", "sources", "versions") + kept
