"""Figures of games in which the model moves: runs of the referee, the attacker's price, rejection.

A run of a random defender is one draw that all its rows share, so rows of several runs are not
independent twice over: intervals then come from a bootstrap that draws ids *and* runs.

Rejection (Chen et al. 2022, eq. 1): error on what is accepted, over all rows; the same among the
accepted rows only, which is what the paper's figure shows and what a defence that rejects almost
everything makes look good; and the share of clean inputs that are turned away. `doubt` is how far
rejecting is ahead of answering, so every other threshold is a view of the same records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from durometer.core.errors import DurometerError
from durometer.core.records import Records
from durometer.report.stats import Estimate, Z, bootstrap, wilson

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.report import Report

Figures = dict[str, tuple[str, Estimate]]


def figures(report: Report) -> Figures:
    """What a transductive game adds to a report: name -> (title, estimate)."""
    if report.spec.game_type != "Transductive":
        return {}
    table = report.table
    played = table[table["skipped"] == ""]
    attacked = played[played["winner"] != "clean"]
    found: Figures = {
        "clean": (
            "accuracy on clean batches, adapted",
            share_of(table, table["clean"] == table["y"]),
        ),
        "robust": ("robust accuracy", share_of(played, ~played["success"])),
        "success": (
            "attack success (of rows attacked)",
            share_of(attacked, attacked["success"]),
        ),
    }
    if report.spec.is_unattacked:
        found["robust"] = ("goal not reached, nobody attacking", found["robust"][1])
        del found["success"]
    if table["adapting"].notna().any():
        title = "seconds the defender took to adapt, per row"
        batch = table.groupby(["run", "round"]).ngroup().to_numpy()  # its rows share one number
        found["adapting"] = (title, bootstrap(table["adapting"].to_numpy(), batch))
    known = played.dropna(subset=["simulated"])
    if len(known):
        title = "robust accuracy as the attacker rehearsed it"
        found["rehearsed"] = (title, share_of(known, 1 - known["simulated"]))
        title = "adaptations the attacker ran, per round"
        once = table.drop_duplicates(["run", "round"])["adaptations"]
        found["adaptations"] = (title, bootstrap(once.to_numpy()))
    if played["doubt"].notna().any():
        found |= _rejection(played)
    if not table["controlled"].all() and not report.spec.is_unattacked:
        found |= _benign(table)
    return found


def _benign(table: pd.DataFrame) -> Figures:
    """Accuracy of rows that are not the attacker's: in the rounds it moves in, and after them."""
    attacked = table.groupby("round")["controlled"].transform("any")
    after = ~attacked & (table["round"] > table.loc[attacked, "round"].min())
    counted = ~table["skipped"].isin(("invalid", "not scored"))
    others = ~table["controlled"] & counted
    found: Figures = {}
    for name, rows, when in (
        ("benign", table[others & attacked], "in attacked rounds"),
        ("benign_later", table[others & after], "in later rounds"),
    ):
        if len(rows):
            title = f"accuracy of others' rows {when}"
            found[name] = (title, share_of(rows, rows["final"] == rows["y"]))
            calm = share_of(rows, rows["clean"] == rows["y"])
            found[f"{name}_unpoisoned"] = (f"{title}, nobody attacking", calm)
    return found


def over_runs(records: Records, over: str) -> Records:
    """One record per row in the place of one per row and run: a run that ended as `over` says.

    "worst": the goal was reached in any run; "majority": in more than half of them.
    """
    if over not in ("worst", "majority"):
        raise DurometerError(f"over={over!r}: expected 'worst', 'majority' or nothing for the mean")
    names = np.asarray(records.columns["id"]).astype(str)
    group = np.unique(names, return_inverse=True)[1]
    success = records.columns["success"]
    share = np.bincount(group, success) / np.bincount(group)
    won = share > (0.0 if over == "worst" else 0.5)
    order = np.lexsort((records.columns["run"], success != won[group], group))
    first = np.unique(group[order], return_index=True)[1]
    one = records.take(np.sort(order[first]))
    return Records(one.columns | {"run": np.zeros_like(one.columns["run"])}, one.adversarial)


