"""`assay demo`: three evaluations on real data, each with its report and what it means.

Digits (any wrong class), traffic signs (only the confusions that hurt), web addresses (a forest, by
its answers alone). Small samples, so that it ends in about a minute on two cores; the intervals say
what that costs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay import datasets
from assay._evaluate import evaluate
from assay.attacks.apgd import APGD
from assay.attacks.square import Square
from assay.attacks.standard import standard
from assay.data import Dataset
from assay.demo import models
from assay.goals.group import Group
from assay.model.classifier import wrap
from assay.report.report import Report
from assay.report.stats import Estimate
from assay.spaces.lp import Linf

if TYPE_CHECKING:
    from rich.console import Console


def play(out: Path, show: Callable[[Report], None], screen: Console) -> None:
    """All three parts; each report is printed by `show` and saved under `out`."""
    screen.print("Small samples and small models, trained now: a taste, not a benchmark.\n")
    for name, part in (("digits", digits), ("signs", signs), ("addresses", addresses)):
        screen.print(f"[bold]{part.__doc__}[/bold]")
        report, meaning = part()
        report.save(out / name)
        show(report)
        screen.print(f"[green]What it means:[/green] {meaning}")
        screen.print(f"[dim]saved in {out / name}[/dim]\n")
    screen.print("What to type next:")
    for command, why in (
        (f"assay show {out / 'signs'} --by y", "which signs can be pushed?"),
        ("assay list attacks", "what else there is, with parameters"),
        ("assay run examples/mnist.toml", "the first part from a file you can change"),
    ):
        screen.print(f"  {command:<34}  {why}", markup=False, soft_wrap=True)


def digits() -> tuple[Report, str]:
    """1. Digits: a network, every pixel may change by 0.1, any wrong class counts."""
    space = Linf(0.1)
    data = datasets.mnist().test.sample(60)
    report = evaluate(models.mnist(), data, space=space, attack=standard(space))
    clean, robust = report.metric("clean"), report.metric("robust")
    return report, (
        f"of {clean.n} digits the network reads {_count(clean)} correctly, but only "
        f"{_count(robust)} survive the four attacks of the standard ensemble. On another such "
        f"sample expect between {robust.low:.0%} and {robust.high:.0%}."
    )


def signs() -> tuple[Report, str]:
    """2. Traffic signs: a sign that says stop must not be taken for one that says go."""
    halt, go = ("stop", "yield", "no entry", "no vehicles"), ("priority road", "right of way",
               "straight", "end of limits")  # fmt: skip
    data, net, space = datasets.gtsrb().test.where(y=halt), models.gtsrb(), Linf(4 / 255)
    report = evaluate(net, data, space=space, goal=Group(dict.fromkeys(halt, go)), attack=APGD(50))
    usual = evaluate(net, data, space=space, attack=APGD(50)).metric("robust")
    robust = report.metric("robust")
    return report, (
        f"{_count(robust)} of {robust.n} signs cannot be made to say go. Had any wrong class "
        f"counted, as is usual, the figure would be {_count(usual)} of {usual.n}: what counts as "
        "success changes the answer, so ask for the harm you fear."
    )


def addresses() -> tuple[Report, str]:
    """3. Web addresses: a random forest, attacked by its answers alone (no gradients)."""
    splits = datasets.url()
    low, high = splits.train.x.amin(0), splits.train.x.amax(0)
    width = (high - low).clamp_min(1e-9)
    forest = models.url()

    def model(z: np.ndarray) -> Any:  # the forest knows raw units, the attacker shares of the range
        return forest.predict_proba(z * width.numpy() + low.numpy())

    test = splits.test.where(y="phishing").sample(100)
    unit = Dataset(((test.x - low) / width).clamp(0, 1), test.y, test.ids, classes=test.classes,
                   name=test.name)  # fmt: skip
    report = evaluate(wrap(model, outputs="probabilities"), unit, space=Linf(0.02),
                      attack=Square(200))  # fmt: skip
    robust = report.metric("robust")
    queries = report.metric("forwards")
    return report, (
        f"{_count(report.metric('clean'))} of 100 phishing addresses are recognised; "
        f"{_count(robust)} still are after each feature may move by 2 % of its range, found with "
        f"{queries.value:.0f} questions per address. A model without gradients is attacked by its "
        "answers alone."
    )


def _count(estimate: Estimate) -> int:
    return round(estimate.value * estimate.n)
