"""Tables 2, 3, 4 and 7 of the CAA paper, clean accuracy, and the published networks' rows."""

from __future__ import annotations

import paper
from cells import Outcome, gap, rate
from models import FIVE, TREES
from page import Page, Table, percent
from study import Study

import durometer as du
from durometer.report.stats import wilson
from durometer.training import accuracy


def each(outcomes: list[Outcome | None]) -> str:
    """Robust accuracy of every seed."""
    return " ".join("-" if o is None else f"{100 * o.robust.mean():.1f}" for o in outcomes)


def clean(study: Study, page: Page) -> None:
    test, rows = du.datasets.url().test, []
    for k, name in enumerate((*FIVE, "MLP", *TREES)):
        right = []
        for seed in range(study.size.nets if name not in TREES else 1):
            if study.show and not study.zoo.file(name, seed).exists():
                continue
            net = study.zoo.get(name, seed)
            if name in TREES:
                right.append(float((net.predict(test.x.numpy()) == test.y.numpy()).mean()))
            else:
                right.append(accuracy(net, test))
        if not right:
            continue
        first = wilson(round(right[0] * len(test)), len(test))
        every = " ".join(f"{100 * r:.1f}" for r in right)
        rows.append((name, percent(first), every, f"{paper.CLEAN[k]}" if k < 5 else "-"))
    words = f"Accuracy on the {len(test)} test rows; the paper's figure is of its phishing rows."
    header = ("model", "accuracy [95 %]", "by training seed", "paper")
    page.table(Table("Clean accuracy", words, header, tuple(rows)))


def table2(study: Study, page: Page) -> None:
    train = du.datasets.url().train
    attacks = {
        "LPF": du.LowProFool(study.size.lpf).noticed(train.x, train.y),
        "CPGD": du.CPGD(),
        "CPGD, constant step": du.CPGD(step=0.4),
        "CAPGD": du.CAPGD(),
    }
    rows = []
    for k, name in enumerate(FIVE):
        found = [
            [study.run(name, a)] if label == "LPF" else study.seeds(name, a)
            for label, a in attacks.items()
        ]
        known = [paper.TABLE2.get(a, (None,) * 5)[k] for a in attacks]
        cells = [percent(rate(o), p) for o, p in zip(found, known, strict=True)]
        rows.append((name, percent(rate(found[-1][:1], "clean"), paper.CLEAN[k]), *cells))
    words = (
        f"Robust accuracy in % [95 %] (paper), published relations, {study.size.rows} rows, "
        f"{study.size.seeds} seeds; LowProFool, which draws nothing, once, with {study.size.lpf} "
        "steps."
    )
    page.table(Table("Table 2: gradient attacks", words, ("model", "clean", *attacks), (*rows,)))


def table3(study: Study, page: Page) -> None:
    rows, few = [], study.size.few
    for k, name in enumerate(FIVE):
        capgd = rate(study.seeds(name, du.CAPGD()))
        caa = study.seeds(name, study.caa)
        meant = study.seeds(name, study.caa, relations="meant")
        ours = study.nets(name, study.ours, relations="meant")
        broken = [f"{o.broken} of {int((o.clean & ~o.robust).sum())}" for o in caa[:1] if o]
        paid = [f"{o.cpu:.0f}" for o in caa[:1] if o]
        rows.append((
            name, percent(capgd, paper.TABLE3["CAPGD"][k]),
            percent(rate(caa), paper.TABLE3["CAA"][k]), percent(rate(meant)),
            each(study.nets(name, study.caa)), each(ours), *(broken or ["-"]), *(paid or ["-"]),
        ))  # fmt: skip
    header = (
        "model", "CAPGD", "CAA, published", "CAA, as meant", "CAA by training seed",
        "CAA with Graft, as meant", "successes that break what was meant", "CPU-s of CAA",
    )  # fmt: skip
    words = (
        f"Robust accuracy in % [95 %] (paper), {study.size.rows} rows, {study.size.seeds} seeds "
        "of the attack on the first network. By training seed: one seed of the attack; CAA as "
        "published, and with our own search in MOEVA's place."
    )
    page.table(Table("Table 3: CAPGD and CAA", words, header, tuple(rows)))
    rows = []
    for k, name in enumerate(FIVE):
        rows.append((name, *_searches(study, name, k)))
    words = (
        f"The searches alone, {few} rows, {study.size.seeds} seeds (BF* draws nothing: once). "
        "CPU seconds of one seed."
    )
    header = ("model", "BF*", "CPU-s", "MOEVA", "CPU-s", "Graft", "CPU-s")
    page.table(Table("Table 3: searches", words, header, tuple(rows)))


