"""JUnit XML: a test case per criterion. A fail is a failure; undecided is an error, never a pass.
A run that broke is one case, with an error that says why.

There is no official schema of JUnit's XML; these are the elements and attributes that Jenkins,
GitLab and GitHub's reporters read.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from durometer.gates.decide import Outcome

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcome: Outcome, source: str) -> str:
    """The decisions as a test suite."""
    cases = [(str(d.criterion), d.outcome, str(d)) for d in outcome.decisions]
    claims = outcome.properties
    if claims is not None:
        named = zip(claims.properties, claims.outcomes, claims.answers, strict=True)
        cases += [(str(p), decided, str(a)) for p, decided, a in named]
    return _suite(source, cases)


def broken(why: str, source: str) -> str:
    """A run that broke: nothing is decided, and why."""
    return _suite(source, [("the run", "broken", why)])


def _suite(source: str, cases: list[tuple[str, str, str]]) -> str:
    """Cases are: name, outcome, what is said of it."""
    failed = sum(outcome == "fail" for _, outcome, _ in cases)
    errors = sum(outcome in ("undecided", "broken") for _, outcome, _ in cases)
    suites = Xml.Element("testsuites")
    suite = Xml.SubElement(
        suites, "testsuite", name=_plain(f"durometer gate {source}"), tests=str(len(cases)),
        failures=str(failed), errors=str(errors), skipped="0",
    )  # fmt: skip
    for name, outcome, said in cases:
        case = Xml.SubElement(suite, "testcase", classname="durometer.gate", name=_plain(name))
        if outcome != "pass":
            kind = "failure" if outcome == "fail" else "error"
            Xml.SubElement(case, kind, message=_plain(said), type=outcome)
        Xml.SubElement(case, "system-out").text = _plain(said)
    Xml.indent(suites)
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Without characters that XML cannot hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)
