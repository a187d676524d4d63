"""The evidence of a run for whoever must rely on it: evidence.json, evidence.html."""

from durometer.report.evidence.document import SCOPE, Evidence, document

__all__ = ["SCOPE", "Evidence", "document"]
