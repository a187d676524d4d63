"""JUnit XML: a test case per criterion. A fail is a failure; undecided is an error, never a pass.

There is no official schema of JUnit's XML; these are the elements and attributes that Jenkins,
GitLab and GitHub's reporters read.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from assay.gates.decide import Outcome

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcome: Outcome, source: str) -> str:
    """The decisions as a test suite."""
    count = {k: str(sum(d.outcome == k for d in outcome.decisions)) for k in ("fail", "undecided")}
    suites = Xml.Element("testsuites")
    suite = Xml.SubElement(
        suites, "testsuite", name=_plain(f"assay gate {source}"),
        tests=str(len(outcome.decisions)), failures=count["fail"], errors=count["undecided"],
        skipped="0",
    )  # fmt: skip
    for d in outcome.decisions:
        case = Xml.SubElement(
            suite, "testcase", classname="assay.gate", name=_plain(str(d.criterion))
        )
        if d.outcome != "pass":
            kind = "failure" if d.outcome == "fail" else "error"
            Xml.SubElement(case, kind, message=_plain(str(d)), type=d.outcome)
        Xml.SubElement(case, "system-out").text = _plain(str(d))
    Xml.indent(suites)
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Without characters that XML cannot hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)
