"""`durometer demo`: one short scene per pillar on real data, each with its page and what it means.

Web addresses (boosted trees: attacked, decided exactly, hardened), traffic signs (only the
confusions that hurt), a forest under measurement noise, a defence that adapts at test time. Small
samples, so that it ends in about a minute on two cores; the intervals say what that costs.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durometer import datasets
from durometer._evaluate import evaluate
from durometer._ladder import Ladder, ladder
from durometer.attacks.apgd import APGD
from durometer.attacks.graft import Graft
from durometer.attacks.pgd import PGD
from durometer.attacks.transductive.gmsa import FPA
from durometer.defenses.rmc import RMC
from durometer.demo import models
from durometer.games.nature import Nature
from durometer.games.transductive import Transductive
from durometer.goals.group import Group
from durometer.noise.gaussian import Normal
from durometer.proofs.trees import Exact
from durometer.report import wording
from durometer.report.page.report import bar
from durometer.report.page.section import Section, draw, render, table
from durometer.report.report import Report
from durometer.report.verdicts import counts, share_text, stability
from durometer.spaces.lp import Linf

if TYPE_CHECKING:
    from rich.console import Console

Scene = tuple[dict[str, Report | Ladder], str]


def play(out: Path, show: Callable[[Report], None], screen: Console) -> None:
    """All scenes; each report is printed by `show`, saved under `out` and linked from one page."""
    screen.print("Small samples and small models, trained now: a taste, not a benchmark.\n")
    told: list[tuple[str, str, dict[str, Report | Ladder]]] = []
    for scene in (addresses, signs, noise, defence):
        title = str(scene.__doc__)
        screen.print(f"[bold]{title}[/bold]")
        reports, meaning = scene()
        for name, report in reports.items():
            report.save(out / name)
        last = [*reports.values()][-1]
        if isinstance(last, Ladder):
            screen.print(str(last), markup=False, highlight=False)
        else:
            show(last)
        screen.print(f"[green]What it means:[/green] {meaning}\n")
        told.append((title, meaning, reports))
    (out / "index.html").write_text(_index(told), encoding="utf-8")
    screen.print(f"All pages: {out / 'index.html'}\n", markup=False, soft_wrap=True)
    screen.print("What to type next:")
    for command, why in (
        (f"durometer show {out / 'signs'} --by y", "which signs can be pushed?"),
        (f"durometer verify {out / 'addresses'}", "is what is stored what was found?"),
        ("durometer list attacks", "what else there is, with parameters"),
        ("durometer run examples/table.toml", "a table from a file you can change"),
    ):
        screen.print(f"  {command:<38}  {why}", markup=False, soft_wrap=True)


def addresses() -> Scene:
    """1. Web addresses: boosted trees on a table, attacked, then decided exactly, then hardened."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from durometer.training.hardening import harden

    splits = datasets.url()
    train, test = splits.train.sample(2500), splits.test.where(y="phishing").sample(100)
    model: Any = HistGradientBoostingClassifier(max_iter=40, max_depth=4, random_state=0)
    model.fit(train.x.numpy(), train.y.numpy())
    space, goal = test.schema.space(eps=0.05, p=inf), Group({"phishing": ["legitimate"]})
    how: dict[str, Any] = {"space": space, "goal": goal}
    searched = evaluate(model, test, attack=Graft(100), **how)
    exact = evaluate(model, test, attack=Exact(), **how)
    better = harden(model, train, space, goal, rounds=3, max_loss=0.03, progress=False).model
    after = evaluate(better, test, attack=Exact(), **how)
    told = wording.addresses(*(counts(r) for r in (searched, exact, after)))
    return {"addresses-searched": searched, "addresses": exact, "addresses-hardened": after}, told


def signs() -> Scene:
    """2. Traffic signs: a sign that says stop must not be taken for one that says go."""
    halt, go = ("stop", "yield", "no entry", "no vehicles"), ("priority road", "right of way",
               "straight", "end of limits")  # fmt: skip
    data, net, space = datasets.gtsrb().test.where(y=halt), models.gtsrb(), Linf(4 / 255)
    report = evaluate(net, data, space=space, goal=Group(dict.fromkeys(halt, go)), attack=APGD(50))
    usual = evaluate(net, data, space=space, attack=APGD(50))
    return {"signs": report}, wording.signs(counts(report), counts(usual), "APGD (50 steps)")


def noise() -> Scene:
    """3. Patients: a forest whose measurements are a little off, and nobody attacks."""
    from sklearn.ensemble import RandomForestClassifier

    pima = datasets.pima()
    forest = RandomForestClassifier(50, max_depth=6, random_state=0)
    forest.fit(pima.train.x.numpy(), pima.train.y.numpy())
    spread = Normal(sd=0.05 * pima.train.x.std(0))
    report = evaluate(Nature(forest, spread), pima.test.sample(60))
    return {"noise": report}, wording.measurements(stability(report))


def defence() -> Scene:
    """4. Digits: a defence that retrains at test time (RMC), and what is left, rung by rung."""
    digits, space = datasets.mnist(), Linf(0.1)
    defender = RMC(models.mnist(), digits.train.sample(600), space, PGD(3), k=64, rate=1e-3,
                   epochs=2, calibrate=False)  # fmt: skip
    steps = ladder(Transductive(defender, batch=1), digits.test.sample(12), space=space,
                   attacks=[FPA(PGD(5), 1)], static=APGD(20), public=False)  # fmt: skip
    bare, ignored, simulated = (
        share_text(steps.reports[rung].metric("robust")) for rung in ("static", "transfer", "FPA")
    )
    return {"defence": steps}, wording.defence((bare, ignored, simulated))


def _index(told: list[tuple[str, str, dict[str, Report | Ladder]]]) -> str:
    """One page with what each scene means, its verdicts and links to its pages."""
    sections = []
    for k, (title, meaning, reports) in enumerate(told):
        lines = [
            (draw("link", name, name), "" if isinstance(report, Ladder) else bar(report))
            for name, report in reports.items()
        ]
        body = table(("page", "verdicts"), lines)
        sections.append(Section(f"scene-{k + 1}", title, body, meaning[:1].upper() + meaning[1:]))
    said = "Four scenes on real data: what can be changed, by whom, and what that does to a model."
    about = "Small samples and small models, trained on the spot: a taste, not a benchmark."
    return render("durometer: demo", said, about, sections)
