"""gate(): does a model clear the bounds that were set for it? Decided while it is being played.

Rows are played in random order and the run stops as soon as the evidence suffices (`gates`): a
model that is far from its bound is decided after a few chunks. What cannot stop early (a defender
whose rounds build on each other) is played to its end and decided then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from durometer._evaluate import play
from durometer.config.config import Config, Properties, read
from durometer.core.errors import DurometerError
from durometer.core.spec import GateSpec
from durometer.gates.criterion import Criterion
from durometer.gates.decide import Outcome, SequentialTest, decide
from durometer.report.report import Report
from durometer.run.job import Job
from durometer.run.run import Run

BATCH = 64  # rows: after each chunk a decision is looked for
Criteria = Sequence[Criterion | str] | str


def gate(
    what: Report | Job | Config | str | Path,
    criteria: Criteria | None = None,
    *,
    alpha: float | None = None,
    run: Run | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Decides whether a model meets its acceptance criteria: pass, fail or undecided.

    The decision is an anytime-valid sequential test: rows are played in random order, and the run
    stops as soon as the evidence suffices. It is wrong in at most a share `alpha` of such
    decisions, whenever it stops.

    Args:
        what: A `Report`, the folder of a saved one, a `Job`, or a run file (a path that ends in
            .toml, or a `Config`). Jobs and run files are played as far as the decision needs; the
            claims of a [properties] table are decided by proof.
        criteria: One criterion or several, e.g. "robust >= 0.8" (see `Criterion`). None uses the
            [gate] table of the run file.
        alpha: Share of wrong decisions to accept, between 0 and 1. None uses the run file's, else
            0.05.
        run: How a job or a run file is carried out. None runs it here, in memory.
        progress: Whether to show a progress bar. None shows it in a terminal or a notebook only.

    Returns:
        An `Outcome`: true only for a pass, with one `Decision` per criterion.

    Raises:
        DurometerError: There is no criterion, the ones given contradict those fixed beforehand, or
            `what` is none of the above.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10))
    >>> print(du.gate(report, "robust >= 0.95"))
    gate: failed (wrong in at most 5% of such decisions, whenever it stops)
      fail       robust >= 0.95    0.312 [0.142, 0.556] (n = 16); 5 open
    """
    if isinstance(what, str | Path) and Path(what).suffix != ".toml":
        folder = Path(what)
        return replace(gate(Report.load(folder), criteria, alpha=alpha), folder=folder)
    if isinstance(what, str | Path):
        what = read(what)
    if isinstance(what, Report):
        return decide(what, *_asked(criteria, alpha, what.spec.gate))
    if isinstance(what, Config) and what.properties is not None:
        return _with_claims(what, what.properties, criteria, alpha, run, progress)
    if isinstance(what, Config):
        fixed = what.provenance  # it reads the files of model and data: once
        criteria, alpha = _asked(criteria, alpha, fixed.gate)
        run = run or Run()
        run = replace(run, provenance=fixed.updated(run.provenance))
        what = what.job()
    elif isinstance(what, Job):
        criteria, alpha = _asked(criteria, alpha, None)
    else:
        raise DurometerError(
            f"gate({type(what).__name__}): expected a report, the folder of one, a Job or a run "
            "file; a model is played by du.gate(du.Job(model, data, space), ...)"
        )
    run, watch = run or Run(), SequentialTest(criteria, alpha)
    watch.begin()  # a baseline that is not there is said before anything is played
    run = replace(run, provenance=replace(run.provenance, gate=watch.asked))
    out = None if run.out is None else Path(run.out)
    job = replace(what, also=(), batch=what.batch or what.rules.batch or BATCH)
    if not job.rules.divisible:
        report = play(job, run, progress=progress)
        return replace(decide(report, criteria, alpha), folder=out)
    report = play(job, replace(run, until=watch), progress=progress)
    return replace(watch.outcome, report=report, folder=out)


def _with_claims(
    config: Config, asked: Properties, criteria: Criteria | None, alpha: float | None,
    run: Run | None, progress: bool | None,
) -> Outcome:  # fmt: skip
    """Claims about the whole model first, then the criteria, where there are any."""
    claims = asked.check(*config.load())
    out = None if run is None or run.out is None else Path(run.out)
    rows = Outcome((), 0.0, folder=out)
    if criteria or config.gate is not None:
        rest = replace(config, properties=None)
        rows = gate(rest, criteria, alpha=alpha, run=run, progress=progress)
    if out is not None:
        claims.save(out)
    return replace(rows, properties=claims)


def _asked(
    criteria: Criteria | None, alpha: float | None, fixed: GateSpec | None
) -> tuple[Criteria, float]:
    """What is to be decided, and how surely: given now or fixed beforehand, never both."""
    given = [str(c) for c in _listed(criteria or ())]
    before = list(fixed.criteria) if fixed else []
    if given and before and given != before:
        raise DurometerError(
            f"criteria {given}: {before} were fixed beforehand; change the [gate] table, or take "
            "one away"
        )
    if not (given or before):
        raise DurometerError("gate: no criterion; give e.g. ['robust >= 0.8'], or a [gate] table")
    if alpha is not None and fixed and fixed.alpha != alpha:
        raise DurometerError(
            f"alpha={alpha}: {fixed.alpha} was fixed beforehand, with the criteria; change the "
            "[gate] table, or take one away"
        )
    usual = 0.05 if fixed is None else fixed.alpha
    return criteria or before, usual if alpha is None else float(alpha)


def _listed(criteria: Criteria) -> Sequence[Criterion | str]:
    return [criteria] if isinstance(criteria, str) else criteria
