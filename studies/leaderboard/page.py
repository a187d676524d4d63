"""Write docs/leaderboard.md from the stored rows, each unpacked and looked at again.

    python studies/leaderboard/page.py

The figures are computed from the stored records, not copied from anywhere. A row whose archive is
not the one that was verified, or whose files and figures do not agree, stops the page.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import board

import durometer as du

OUT = board.HERE.parents[1] / "docs" / "leaderboard.md"
HEAD = """# Leaderboard

For anyone who wants to know how models of different kinds stand up to the same threat. Every figure
comes from a stored run on bundled data; every row has been checked by `durometer verify`, which
asks the stored model again.

**Read it with care.** Samples are small, so each figure carries its 95 % interval. Models are
small and fitted with one seed and no tuning: this compares runs that anybody can repeat, not
libraries. *Clean* is over all rows of the sample. *Proven*, *open* and *broken* are over the rows
whose class the attacker wants to leave; robust accuracy lies between proven and proven + open.
Rows stand in the order of *proven*, then of *broken*. *Cost* is seconds on
a busy machine and forward passes per row attacked, attack and proof together.
"""
LADDER = """A defence that adapts is not decided row by row: what counts is the accuracy that is
left, rung by rung. *Static* is the network without the defence; *transfer* is what the defence is
advertised with; *rehearsed* is left when the attacker simulates it (GMSA). All share one network,
trained against PGD.
"""
FOOT = """## Check a row, add a row

Each row is stored with its run file and its model in
[studies/leaderboard/stored](../studies/leaderboard/run.py). To ask the very model again:

```
tar xf studies/leaderboard/stored/url-xgboost.tar.xz
durometer verify url-xgboost/run --config url-xgboost/run.toml
```

What *verified* counts: **b** inputs handed in for broken rows, each judged again (allowed by the
space, answered as recorded, goal reached); **p** proofs about trees whose certificate was checked
by code that shares nothing with the search. Proofs about networks and linear models keep no
certificate and are not redone. Defences are played again from the stored network and must give
the same records.

A row is one file: [CONTRIBUTING](../CONTRIBUTING.md#a-row-of-the-leaderboard) says how. `python
studies/leaderboard/run.py` plays what is new, verifies and stores it; `--verify` checks all that
is stored.
"""
TITLES = {
    "url": "Phishing addresses", "lcld": "Loans", "ctu13": "Botnet traffic",
    "pima": "Pima patients", "heart": "Heart patients", "german": "German credit",
    "adult": "Incomes", "signs": "Signs, a group goal", "digits": "Test-time defences",
}  # fmt: skip
FIGURES = ("clean", "proven", "open", "broken", "seconds", "forwards")


def written() -> str:
    """The page's text."""
    stored = board.rows()
    parts = [HEAD]
    for name, title in TITLES.items():
        mine = [r for r in stored if r.task.name == name]
        table = _ladders(mine) if mine[0].task.adapts else _table(mine)
        more = [LADDER] if mine[0].task.adapts else []
        parts += [f"## {title}", mine[0].task.sentence, _threat(mine[0]), *more, table]
    return "\n\n".join(part.strip() for part in [*parts, FOOT]) + "\n"


def _threat(row: board.Row) -> str:
    with tempfile.TemporaryDirectory() as folder:
        where = board.unpack(row.archive, Path(folder)) / "run"
        report = du.Report.load(where / "static" if row.task.adapts else where)
    return f"Space: `{_short(report.spec.space)}`. {len(report.table)} rows."


def _short(space: dict[str, Any]) -> str:
    given = ", ".join(f"{k}={space[k]:g}" for k in ("eps", "p") if isinstance(space.get(k), float))
    return f"{space['type']}({given})"


def _table(mine: list[board.Row]) -> str:
    """Models of one task, the most proven first."""
    lines = []
    for row in mine:
        verdict = _verdict(row)
        with tempfile.TemporaryDirectory() as folder:
            report = _report(board.unpack(row.archive, Path(folder)) / "run")
        m = {
            k: report.metric(k)
            for k in ("clean", "proven", "open", "broken", "seconds", "forwards")
        }
        checked = verdict["checked"]
        seen = f"{checked.get('adversarial examples', 0)} b, {checked.get('proofs', 0)} p"
        cells = (
            f"[{row.title}](live/leaderboard/{row.key}/report.html)",
            *(_rate(m[k]) for k in ("clean", "proven", "open", "broken")),
            f"{m['seconds'].value:.2g} s, {m['forwards'].value:,.0f}", seen,
        )  # fmt: skip
        order = (-m["proven"].value, m["broken"].value, row.title)
        lines.append((order, "| " + " | ".join(cells) + " |"))
    head = (
        "| model | clean | proven | open | broken | cost | verified |\n"
        "|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(line for _, line in sorted(lines))])


def _ladders(mine: list[board.Row]) -> str:
    lines = []
    for row in mine:
        verdict = _verdict(row)
        with tempfile.TemporaryDirectory() as folder:
            where = board.unpack(row.archive, Path(folder)) / "run"
            found = {p.parent.name: _report(p.parent) for p in sorted(where.glob("*/spec.json"))}
        m = {name: report.metric("robust") for name, report in found.items()}
        last = m["gmsa-avg"]
        rungs = ("adapted-clean", "static", "transfer", "gmsa-avg")
        again = f"{verdict['checked']['rungs played again']} rungs played again"
        spent = sum(float(r.table["seconds"].sum()) for r in found.values())
        page = f"[{row.title}](live/leaderboard/{row.key}/report.html)"
        cells = (page, *(_rate(m[name]) for name in rungs), f"{spent:.1f} s", again)
        lines.append(((-last.value, row.title), "| " + " | ".join(cells) + " |"))
    head = (
        "| defence | clean, adapted | static | transfer | rehearsed | cost, all rows | verified |\n"
        "|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(line for _, line in sorted(lines))])


def _rate(e: Any) -> str:
    return f"**{100 * e.value:.0f} %** [{100 * e.low:.0f}, {100 * e.high:.0f}] of {e.n}"


def _verdict(row: board.Row) -> dict[str, Any]:
    """What was said when the row was verified; it must be of this archive and find nothing."""
    if not row.current:
        sys.exit(f"{row.key} is not stored as its files say: python studies/leaderboard/run.py")
    verdict: dict[str, Any] = json.loads(row.verdict.read_text(encoding="utf-8"))
    if verdict["findings"]:
        sys.exit(f"{row.key} is not verified: {verdict['findings'][0]}")
    return verdict


def _report(folder: Path) -> du.Report:
    made = du.verify(folder)  # files and figures: proofs are re-checked where the model is at hand
    if made.findings:
        sys.exit(str(made))
    return du.Report.load(folder)


def pages(folder: Path) -> int:
    """The stored report pages below `folder`, for the site; how many."""
    stored = board.rows()
    for row in stored:
        with tempfile.TemporaryDirectory() as kept:
            where = board.unpack(row.archive, Path(kept)) / "run"
            for page in where.rglob("report.html"):
                target = folder / row.key / page.relative_to(where)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(page.read_bytes())
    return len(stored)


if __name__ == "__main__":
    OUT.write_text(written(), encoding="utf-8")
    print(f"{OUT}: {len(board.rows())} rows")
