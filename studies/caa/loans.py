"""LCLD: the five architectures trained on real loans, attacked on the sample that durometer ships.

Neither set has all 28 features of the paper: the loans of 2007-2011 have no credit score and no
count of mortgages, those of 2007-2014 have half of the columns. A network gets the features that
its loans have, and the relations between those. Missing raw columns are filled with one value, so
that the same preparation runs, and features made of columns that never vary are dropped. The rows
under attack are the charged-off loans of the sample, issued 2013-2017; the loans of 2007-2014 may
hold a few of them, as they carry no id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import paper
import torch
from cells import rate
from models import FIVE, NETS, kept
from page import Page, Table, percent
from sklearn.metrics import roc_auc_score

import durometer as du
from durometer.datasets import lending
from durometer.datasets.lcld import engineer, schema

FILES = {
    "loans11": "lcld_raw_2007_2011.csv.gz",
    "loans14": "lending_club_2007_2014_16cols.parquet",
}
YEARS = {"loans11": "2007-2011", "loans14": "2007-2014"}
# Raw columns that a file lacks, a value that can be read, and the features that come from it.
FILLED = {
    "fico_range_low": (0, "fico_score"), "fico_range_high": (0, "fico_score"),
    "mort_acc": (0, "mort_acc"), "dti": (0, "dti"), "pub_rec": (0, "pub_rec"),
    "revol_bal": (0, "revol_bal"), "revol_util": (0, "revol_util"),
    "pub_rec_bankruptcies": (0, "pub_rec"), "issue_d": ("Jan-2010", "month"),
    "earliest_cr_line": ("Jan-2000", "month"), "initial_list_status": ("f", "initial_list_status"),
    "application_type": ("Individual", "application_type"),
}  # fmt: skip


@cache
def features(folder: Path, name: str) -> tuple[str, ...]:
    """The features of the 28 that these loans have."""
    raw = _raw(folder, name)
    lacking = {made for column, (_, made) in FILLED.items() if raw[column].nunique() < 2}
    return tuple(f for f in schema(28).names if not any(part in f for part in lacking))


@cache
def _raw(folder: Path, name: str) -> pd.DataFrame:
    file = folder / FILES[name]
    raw = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
    if pd.api.types.is_numeric_dtype(raw["loan_status"]):
        raw["loan_status"] = raw["loan_status"].map(dict(enumerate(lending.STATUS)))
    for column, (value, _) in FILLED.items():
        if column not in raw or raw[column].isna().all():
            raw[column] = value
    texts = {column: object for column in lending.TEXTS}
    return raw[raw["loan_status"].isin(lending.STATUS)].astype(texts)


@cache
def loans(folder: Path, name: str, most: int) -> du.Dataset:
    """Loans to train on."""
    prepared = lending.prepare(_raw(folder, name))
    chosen = schema(28).select(features(folder, name))
    x = chosen.tensor(engineer(prepared, 28)[list(chosen.names)])
    data = du.Dataset(x, prepared["charged_off"].to_numpy(), schema=chosen)
    return data.sample(min(most, len(data)), seed=42)


def sample(folder: Path, name: str) -> du.Dataset:
    """The bundled loans with the same features, both classes, those that are valid."""
    data = du.datasets.lcld().test
    chosen = data.schema.select(features(folder, name))
    x = data.x[:, [data.schema.names.index(n) for n in chosen.names]]
    valid = chosen.space(0.5).around(x).contains(x)
    return du.Dataset(x, data.y, data.ids, chosen).take(valid)


@dataclass(frozen=True)
class Lender:
    """Networks trained on one of the two sets, kept in `zoo`'s folder."""

    zoo: Any
    folder: Path
    most: int = 20_000

    def file(self, data: str, name: str, seed: int = 0) -> Path:
        """Where it is kept, once it is trained."""
        return self.zoo.folder / f"{data}-{name.strip('.')}-{seed}.pt"

    def get(self, data: str, name: str, seed: int = 0) -> Any:
        """The network, trained if it is not there yet."""
        train = loans(self.folder, data, self.zoo.rows or self.most)
        small = self.zoo.shape(name)

        def make() -> Any:
            net = NETS[name](train.schema, seed=seed, **small)
            return net.fit(train.x, train.y, epochs=self.zoo.epochs)

        return kept(self.file(data, name, seed), make)


def table(study: Any, page: Page) -> None:
    """Robust accuracy of the networks trained on loans, and how good they are without attack."""
    rows = []
    for data in FILES:
        part = sample(study.loans, data)
        for k, name in enumerate(FIVE):
            if study.show and not study.lender.file(data, name).exists():
                continue
            net = study.lender.get(data, name)
            with torch.no_grad():
                area = roc_auc_score(part.y.numpy(), net(part.x).diff(dim=1)[:, 0].numpy())
            more = {"data": data, "relations": "meant"}
            found = [study.run(name, a, **more) for a in (du.CAPGD(), study.caa, study.ours)]
            known = [paper.LCLD["CAPGD"][k], paper.LCLD["CAA"][k], None]
            cells = [percent(rate([o]), p) for o, p in zip(found, known, strict=True)]
            clean = percent(rate(found[:1], "clean"), paper.LCLD["clean"][k])
            rows.append((YEARS[data], name, f"{area:.3f}", clean, *cells))
    count = int((part.y == 1).sum())
    widths = " and ".join(str(len(features(study.loans, d))) for d in FILES)
    words = (
        f"Accuracy in % [95 %] on the {count} charged-off loans of the sample (paper: other "
        f"networks, 28 features, all loans of 2013-2017), {widths} features, L2, eps 0.5, one seed."
    )
    header = ("trained on", "model", "AUC", "clean", "CAPGD", "CAA", "CAA with Graft")
    page.table(Table("LCLD: networks trained on real loans", words, header, tuple(rows)))


def critical(folder: Path, name: str) -> tuple[du.Dataset, Any]:
    """Charged-off loans of the sample, with their schema."""
    part = sample(folder, name)
    return replace(part.where(y=1), name=name), part.schema
