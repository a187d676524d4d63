"""Reports: metrics as views of records, statistics, pitfall flags; and who draws their pages."""

from typing import Any

from durometer.report.drawing import DRAWN_BY


def _report(report: Any) -> str:
    from durometer.report.page.page import page  # late: most runs are read as text

    return page(report)


def _sweep(sweep: Any) -> str:
    from durometer.report.page.sweep import page

    return page(sweep)


def _evidence(evidence: Any) -> str:
    from durometer.report.page.evidence import page

    return page(evidence)


DRAWN_BY.update(Report=_report, Sweep=_sweep, Evidence=_evidence)
