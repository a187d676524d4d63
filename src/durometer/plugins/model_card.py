"""A block for a Hugging Face model card: `model-index`, with the interval in words.

The front matter of a README.md (model-index, Hub specification) has a place for a metric's value
and none for its interval, so that stands in the metric's name, where readers see it.
"""

from __future__ import annotations

import json
from typing import Any

from durometer.report.report import Report


def model_card(report: Report, name: str = "", task: str = "image-classification") -> str:
    r"""The front matter of a Hugging Face model card: clean, proven and robust accuracy as a
    `model-index`.

    Args:
        report: The report.
        name: Name of the model on the card. Default: the report's.
        task: The task's name on the Hub.

    Returns:
        The block as YAML, with its `---` lines. The intervals are part of the metrics' names, since
            the format has no field for them.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5))
    >>> print("\n".join(du.model_card(report, "toy").splitlines()[10:13]))
        - type: clean_accuracy
          value: 1.0000
          name: "clean accuracy, 95 % interval 0.806 to 1.000, 16 rows"
    """
    spec = report.spec
    lines = ["---", "model-index:", f"- name: {_text(name or spec.model)}", "  results:",
             "  - task:", f"      type: {_text(task)}", "    dataset:",
             f"      name: {_text(spec.data)}",
             f"      type: {_text(spec.data)}", "    metrics:"]  # fmt: skip
    for key in ("clean", "proven", "robust"):
        if key not in report.shown:
            continue
        title, e = report.shown[key]
        if not e.n:
            continue
        words = f"{title}, 95 % interval {e.low:.3f} to {e.high:.3f}, {e.n} rows"
        if key != "clean":
            words += f", {spec.text('space') or spec.text('noise')}"
        lines += [f"    - type: {key}_accuracy", f"      value: {e.value:.4f}",
                  f"      name: {_text(words)}"]  # fmt: skip
    source = f"durometer {spec.versions.get('durometer', '')}".strip()
    lines += ["    source:", f"      name: {_text(source)}",
              '      url: "https://a-seed-a41e99cf.example/durometer"', "---"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    """A quoted scalar: a JSON string is one in YAML too, whatever it holds."""
    return json.dumps(" ".join(str(value).split()))