def resubmitted(records: Records, tries: int) -> Estimate:
    """Robust accuracy where the attacker may hand in each input `tries` times.

    Of n runs that broke an input c times, C(n - c, k) / C(n, k) of the choices of k runs hold:
    unbiased, where a share to the power of k would not be (pass@k, Chen et al., 2021). All rows of
    a run share its luck, so the interval adds what leaving out single runs changes (a jackknife) to
    the spread over rows; where there are no more runs than tries, it is over rows alone.
    """
    played = records.columns["skipped"] == ""
    names = np.unique(records.columns["id"][played].astype(str), return_inverse=True)[1]
    labels, run = np.unique(records.columns["run"][played], return_inverse=True)
    broken = np.zeros((int(names.max(initial=-1)) + 1, len(labels)), dtype=bool)
    broken[names, run] = records.columns["success"][played]
    if not 1 <= tries <= len(labels) or len(names) != broken.size:
        raise DurometerError(
            f"over={tries}: each input was handed in {len(labels)} times in this run; expected 1 to"
            f" {len(labels)} tries, or play more: du.Transductive(..., runs={max(tries, 2)})"
        )
    values = _holds(broken, tries)
    if len(labels) == tries or np.isin(values, (0.0, 1.0)).all():
        binary = bool(np.isin(values, (0.0, 1.0)).all())
        return wilson(int(values.sum()), len(values)) if binary else bootstrap(values)
    left = [_holds(np.delete(broken, k, axis=1), tries).mean() for k in range(len(labels))]
    runs = (len(labels) - 1) / len(labels) * float(((left - np.mean(left)) ** 2).sum())
    rows = float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
    half, value = Z * math.sqrt(runs + rows), float(values.mean())
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), len(values))


def _holds(broken: np.ndarray, tries: int) -> np.ndarray:
    """For each row of (rows, runs) the share of the choices of `tries` runs in which it holds."""
    n = broken.shape[1]
    shares = np.array([math.comb(n - c, tries) / math.comb(n, tries) for c in range(n + 1)])
    return np.asarray(shares[broken.sum(axis=1)])


def share_of(rows: pd.DataFrame, hits: pd.Series) -> Estimate:
    """A share of rows; where they come in several runs, ids and runs are both drawn."""
    values = np.asarray(hits, dtype=float)
    if len(rows) and rows["run"].nunique() > 1:
        return bootstrap(values, rows["id"].to_numpy(), second=rows["run"].to_numpy())
    if np.isin(values, (0.0, 1.0)).all():
        return wilson(int(values.sum()), len(values))
    return bootstrap(values, rows["id"].to_numpy())


def _rejection(rows: pd.DataFrame) -> Figures:
    accepted = rows[rows["doubt"] <= 0]
    wrong = rows["answer"] != rows["y"]
    return {
        "error": (
            "error on accepted inputs, over all",
            share_of(rows, wrong & (rows["doubt"] <= 0)),
        ),
        "error_accepted": (
            "error among accepted inputs",
            share_of(accepted, accepted["answer"] != accepted["y"]),
        ),
        "rejected": ("rejected", share_of(rows, rows["doubt"] > 0)),
        "rejected_clean": ("clean inputs rejected", share_of(rows, rows["clean_doubt"] > 0)),
    }


def curve(report: Report, points: int = 100) -> pd.DataFrame:
    """Rejection at other thresholds: one row per share of inputs rejected, from none to all.

    An input is rejected where its `doubt` is at least `threshold`: a lower one rejects more, 0 is
    the defender's own. Doubt is a difference of logits; URejectron's are log odds, so `threshold` t
    is its probability sigmoid(logit(defender.threshold) + t). Where all is rejected
    `error_accepted` is NaN. `rejected` is over all rows; `rejected_clean` over the rows nobody
    attacked, or, where the attacker controls all, over the clean inputs in their place.
    """
    import pandas as pd

    table = report.table[report.table["skipped"] == ""]
    doubt = table["doubt"].to_numpy()
    if not len(table) or np.isnan(doubt).all():
        raise DurometerError("this report knows no rejection: its defender has no reject class")
    calm = ~table["controlled"].to_numpy()
    clean = doubt[calm] if calm.any() else table["clean_doubt"].to_numpy()
    wrong = (table["answer"] != table["y"]).to_numpy()
    rows = []
    for share in np.linspace(0, 1, points):
        limit = np.inf if share == 0 else np.quantile(doubt, 1 - share)
        kept = doubt < limit
        rows.append(
            {
                "threshold": limit,
                "rejected": float(1 - kept.mean()),
                "error": float((wrong & kept).mean()),
                "error_accepted": float(wrong[kept].mean()) if kept.any() else np.nan,
                "rejected_clean": float((clean >= limit).mean()),
            }
        )
    return pd.DataFrame(rows)
