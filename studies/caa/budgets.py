"""Tables 8 to 10 of the CAA paper with their curves (figures 3, 5-7), and figures 1, 2 and 4."""

from __future__ import annotations

from typing import Any

import numpy as np
import paper
from cells import coverage, rate, shared
from models import FIVE
from page import Page, Table, percent
from study import Study

import durometer as du
from durometer.report.page import charts


def _budget(
    study: Study, page: Page, title: str, name: str, axis: str, cells: Any, known: Any
) -> None:
    """A table and a figure (the paper's figures 3 and 5-7) of CAA against a budget."""
    series, rows = {}, []
    for k, model in enumerate(FIVE):
        found = {b: rate(study.seeds(model, a, **more)) for b, (a, more) in cells.items()}
        rows.append((
            model,
            *(percent(e, known.get(f"{b:g}", (None,) * 5)[k]) for b, e in found.items()),
        ))  # fmt: skip
        points = [(float(np.log10(b)), e) for b, e in found.items() if e is not None]
        if points:
            series[model] = points
    count = max(more["rows"] for _, more in cells.values())
    words = (
        "Robust accuracy in % [95 %] under CAA (paper), published relations, "
        f"{count} rows, {study.size.seeds} seeds."
    )
    page.table(Table(title, words, ("model", *(f"{b:g}" for b in cells)), tuple(rows)))
    if series:
        page.figure(name, f"{title}: curves", charts.curves(series, title, f"log10 of {axis}"))


def table8(study: Study, page: Page) -> None:
    cells = {e: (study.caa, {"eps": e, "rows": study.size.few}) for e in (0.25, 0.5, 1.0, 5.0)}
    _budget(study, page, "Table 8: eps", "figure5", "eps", cells, paper.TABLE8)


def table9(study: Study, page: Page) -> None:
    def cell(n: int) -> Any:
        return du.CAA(du.CAPGD(n), study.moeva), {"rows": study.size.few}

    cells = {n: cell(n) for n in (5, 10, 20, 100)}
    _budget(study, page, "Table 9: CAPGD steps", "figure6", "steps", cells, paper.TABLE9)


def table10(study: Study, page: Page) -> None:
    counts = [max(2, round(f * study.size.generations)) for f in study.size.factors]
    cells = {n: (du.CAA(search=du.MOEVA(n)), {"rows": min(200, study.size.few)}) for n in counts}
    _budget(study, page, "Table 10: generations", "figure7", "generations", cells, paper.TABLE10)


def figures(study: Study, page: Page) -> None:
    """Figures 1, 2 and 4; 3 is the curves of Tables 8 to 10."""
    train, few = du.datasets.url().train, study.size.few
    lpf = du.LowProFool(study.size.lpf).noticed(train.x, train.y)
    gradient = {"CAPGD": du.CAPGD(), "CPGD": du.CPGD(), "LowProFool": lpf}
    search = {"CAPGD": du.CAPGD(), "MOEVA": study.moeva, "BF*": du.BFS(study.size.expansions)}
    for name, title, attacks, more in (
        ("figure1", "Figure 1: rows broken by whom, gradient attacks", gradient, {}),
        ("figure2", "Figure 2: rows broken by whom, searches", search, {"rows": few}),
    ):
        found = {a: [study.run(m, how, **more) for m in FIVE] for a, how in attacks.items()}
        page.figure(name, title, charts.bars(shared(found), title, "rows"))
    title = "Figure 4: share of A's or B's successes that B has"
    cover = coverage(
        {v: [study.seeds(m, a, relations="meant") for m in FIVE]
         for v, a in study.variants.items()}
    )  # fmt: skip
    names = list(study.variants)
    page.figure("figure4", title, charts.heat(np.round(cover, 3), names, names, title))
