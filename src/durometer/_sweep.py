"""sweep(): every run of a grid in a folder of its own, and one page over all of them.

A run that fails is noted and the others go on: a night's work must not end at the first mistake.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from durometer._evaluate import play
from durometer.config.sweep import Plan, Point, number
from durometer.config.writing import keep
from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.data.parquet import Parquet
from durometer.games.game import Game
from durometer.model.classifier import Classifier
from durometer.report.report import Report
from durometer.report.sweep import Sweep
from durometer.run.run import Run

# By what they were opened from: model (or game) and data.
Loaded = dict[str, tuple[Classifier | Game, Dataset | Parquet]]

_OFTEN = 5  # runs after which the page is made anew, to be looked at meanwhile; later less often


def sweep(
    grid: Plan,
    out: str | Path,
    *,
    run: Run | None = None,
    progress: bool | None = None,
    tell: Callable[[Point, Report | str], None] = lambda point, outcome: None,
) -> Sweep:
    """Runs every combination of a grid of settings, each in a folder of its own, with one page over
    all.

    A run that fails is noted and the others continue.

    Args:
        grid: The combinations, read from a run file with a [sweep] table by
            `durometer.config.sweep.parse` or `read`.
        out: The folder. Each run gets a folder below it, named after its settings.
        run: How each run is carried out. With `resume=True` finished runs are taken as they are.
            With `shard=(i, n)` every n-th run is played and no page is written; a last call with
            `resume=True` writes it.
        progress: Whether to show a progress bar per run. None shows it in a terminal or a notebook
            only.
        tell: Called after each run with its point of the grid and its report, or with the text of
            the error.

    Returns:
        A `Sweep`: the reports by name, the settings of each, and why the others failed.

    Raises:
        DurometerError: No run succeeded, or there are more shards than runs.

    >>> import durometer as du
    >>> import tempfile
    >>> from durometer.config.sweep import parse
    >>> plan = parse('''
    ... data = {name = 'url', rows = 10}
    ... model = {demo = 'url_net'}
    ... space = {type = 'TableSpace', eps = 0.1}
    ... attack = {type = 'CPGD'}
    ... sweep = {'space.eps' = [0.1, 0.2]}
    ... ''')
    >>> made = du.sweep(plan, tempfile.mkdtemp())
    >>> {name: report.metric("robust").value for name, report in made.reports.items()}
    {'eps=0.1': 1.0, 'eps=0.2': 1.0}
    """
    out, run = Path(out), run or Run()
    mine, whole = grid.points, run.shard is None
    if run.shard is not None:
        mine, run = grid.points[run.shard[0] - 1 :: run.shard[1]], replace(run, shard=None)
        if not mine:
            raise DurometerError(f"there are only {len(grid.points)} runs: make fewer shards")
    settings = {p.name: p.settings for p in grid.points}
    numbers = _numbers(grid)
    reports: dict[str, Report] = {}
    failed: dict[str, str] = {}
    loaded: Loaded = {}
    due = _OFTEN
    for point in mine:
        try:
            report = _play(point, out / point.name, run, progress, loaded)
        except Exception as error:  # a model may raise anything
            own = isinstance(error, DurometerError)
            failed[point.name] = str(error) if own else f"{type(error).__name__}: {error}"
            tell(point, failed[point.name])
            continue
        reports[point.name] = report
        tell(point, report)
        if whole and len(reports) >= due:
            Sweep(settings, reports, numbers, failed).save(out)
            due = len(reports) + max(_OFTEN, len(reports) // 2)  # each costs as much as its runs
        if any(f.id == "interrupted" for f in report.flags):
            break
    if not reports:
        first = next(iter(failed.values()))
        raise DurometerError(f"no run of the sweep succeeded; the first failed: {first}")
    made = Sweep(settings, reports, numbers, failed)
    if whole:
        made.save(out)
    return made


def _play(point: Point, folder: Path, run: Run, progress: bool | None, loaded: Loaded) -> Report:
    config = point.config
    same = repr((config.data, config.model, config.noise, config.nature))
    if same not in loaded:
        loaded.clear()  # one model and data set at a time
        loaded[same] = config.load()
    run = replace(run, out=folder, provenance=replace(config.provenance, command="durometer run"))
    report = play(config.job(loaded[same]), run, progress=progress)
    keep(config, folder)
    report.save(folder)
    # The inputs handed in are in the folder; a hundred runs of them would not fit into memory.
    return replace(report, records=replace(report.records, adversarial=None))


def _numbers(grid: Plan) -> dict[str, dict[str, float]]:
    """For the settings that can be drawn against: value, as text, -> number."""
    found = {}
    for axis, values in grid.axes.items():
        places = {json.dumps(v): number(v) for v in values}
        if len(places) > 1 and all(p is not None for p in places.values()):
            found[axis] = {k: p for k, p in places.items() if p is not None}
    return found