def _searches(study: Study, name: str, k: int | None = None) -> list[str]:
    """Robust accuracy under each search and its price."""
    attacks = {
        "BF*": du.BFS(study.size.expansions), "MOEVA": study.moeva, "Graft": study.graft,
    }  # fmt: skip
    line, few = [], study.size.few
    for label, attack in attacks.items():
        found = [study.run(name, attack, rows=few)]
        if label != "BF*" and k is not None:
            found = study.seeds(name, attack, rows=few)
        known = paper.TABLE3.get(label)
        line.append(percent(rate(found), known[k] if known and k is not None else None))
        line.append("-" if found[0] is None else f"{found[0].cpu:.0f}")
    return line


def trees(study: Study, page: Page) -> None:
    """Trees have no gradient, so no CAA; but what is true of them can be decided."""
    rows, few = [], study.size.few
    exact = du.Then(du.Exact(2.0), study.graft)
    for name in TREES:
        found = study.run(name, exact, rows=few)
        if found is None:
            continue
        left = int((found.robust & ~found.proven).sum())
        rows.append((
            name, percent(rate([found], "clean")), *_searches(study, name),
            percent(rate([found], "proven")), percent(rate([found])), str(left),
            f"{found.cpu:.0f}",
        ))  # fmt: skip
    words = (
        f"{few} rows, one seed. The searches' figures are upper bounds of robust accuracy; the "
        "last four columns are what `Then(Exact(2), Graft())` proves (at least), what it does "
        "not break (at most), how many rows stay open, and its CPU seconds."
    )
    header = (
        "model", "clean", "BF*", "CPU-s", "MOEVA", "CPU-s", "Graft", "CPU-s", "at least", "at most",
        "open", "CPU-s",
    )  # fmt: skip
    page.table(Table("Trees, from both sides", words, header, tuple(rows)))


def table4(study: Study, page: Page) -> None:
    rows = []
    for k, name in enumerate(FIVE):
        more = {"relations": "meant", "rows": study.size.few}  # robust rows cost a whole search
        plain = study.nets(name, study.caa, **more)
        hard = study.nets(name, study.caa, madry=True, **more)
        ours = study.nets(name, study.ours, madry=True, **more)
        test = du.datasets.url().test
        if any(hard):
            count = [m for m, o in enumerate(hard) if o]
            right = [accuracy(study.zoo.get(name, m, True), test) for m in count]
            overall = " ".join(f"{100 * r:.1f}" for r in right)
        rows.append((
            name, percent(rate(hard, "clean"), paper.TABLE4["clean"][k]),
            overall if any(hard) else "-", percent(rate(plain)),
            percent(rate(hard), paper.TABLE4["CAA"][k]), each(hard), percent(rate(ours)),
        ))  # fmt: skip
    header = (
        "model", "phishing rows, clean", "test accuracy by seed", "CAA, standard", "CAA, Madry",
        "by training seed", "CAA with Graft, Madry",
    )  # fmt: skip
    words = (
        f"Accuracy in % [95 %] (paper's Madry), relations as meant, {study.size.few} rows, "
        f"{study.size.nets} training seeds; Madry with CAPGD in the table inside."
    )
    page.table(Table("Table 4: adversarial training", words, header, tuple(rows)))


def table7(study: Study, page: Page) -> None:
    rows = []
    for k, name in enumerate(FIVE):
        found = {v: study.seeds(name, a, relations="meant") for v, a in study.variants.items()}
        cells = [percent(rate(o), paper.TABLE7[v][k]) for v, o in found.items()]
        weaker = [v for v in found if v != "CAPGD" and gap(found[v], found["CAPGD"]) > 0]
        rows.append((name, *cells, ", ".join(weaker) or "none"))
    header = ("model", *study.variants, "surely weaker than CAPGD")
    words = (
        f"Robust accuracy in % [95 %] (paper), relations as meant, {study.size.rows} rows, "
        f"{study.size.seeds} seeds. Last column: paired difference to CAPGD above 0 at 95 %."
    )
    page.table(Table("Table 7: ablations of CAPGD", words, header, tuple(rows)))


def published(study: Study, page: Page) -> None:
    """LCLD and CTU-13: the networks MOEVA's authors published."""
    rows = []
    for data in ("lcld", "ctu13"):
        for label, attack in {
            "CPGD": du.CPGD(), "CAPGD": du.CAPGD(), "BF*": du.BFS(study.size.expansions),
            "MOEVA": study.moeva, "CAA": study.caa,
        }.items():  # fmt: skip
            for eps in (0.5, 0.2):
                few = study.size.few if label in ("BF*", "MOEVA") else 387
                more = {"data": data, "relations": "meant", "eps": eps, "rows": few}
                o = study.run("published", attack, **more)
                cpu = "-" if o is None else f"{o.cpu:.0f}"
                clean = percent(rate([o], "clean"))
                rows.append((data, label, f"{eps:g}", clean, percent(rate([o])), cpu))
    header = ("data", "attack", "eps", "clean", "robust", "CPU-s")
    words = (
        "MOEVA's published networks; loans count as bad from a probability of 0.25 on. The "
        "paper's own LCLD and CTU networks are others, so its figures are not put beside these."
    )
    page.table(Table("LCLD and CTU-13", words, header, tuple(rows)))
