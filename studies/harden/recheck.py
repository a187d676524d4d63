"""A cell's verdicts before judges that share no code with the search.

`verify`: every counterexample again by a judge of its own (allowed, answered, goal reached), every
certificate of a proven row walked in plain numpy. HiGHS: XGBoost on URL, the program of Kantchelian
et al. on the relations written down by hand (`tests/oracles`). Graft: a search that may break no
proven row. Networks keep no certificate: only the search asks them again.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from tables import URL, Case

import durometer as du

SEARCHED = 25  # proven rows that a search is tried on


def recheck(model: Any, of: Case, name: str, rows: int, highs: bool) -> dict[str, int]:
    """How many of `rows` test rows each judge saw, and how many it contradicts."""
    part = of.test.where(y=of.attacked)
    part = part.sample(min(rows, len(part)), seed=1)
    network = isinstance(model, torch.nn.Module)
    prove: Any = du.Then(du.Bounds(), du.CAPGD()) if network else du.Exact(1.0, certificates=True)
    report = du.evaluate(model, part, space=of.space, goal=of.goal, attack=prove, progress=False)
    verdict = report.table["verdict"].to_numpy()
    with tempfile.TemporaryDirectory() as folder:
        seen = du.verify(report.save(folder), model, part)
    found = {"rows": len(part), "proven": int((verdict == "proven").sum()),
             "broken": int((verdict == "broken").sum()),
             "certificates": seen.checked.get("proofs", 0)}  # fmt: skip
    found["contradictions"] = sum(max(1, len(f.rows)) for f in seen.findings)
    if found["proven"]:
        proven = part.take(torch.from_numpy(verdict == "proven")).head(SEARCHED)
        search: Any = du.Standard(proofs=False) if network else du.Graft()
        again = du.evaluate(model, proven, space=of.space, goal=of.goal, attack=search, seed=1,
                            progress=False)  # fmt: skip
        found["searched"] = len(proven)
        found["broken_by_search"] = int((again.table["verdict"] == "broken").sum())
        found["contradictions"] += found["broken_by_search"]
    if highs and name in URL and type(model).__name__ == "XGBClassifier":
        solved, wrong, unsolved = _highs(model, of, name, part)
        found |= {"highs": solved, "highs_unsolved": unsolved, "highs_wrong": wrong}
        found["contradictions"] += wrong
    return found


def _highs(model: Any, of: Case, name: str, part: du.Dataset) -> tuple[int, int, int]:
    from tests.oracles.url import compare_with_highs

    from durometer.proofs.search.decide import decide
    from durometer.trees import read

    eps, p, _ = URL[name]
    goal = np.tile(np.arange(2) != int(part.y[0]), (len(part), 1))
    known = decide(read(model), of.space.around(part.x), goal, 2.0)
    return compare_with_highs(model, part, eps, known, len(part), p)
