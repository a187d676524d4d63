"""The CAA paper's tables and figures, re-run on URL; its attacks on trees, LCLD and CTU-13 besides.

    python studies/caa.py                                    # full: about 50 CPU-minutes
    python studies/caa.py --quick                            # the same on toy sizes
    python studies/caa.py --only clean table3 table4         # some of it
    python studies/caa.py --models moeva_published_models.npz --only published
    python studies/caa.py --show                             # the tables from what is there

Every cell (one attack, one model, one seed) is kept in --out as soon as it is done, so a killed
study goes on where it was. Rows are valid phishing addresses of the test part, right or wrong: a
wrong one counts against the model, as in the paper. L2, eps 0.5, the authors' relations
("published": six of the 14 hold always) and the relations as meant.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import assay as ay
from assay.report import svg
from assay.report.stats import wilson
from assay.training import accuracy

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "benchmarks")]
import caa_paper as paper  # noqa: E402
from caa_cells import Cell, Outcome, Store, coverage, gap, rate, shared  # noqa: E402
from caa_models import FIVE, TREES, Zoo  # noqa: E402
from caa_page import Page, Table, percent  # noqa: E402

EPS = 0.5


@dataclass(frozen=True)
class Size:
    """How much is done."""

    rows: int = 1000
    few: int = 300  # rows of the slow cells: search alone, many generations
    seeds: int = 5  # of the attack
    nets: int = 3  # seeds of the training
    generations: int = 100
    factors: tuple[float, ...] = (0.5, 1, 2, 10)  # of generations, in Table 10
    lpf: int = 1000
    expansions: int = 100
    epochs: int | None = None
    madry_epochs: int = 30
    train: int | None = None
    small: bool = False


QUICK = Size(
    60, 30, 2, 1, 20, (0.5, 1, 2), 50, 10, epochs=8, madry_epochs=3, train=2000, small=True
)
TINY = Size(8, 8, 1, 1, 4, (1, 2), 3, 2, epochs=1, madry_epochs=1, train=200, small=True)


@dataclass
class Study:
    """The cells' settings, and the tables and figures as views of them."""

    out: Path
    size: Size
    models: str | None = None
    show: bool = False

    @cached_property
    def zoo(self) -> Zoo:
        s = self.size
        return Zoo(self.out / "models", s.epochs, s.madry_epochs, s.train, s.small)

    @cached_property
    def store(self) -> Store:
        return Store(self.out / "cells", self.rows, self.model, self.show)

    @cached_property
    def caa(self) -> ay.CAA:
        return ay.CAA(search=self.moeva)

    @cached_property
    def moeva(self) -> ay.MOEVA:
        return ay.MOEVA(self.size.generations)

    def rows(self, cell: Cell) -> tuple[ay.Dataset, Any]:
        """Valid rows of the critical class, drawn by their ids."""
        if cell.data == "url":
            data = ay.datasets.url(relations=cell.relations).test
            meant = ay.datasets.url().test.schema
        else:
            data = (ay.datasets.ctu13() if cell.data == "ctu13" else ay.datasets.lcld(47)).test
            meant = data.schema
        whole = meant.space(EPS).around(data.x).contains(data.x)
        data = data.take(whole & (data.y == 1))
        return data.sample(min(cell.rows, len(data)), seed=42), meant

    def model(self, cell: Cell) -> Any:
        if cell.data == "url":
            return self.zoo.get(cell.model, cell.seed_of_model, cell.madry)
        import pairs

        if self.models is None:
            raise SystemExit(f"{cell.data} needs --models, a path to moeva_published_models.npz")
        odds = float(np.log((1 - pairs.THRESHOLD) / pairs.THRESHOLD))
        if cell.data == "ctu13":
            return pairs.published(self.models, "botnet")
        return pairs.published(self.models, "lcld", odds)

    def cell(self, model: str, attack: Any, **more: Any) -> Cell:
        plain = Cell("url", "published", model, 0, False, attack, EPS, self.size.rows, 0)
        return replace(plain, **more)

    def run(self, model: str, attack: Any, **more: Any) -> Outcome | None:
        return self.store.get(self.cell(model, attack, **more))

    def seeds(self, model: str, attack: Any, **more: Any) -> list[Outcome | None]:
        """One outcome for each seed of the attack."""
        return [self.run(model, attack, seed=s, **more) for s in range(self.size.seeds)]

    def nets(self, model: str, attack: Any, **more: Any) -> list[Outcome | None]:
        """One outcome for each seed of the training."""
        count = range(self.size.nets)
        return [self.run(model, attack, seed_of_model=m, **more) for m in count]

    # Tables --------------------------------------------------------------------------------------

    def clean(self, page: Page) -> None:
        test, rows = ay.datasets.url().test, []
        for k, name in enumerate((*FIVE, "MLP", *TREES)):
            right = []
            for seed in range(self.size.nets if name not in TREES else 1):
                net = self.zoo.get(name, seed)
                if name in TREES:
                    right.append(float((net.predict(test.x.numpy()) == test.y.numpy()).mean()))
                else:
                    right.append(accuracy(net, test))
            first = wilson(round(right[0] * len(test)), len(test))
            each = " ".join(f"{100 * r:.1f}" for r in right)
            rows.append((name, percent(first), each, f"{paper.CLEAN[k]}" if k < 5 else "-"))
        words = (
            f"Accuracy on the {len(test)} test rows; the paper's figure is of its phishing rows."
        )
        header = ("model", "accuracy [95 %]", "by training seed", "paper")
        page.table(Table("Clean accuracy", words, header, tuple(rows)))

    def table2(self, page: Page) -> None:
        train = ay.datasets.url().train
        attacks = {
            "LPF": ay.LowProFool(self.size.lpf).noticed(train.x, train.y),
            "CPGD": ay.CPGD(),
            "CPGD, constant step": ay.CPGD(step=0.4),
            "CAPGD": ay.CAPGD(),
        }
        rows = []
        for k, name in enumerate(FIVE):
            found = [self.run(name, a) for a in attacks.values()]
            known = [paper.TABLE2.get(a, (None,) * 5)[k] for a in attacks]
            cells = [percent(rate([o]), p) for o, p in zip(found, known, strict=True)]
            rows.append((name, percent(rate(found[-1:], "clean"), paper.CLEAN[k]), *cells))
        words = (
            f"Robust accuracy in % [95 %] (paper), published relations, {self.size.rows} rows, one "
            f"seed; LowProFool with {self.size.lpf} steps."
        )
        page.table(
            Table("Table 2: gradient attacks", words, ("model", "clean", *attacks), (*rows,))
        )

    def table3(self, page: Page) -> None:
        rows, few = [], self.size.few
        for k, name in enumerate(FIVE):
            capgd = rate(self.seeds(name, ay.CAPGD()))
            caa = self.seeds(name, self.caa)
            meant = self.seeds(name, self.caa, relations="meant")
            nets = self.nets(name, self.caa)
            each = " ".join("-" if o is None else f"{100 * o.robust.mean():.1f}" for o in nets)
            broken = [f"{o.broken} of {int((o.clean & ~o.robust).sum())}" for o in caa[:1] if o]
            paid = [f"{o.cpu:.0f}" for o in caa[:1] if o]
            rows.append((
                name, percent(capgd, paper.TABLE3["CAPGD"][k]),
                percent(rate(caa), paper.TABLE3["CAA"][k]), percent(rate(meant)), each,
                *(broken or ["-"]), *(paid or ["-"]),
            ))  # fmt: skip
        header = (
            "model", "CAPGD", "CAA, published", "CAA, as meant", "CAA by training seed",
            "successes that break what was meant", "CPU-s of CAA",
        )  # fmt: skip
        words = (
            f"Robust accuracy in % [95 %] (paper), {self.size.rows} rows, {self.size.seeds} seeds "
            "of the attack on the first network."
        )
        page.table(Table("Table 3: CAPGD and CAA", words, header, tuple(rows)))
        rows = []
        for k, name in enumerate((*FIVE, *TREES)):
            attacks = {"BF*": ay.BFS(self.size.expansions), "MOEVA": self.moeva}
            line = [name]
            for label, attack in attacks.items():
                o = self.run(name, attack, rows=few)
                line.append(percent(rate([o]), paper.TABLE3[label][k] if k < 5 else None))
                line.append("-" if o is None else f"{o.cpu:.0f}")
            rows.append(tuple(line))
        words = f"The searches alone, {few} rows, one seed; trees have no gradient, so no CAA."
        header = ("model", "BF*", "CPU-s", "MOEVA", "CPU-s")
        page.table(Table("Table 3: searches, and trees", words, header, tuple(rows)))

    def table4(self, page: Page) -> None:
        rows = []
        for k, name in enumerate(FIVE):
            plain = self.nets(name, self.caa, relations="meant")
            hard = self.nets(name, self.caa, relations="meant", madry=True)
            each = " ".join("-" if o is None else f"{100 * o.robust.mean():.1f}" for o in hard)
            test = ay.datasets.url().test
            if any(hard):
                count = [m for m, o in enumerate(hard) if o]
                right = [accuracy(self.zoo.get(name, m, True), test) for m in count]
                overall = " ".join(f"{100 * r:.1f}" for r in right)
            rows.append((
                name, percent(rate(hard, "clean"), paper.TABLE4["clean"][k]),
                overall if any(hard) else "-", percent(rate(plain)),
                percent(rate(hard), paper.TABLE4["CAA"][k]), each,
            ))  # fmt: skip
        header = (
            "model", "phishing rows, clean", "test accuracy by seed", "CAA, standard", "CAA, Madry",
            "by training seed",
        )  # fmt: skip
        words = (
            f"Accuracy in % [95 %] (paper's Madry), relations as meant, {self.size.rows} rows, "
            f"{self.size.nets} training seeds; Madry with CAPGD in the table inside."
        )
        page.table(Table("Table 4: adversarial training", words, header, tuple(rows)))

    @cached_property
    def variants(self) -> dict[str, ay.CAPGD]:
        return {
            "NREP": ay.CAPGD(repair=False), "NINI": ay.CAPGD(clean=False),
            "NRAN": ay.CAPGD(random=False), "NADA": ay.CAPGD(adaptive=False), "CAPGD": ay.CAPGD(),
        }  # fmt: skip

    def table7(self, page: Page) -> None:
        rows = []
        for k, name in enumerate(FIVE):
            found = {v: self.seeds(name, a, relations="meant") for v, a in self.variants.items()}
            cells = [percent(rate(o), paper.TABLE7[v][k]) for v, o in found.items()]
            weaker = [v for v in found if v != "CAPGD" and gap(found[v], found["CAPGD"]) > 0]
            rows.append((name, *cells, ", ".join(weaker) or "none"))
        header = ("model", *self.variants, "surely weaker than CAPGD")
        words = (
            f"Robust accuracy in % [95 %] (paper), relations as meant, {self.size.rows} rows, "
            f"{self.size.seeds} seeds. Last column: paired difference to CAPGD above 0 at 95 %."
        )
        page.table(Table("Table 7: ablations of CAPGD", words, header, tuple(rows)))

    def _budget(self, page: Page, title: str, name: str, axis: str, cells: Any, known: Any) -> None:
        """A table and a figure (the paper's figures 3 and 5-7) of CAA against a budget."""
        series, rows = {}, []
        for k, model in enumerate(FIVE):
            found = {b: rate([self.run(model, a, **more)]) for b, (a, more) in cells.items()}
            rows.append((
                model,
                *(percent(e, known.get(f"{b:g}", (None,) * 5)[k]) for b, e in found.items()),
            ))  # fmt: skip
            points = [(float(np.log10(b)), e) for b, e in found.items() if e is not None]
            if points:
                series[model] = points
        words = "Robust accuracy in % [95 %] under CAA (paper), published relations, one seed."
        page.table(Table(title, words, ("model", *(f"{b:g}" for b in cells)), tuple(rows)))
        if series:
            page.figure(name, f"{title}: curves", svg.curves(series, title, f"log10 of {axis}"))

    def table8(self, page: Page) -> None:
        cells = {e: (self.caa, {"eps": e, "rows": self.size.few}) for e in (0.25, 0.5, 1.0, 5.0)}
        self._budget(page, "Table 8: eps", "figure5", "eps", cells, paper.TABLE8)

    def table9(self, page: Page) -> None:
        def cell(n: int) -> Any:
            return ay.CAA(ay.CAPGD(n), self.moeva), {"rows": self.size.few}

        cells = {n: cell(n) for n in (5, 10, 20, 100)}
        self._budget(page, "Table 9: CAPGD steps", "figure6", "steps", cells, paper.TABLE9)

    def table10(self, page: Page) -> None:
        counts = [max(2, round(f * self.size.generations)) for f in self.size.factors]
        cells = {n: (ay.CAA(search=ay.MOEVA(n)), {"rows": min(200, self.size.few)}) for n in counts}
        self._budget(page, "Table 10: generations", "figure7", "generations", cells, paper.TABLE10)

    def published(self, page: Page) -> None:
        """LCLD and CTU-13: the networks MOEVA's authors published."""
        rows = []
        for data in ("lcld", "ctu13"):
            for label, attack in {
                "CPGD": ay.CPGD(), "CAPGD": ay.CAPGD(), "BF*": ay.BFS(self.size.expansions),
                "MOEVA": self.moeva, "CAA": self.caa,
            }.items():  # fmt: skip
                for eps in (0.5, 0.2):
                    few = self.size.few if label in ("BF*", "MOEVA") else 387
                    more = {"data": data, "relations": "meant", "eps": eps, "rows": few}
                    o = self.run("published", attack, **more)
                    cpu = "-" if o is None else f"{o.cpu:.0f}"
                    clean = percent(rate([o], "clean"))
                    rows.append((data, label, f"{eps:g}", clean, percent(rate([o])), cpu))
        header = ("data", "attack", "eps", "clean", "robust", "CPU-s")
        words = (
            "MOEVA's published networks; loans count as bad from a probability of 0.25 on. The "
            "paper's own LCLD and CTU networks are others, so its figures are not put beside these."
        )
        page.table(Table("LCLD and CTU-13", words, header, tuple(rows)))

    # Figures -------------------------------------------------------------------------------------

    def figures(self, page: Page) -> None:
        """Figures 1, 2 and 4; 3 is the curves of Tables 8 to 10."""
        train, few = ay.datasets.url().train, self.size.few
        lpf = ay.LowProFool(self.size.lpf).noticed(train.x, train.y)
        gradient = {"CAPGD": ay.CAPGD(), "CPGD": ay.CPGD(), "LowProFool": lpf}
        search = {"CAPGD": ay.CAPGD(), "MOEVA": self.moeva, "BF*": ay.BFS(self.size.expansions)}
        for name, title, attacks, more in (
            ("figure1", "Figure 1: rows broken by whom, gradient attacks", gradient, {}),
            ("figure2", "Figure 2: rows broken by whom, searches", search, {"rows": few}),
        ):
            found = {a: [self.run(m, how, **more) for m in FIVE] for a, how in attacks.items()}
            page.figure(name, title, svg.bars(shared(found), title, "rows"))
        title = "Figure 4: share of A's or B's successes that B has"
        cover = coverage(
            {v: [self.seeds(m, a, relations="meant") for m in FIVE]
             for v, a in self.variants.items()}
        )  # fmt: skip
        names = list(self.variants)
        page.figure("figure4", title, svg.heat(np.round(cover, 3), names, names, title))


ORDER = ("clean", "table3", "table4", "table7", "table2", "table8", "table9", "table10", "figures")


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="toy sizes, a few minutes")
    options.add_argument("--tiny", action="store_true", help="smaller still: does it run?")
    options.add_argument("--show", action="store_true", help="compute nothing, show what is there")
    options.add_argument("--only", nargs="+", choices=(*ORDER, "published"))
    options.add_argument("--models", help="moeva_published_models.npz, for LCLD and CTU-13")
    options.add_argument("--out", type=Path, help="default: runs/caa, or runs/caa-quick")
    given = options.parse_args(argv)
    torch.set_num_threads(1)
    size = TINY if given.tiny else QUICK if given.quick else Size()
    out = given.out or Path("runs/caa-quick" if given.quick else "runs/caa")
    study = Study(out, size, given.models, given.show)
    about = f"assay {version('assay')}, torch {torch.__version__}, {size!r}"
    page = Page(out, about)
    for name in given.only or (*ORDER, *(["published"] if given.models else [])):
        getattr(study, name)(page)
        page.write()
    print(f"{out / 'caa.md'} and {out / 'caa.html'}")


if __name__ == "__main__":
    main()
