"""The CAA study's settings: which rows, which models, how much of everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from cells import Cell, Outcome, Store
from loans import FILES, Lender
from loans import critical as charged_off
from models import Zoo

import durometer as du

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
    madry_epochs: int = 15
    train: int | None = None
    small: bool = False


QUICK = Size(
    60, 30, 2, 1, 20, (0.5, 1, 2), 50, 10, epochs=8, madry_epochs=3, train=2000, small=True
)
TINY = Size(8, 8, 1, 1, 4, (1, 2), 3, 2, epochs=1, madry_epochs=1, train=200, small=True)


@cache
def critical(name: str, relations: str) -> tuple[du.Dataset, Any]:
    """Valid rows of the critical class, and the schema as meant."""
    if name == "url":
        data, meant = du.datasets.url(relations=relations).test, du.datasets.url().test.schema
    else:
        data = (du.datasets.ctu13() if name == "ctu13" else du.datasets.lcld(47)).test
        meant = data.schema
    whole = meant.space(EPS).around(data.x).contains(data.x)
    return data.take(whole & (data.y == 1)), meant


@dataclass
class Study:
    """The cells' settings, and the tables and figures as views of them."""

    out: Path
    size: Size
    models: str | None = None
    show: bool = False
    loans: Path | None = None

    @cached_property
    def zoo(self) -> Zoo:
        s = self.size
        return Zoo(self.out / "models", s.epochs, s.madry_epochs, s.train, s.small)

    @cached_property
    def lender(self) -> Lender:
        return Lender(self.zoo, self.loans)

    @cached_property
    def store(self) -> Store:
        return Store(self.out / "cells", self.rows, self.model, self.show)

    @cached_property
    def caa(self) -> du.CAA:
        return du.CAA(search=self.moeva)

    @property
    def ours(self) -> du.CAA:
        """Our own search in MOEVA's place."""
        return du.CAA(search=self.graft)

    @cached_property
    def moeva(self) -> du.MOEVA:
        return du.MOEVA(self.size.generations)

    @property
    def graft(self) -> du.Graft:
        return du.Graft(30 * self.size.generations)

    def rows(self, cell: Cell) -> tuple[du.Dataset, Any]:
        if cell.data in FILES:
            data, meant = charged_off(self.loans, cell.data)
        else:
            data, meant = critical(cell.data, cell.relations)
        return data.sample(min(cell.rows, len(data)), seed=42), meant

    def model(self, cell: Cell) -> Any:
        if cell.data == "url":
            return self.zoo.get(cell.model, cell.seed_of_model, cell.madry)
        if cell.data in FILES:
            return self.lender.get(cell.data, cell.model, cell.seed_of_model)
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

    @cached_property
    def variants(self) -> dict[str, du.CAPGD]:
        return {
            "NREP": du.CAPGD(repair=False), "NINI": du.CAPGD(clean=False),
            "NRAN": du.CAPGD(random=False), "NADA": du.CAPGD(adaptive=False), "CAPGD": du.CAPGD(),
        }  # fmt: skip
