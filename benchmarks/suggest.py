"""Rules that a table's own rows give away: `Schema.suggest` beside plain mining.

    python benchmarks/suggest.py [--smoke] [--lcld FILE.csv.gz]

Rules are mined on one half of the rows. *Found*: of records that break a known rule (one of its
columns takes another row's value), nearly all are refused by what was mined. *False*: a share of
the other half, real rows all of them, is refused; and of a made-up table, whose rules are known to
the last one, a share of fresh records drawn from wider ranges.

Plain mining takes every order, equality and "if a > 0 then b > 0" between two columns, and every
set of at most six values, that holds in 99.8 % of the rows: no test against chance.
CaFA's constraints (Ben-Tov et al., Oakland 2024) are denial constraints mined by FastADC; the
FastADC of the package desbordante takes at most 128 predicates, which 17 columns exceed.

What a reader would get wrong: known rules are those that the published schema or the generator
states. Others may hold too; that a rule is "not known" does not make it false.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

import durometer as du
from durometer.relations import parse
from durometer.relations.expression import Column, walk

BROKEN = 0.002
REST = 1e-9

Refuses = Callable[[np.ndarray], np.ndarray]  # (n, d) records -> (n,) refused


class Mined(NamedTuple):
    """What a miner gives: how many rules, and whether a record breaks one of them."""

    rules: int
    refuses: Refuses
    seconds: float


class Table(NamedTuple):
    """Rows as numbers, the rules that are known, and fresh valid records of a made-up table."""

    name: str
    frame: pd.DataFrame
    known: list[str]
    fresh: pd.DataFrame | None = None


def card(rows: int, rng: np.random.Generator, wide: float = 1.0) -> pd.DataFrame:
    """Made-up accounts: bills, payments, dates, rounded quotients, and columns without a rule."""
    limit = rng.integers(5, 80 * wide, rows) * 1000.0
    bills = (rng.beta(1.2, 1.2, (rows, 3)) * limit[:, None]).round(2)
    pays = (rng.beta(1, 1, (rows, 3)) ** (1 / wide) * bills).round(2)
    amount, term = rng.integers(1000, 40000 * wide, rows), rng.choice([12, 24, 36], rows)
    opened = rng.integers(10_000, 17_000, rows)
    return pd.DataFrame({
        "limit": limit, "bill1": bills[:, 0], "bill2": bills[:, 1], "bill3": bills[:, 2],
        "pay1": pays[:, 0], "pay2": pays[:, 1], "pay3": pays[:, 2],
        "bills": bills.sum(1).round(2), "left1": (bills[:, 0] - pays[:, 0]).round(2),
        "amount": amount, "term": term, "instalment": (amount / term).round(2),
        "opened": opened, "closed": opened + rng.integers(0, int(3000 * wide), rows),
        "age": rng.integers(18, 60 + int(30 * wide), rows), "calls": rng.poisson(2 * wide, rows),
        "score": rng.normal(600, 80 * wide, rows).round(1),
    })  # fmt: skip


CARD = [
    "bill1 <= limit", "bill2 <= limit", "bill3 <= limit", "pay1 <= bill1", "pay2 <= bill2",
    "pay3 <= bill3", "bills == bill1 + bill2 + bill3 within 0.0051",
    "left1 == bill1 - pay1 within 0.0051",
    "instalment == amount / term within 0.00501", "term in {12, 24, 36}", "opened <= closed",
]  # fmt: skip


def tables(lcld: Path | None, smoke: bool) -> list[Table]:
    rng = np.random.default_rng(0)
    n = 400 if smoke else 4000
    found = [Table("card (made up)", card(n, rng), CARD, card(2000, rng, 1.5))]
    url = du.datasets.url()
    schema = url.train.schema
    frame = pd.DataFrame(url.train.x.numpy(), columns=schema.names)
    found.append(Table("URL", frame.iloc[: 600 if smoke else None],
                       [str(r) for r in schema.relations]))  # fmt: skip
    german = du.datasets.german().train
    codes = pd.DataFrame(np.asarray(german.x), columns=german.schema.names)
    found.append(Table("German credit", codes, []))
    if lcld is not None:
        read = pd.read_csv(lcld).drop(columns=["charged_off"]).dropna(axis=1, how="all")
        found.append(Table("LCLD, 2007 to 2011", read, LCLD))
    return found


LCLD = [
    "open_acc <= total_acc",
    "pub_rec_bankruptcies <= pub_rec",
    "term in {36, 60}",
    "ratio_loan_amnt_annual_inc == loan_amnt / annual_inc",
    "ratio_open_acc_total_acc == open_acc / total_acc",
    "diff_issue_d_earliest_cr_line == floor(issue_d / 100) * 12 + issue_d % 100 - "
    "(floor(earliest_cr_line / 100) * 12 + earliest_cr_line % 100)",
    "ratio_pub_rec_diff_issue_d_earliest_cr_line == pub_rec / diff_issue_d_earliest_cr_line",
    "ratio_pub_rec_bankruptcies_diff_issue_d_earliest_cr_line == "
    "pub_rec_bankruptcies / diff_issue_d_earliest_cr_line",
    "installment == loan_amnt * (int_rate / 1200) * (1 + int_rate / 1200) ** term / "
    "((1 + int_rate / 1200) ** term - 1) within 0.1",
]


def holds(rules: list[str], frame: pd.DataFrame, x: np.ndarray) -> np.ndarray:
    """(n, rules): which rule holds in which record; the judge of all miners alike."""
    features = [du.Feature(str(c), "real", -1e12, 1e12) for c in frame.columns]
    program = du.Schema(features, rules).program
    rows = torch.as_tensor(x)
    return np.asarray(program.holds(rows, rows))


def by_suggest(frame: pd.DataFrame) -> Mined:
    began = time.process_time()
    found = du.Schema.suggest(frame)
    spent = time.process_time() - began
    rules = [str(c.relation) for c in found.candidates]
    return Mined(len(rules), lambda x: ~holds(rules, frame, x).all(1), spent)


def by_plain(frame: pd.DataFrame) -> Mined:
    began = time.process_time()
    x = frame.to_numpy(float)
    allowed = BROKEN * len(x)
    d = x.shape[1]
    above = np.stack([(x[:, [a]] > x + REST).sum(0) for a in range(d)])
    orders = [(a, b) for a, b in np.argwhere(above <= allowed).tolist() if a != b]
    on = x > 0
    alone = np.stack([(on[:, [a]] & ~on).sum(0) for a in range(d)])
    signs = [(a, b) for a, b in np.argwhere(alone <= allowed).tolist() if a != b]
    signs = [(a, b) for a, b in signs if on[:, a].any() and not on[:, b].all()]
    sets = [(c, np.unique(x[:, c])) for c in range(d) if len(np.unique(x[:, c])) <= 6]
    spent = time.process_time() - began

    def refuses(z: np.ndarray) -> np.ndarray:
        bad = np.zeros(len(z), bool)
        for a, b in orders:
            bad |= z[:, a] > z[:, b] + REST
        for a, b in signs:
            bad |= (z[:, a] > 0) & ~(z[:, b] > 0)
        for c, values in sets:
            bad |= ~np.isin(z[:, c], values)
        return bad

    return Mined(len(orders) + len(signs) + len(sets), refuses, spent)


def breaking(rule: str, frame: pd.DataFrame, rng: np.random.Generator, most: int) -> np.ndarray:
    """Records that break a rule: rows in which one of its columns takes another row's value."""
    x = frame.to_numpy(float)
    names = [e.name for e in walk(parse.relation(rule)) if isinstance(e, Column)]
    made = []
    for _ in range(4):
        z = x[rng.integers(0, len(x), 4 * most)].copy()
        for column in dict.fromkeys(names):
            at = rng.random(len(z)) < 1 / len(set(names))
            j = frame.columns.get_loc(column)
            spread = np.where(rng.random(len(z)) < 0.5, x[rng.integers(0, len(x), len(z)), j],
                              rng.integers(0, 2 + int(x[:, j].max()), len(z)))  # fmt: skip
            z[at, j] = spread[at]
        made.append(z[~holds([rule], frame, z)[:, 0]])
    return np.concatenate(made)[:most]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--lcld", type=Path, help="the 47 features as a CSV file, with charged_off")
    asked = parser.parse_args()
    miners = {"suggest": by_suggest, "plain": by_plain}
    print(
        "| table | miner | rules | known rules found | other half refused | fresh records refused |"
        " CPU-s |\n|---|---|--:|--:|--:|--:|--:|"
    )
    for table in tables(asked.lcld, asked.smoke):
        rng = np.random.default_rng(1)
        order = rng.permutation(len(table.frame))
        half = len(order) // 2
        first = table.frame.iloc[np.sort(order[:half])].reset_index(drop=True)
        other = table.frame.iloc[order[half:]].to_numpy(float)
        spoilt = {r: breaking(r, table.frame, rng, 100) for r in table.known}
        spoilt = {r: z for r, z in spoilt.items() if len(z)}  # some follow from the columns' ranges
        for name, miner in miners.items():
            mined = miner(first)
            found = [r for r, z in spoilt.items() if mined.refuses(z).mean() >= 0.95]
            refused = mined.refuses(other[:5000]).mean()
            fresh = "-"
            if table.fresh is not None:
                fresh = f"{mined.refuses(table.fresh.to_numpy(float)).mean():.3f}"
            print(f"| {table.name} | {name} | {mined.rules} | {len(found)} of {len(spoilt)} | "
                  f"{refused:.3f} | {fresh} | {mined.seconds:.2f} |", flush=True)  # fmt: skip
            missed = [r for r in spoilt if r not in found and name == "suggest"]
            for rule in missed:
                share = mined.refuses(spoilt[rule]).mean()
                print(f"  not found: {rule[:100]} (of records that break it, {share:.2f} refused)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
