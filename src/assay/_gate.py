"""gate(): does a model clear the bounds that were set for it? Decided while it is being played.

Rows are played in random order and the run stops as soon as the evidence suffices (`gates`): a
model that is far from its bound is decided after a few chunks. What cannot stop early (a defender
whose rounds build on each other) is played to its end and decided then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay._evaluate import evaluate
from assay.config.config import Config, read
from assay.data import Dataset
from assay.errors import AssayError
from assay.games.static import as_game
from assay.gates.criterion import Criterion
from assay.gates.decide import Outcome, Watch, decide
from assay.parquet import Parquet
from assay.report.report import Report
from assay.run.run import Run

BATCH = 64  # rows between two looks, unless the file says otherwise
Criteria = Sequence[Criterion | str] | str


def gate(
    what: Report | Config | str | Path,
    criteria: Criteria | None = None,
    *,
    alpha: float | None = None,
    run: Run | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Pass, fail or undecided, wrong in at most `alpha` of such decisions, whenever it stops.

    `what` is a report, the folder of one, or a run file (a `Config`), which is then played as far
    as it is needed. `criteria` and `alpha` are the file's [gate] unless given.

    >>> import assay as ay
    >>> net, data = ay.testing.toy()
    >>> report = ay.evaluate(net, data, space=ay.Linf(0.1), attack=ay.PGD(10))
    >>> print(ay.gate(report, "robust >= 0.95"))
    gate: fail (wrong in at most 5% of such decisions, whenever it stops)
      fail       robust >= 0.95    0.312 [0.142, 0.556] (n = 16); 5 open
    """
    if isinstance(what, str | Path) and Path(what).suffix != ".toml":
        folder = Path(what)
        return replace(gate(Report.load(folder), criteria, alpha=alpha), folder=folder)
    if isinstance(what, str | Path):
        what = read(what)
    if isinstance(what, Report):
        fixed = what.spec.get("gate", {})
        asked = _criteria(criteria, fixed.get("criteria"))
        return decide(what, asked, fixed.get("alpha", 0.05) if alpha is None else alpha)
    if not isinstance(what, Config):
        raise AssayError(
            f"gate({type(what).__name__}): expected a report, the folder of one, or a run file"
        )
    asked = _criteria(criteria, what.gate.criteria if what.gate else None)
    model, data = what.load()
    options = {k: v for k, v in what.options(data).items() if k != "also"}
    options["batch"] = options["batch"] or BATCH
    by = (what.gate.alpha if what.gate else 0.05) if alpha is None else alpha
    run = replace(run or Run(), note=what.note)
    return played(model, data, asked, alpha=by, run=run, progress=progress, **options)


def played(
    target: Any, data: Dataset | Parquet, criteria: Criteria, alpha: float = 0.05,
    run: Run | None = None, **options: Any,
) -> Outcome:  # fmt: skip
    """Evaluate until the criteria are decided; `options` are those of `evaluate`."""
    run, watch = run or Run(), Watch(criteria, alpha)
    run = replace(run, note={**run.note, "gate": watch.asked})
    folder = None if run.out is None else Path(run.out)
    if not as_game(target).divisible:
        report = evaluate(target, data, run=run, **options)
        return replace(decide(report, criteria, alpha), folder=folder)
    report = evaluate(target, data, run=replace(run, until=watch), **options)
    return replace(watch.outcome, report=report, folder=folder)


def _criteria(given: Criteria | None, fixed: Criteria | None) -> Criteria:
    if given and fixed and [str(c) for c in _listed(given)] != [str(c) for c in _listed(fixed)]:
        raise AssayError(
            f"criteria {list(map(str, _listed(given)))}: {list(map(str, _listed(fixed)))} were "
            "fixed beforehand; change the [gate] table, or take one away"
        )
    if not (given or fixed):
        raise AssayError("gate: no criterion; give e.g. ['robust >= 0.8'], or a [gate] table")
    return given or fixed  # type: ignore[return-value]


def _listed(criteria: Criteria) -> Sequence[Criterion | str]:
    return [criteria] if isinstance(criteria, str) else criteria
