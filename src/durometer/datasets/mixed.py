"""Four public tables with text, whole numbers and gaps: adult, german, bank, heart.

Origin: the UCI machine learning repository, all under CC BY 4.0. Adult: Becker and Kohavi 1996 (the
official test part). German credit: Hofmann 1994. Bank marketing: Moro, Rita and Cortez 2014.
Cleveland heart disease: Janosi, Steinbrunn, Pfisterer and Detrano 1988. Bundled: 2,000 rows each of
adult and bank, drawn by class, the whole of german and heart; `path=` reads the full table.

The thing to get wrong: kinds and bounds are those of the rows at hand; who may change what, and the
relations, are our reading of the papers, not part of the data. `duration` of a bank call is known
only after it: a model that uses it cannot be used before.

Split: a quarter is the test part, by `Dataset.split` (seed 0). Ids are rows of the source's file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from durometer.data.splits import Splits
from durometer.datasets import source

if TYPE_CHECKING:
    import pandas as pd

    from durometer.tables.schema import Schema

EDUCATION = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school"),
    "Doctorate",
)


def _degrees() -> list[str]:
    pairs = enumerate(EDUCATION, 1)
    return [f"if education == '{e}' then education_num == {i}" for i, e in pairs]


@dataclass(frozen=True)
class Table:
    """What is known of a table besides its cells."""

    target: str
    rows: int
    fixed: Sequence[str]  # not in the hands of whom the record is about
    relations: Sequence[str] = ()
    categories: Sequence[str] = ()  # numbers that are codes
    grows: Sequence[str] = ()  # may grow, not shrink


TABLES = {
    "adult": Table(
        "income",
        16_281,
        ("age", "fnlwgt", "race", "sex", "native_country", "marital_status", "relationship"),
        (
            "capital_gain == 0 or capital_loss == 0",
            *_degrees(),
            "if relationship == 'Husband' then marital_status != 'Never-married'",
        ),
        grows=("education_num",),
    ),
    "german": Table(
        "risk",
        1_000,
        ("credit_history", "personal_status", "age", "existing_credits", "dependents",
         "foreign_worker", "residence_since"),
        ("installment_rate in {1, 2, 3, 4}",),
    ),
    "bank": Table(
        "y",
        45_211,
        ("age", "job", "marital", "education", "default", "day", "month", "duration", "pdays",
         "previous", "poutcome"),
        ("pdays == -1 or pdays >= 1", "if pdays == -1 then previous == 0",
         "if previous == 0 then pdays == -1", "campaign >= 1"),
    ),
    "heart": Table(
        "num",
        303,
        ("age", "sex"),
        categories=("cp", "restecg", "slope", "thal"),
    ),
}  # fmt: skip


def adult(path: str | os.PathLike[str] | None = None) -> Splits:
    """Adult: does a person earn more than 50,000 dollars a year? 14 columns, 8 of them text (Becker
    & Kohavi, 1996).

    Args:
        path: Your copy of the full table, from the UCI repository. None: the bundled sample (2,000
            rows).

    Returns:
        The `Splits`. What may change and the relations are our reading of the columns.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> adult().test.where(y=">50K").column("education")[:1].tolist()
    ['Prof-school']
    """
    return _splits("adult", path)


def german(path: str | os.PathLike[str] | None = None) -> Splits:
    """German credit: a good or a bad risk? 20 columns, 13 of them coded text (Hofmann, 1994).

    Args:
        path: Your copy of the full table, from the UCI repository. None: the bundled sample (all
            rows).

    Returns:
        The `Splits`. What may change and the relations are our reading of the columns.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> data = german().test
    >>> len(data), data.classes
    (250, ('bad', 'good'))
    """
    return _splits("german", path)


def bank(path: str | os.PathLike[str] | None = None) -> Splits:
    """Bank marketing: does the client take the deposit? 16 columns, 9 of them text (Moro et al.,
    2014).

    Args:
        path: Your copy of the full table, from the UCI repository. None: the bundled sample (2,000
            rows).

    Returns:
        The `Splits`. What may change and the relations are our reading of the columns.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> bank().test.schema
    Schema(bank: 16 features, 5 mutable, 4 relations)
    """
    return _splits("bank", path)


def heart(path: str | os.PathLike[str] | None = None) -> Splits:
    """Cleveland heart disease: is it present? 13 measurements, some of them missing (Janosi et al.,
    1988).

    Args:
        path: Your copy of the full table, from the UCI repository. None: the bundled sample (all
            rows).

    Returns:
        The `Splits`. What may change and the relations are our reading of the columns.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> heart().train.classes
    ('not_present', 'present')
    """
    return _splits("heart", path)


def _splits(name: str, path: str | os.PathLike[str] | None) -> Splits:
    from durometer.data.dataset import Dataset

    known = TABLES[name]
    frame = _bundled(name)
    if path is not None:
        frame = source.table(path, [c for c in frame.columns if c != "row"], known.rows)
        frame = frame.assign(row=range(len(frame)))
    schema = describe(name, frame)
    data = Dataset(frame, target=known.target, ids="row", schema=schema, name=name)
    train, test = data.split(0.25)
    return Splits(
        train=replace(train, name=f"{name}/train"), test=replace(test, name=f"{name}/test")
    )


def _bundled(name: str) -> pd.DataFrame:
    import pandas as pd

    with as_file(files("durometer.datasets") / "samples" / f"{name}.csv.gz") as file:
        return pd.read_csv(file)


def describe(name: str, frame: pd.DataFrame) -> Schema:
    """The schema of a table: kinds and bounds from its rows, the rest as written above."""
    from durometer.tables.discovery.kinds import kinds
    from durometer.tables.schema import Schema

    known = TABLES[name]
    made = []
    for f in kinds(frame.drop(columns=[known.target, "row"])).features:
        changes: dict[str, Any] = {"mutable": f.name not in known.fixed}
        if f.name in known.categories:
            codes = sorted({int(v) for v in frame[f.name].dropna()})
            changes |= {"kind": "category", "low": None, "high": None, "values": tuple(codes)}
        if f.name in known.grows:
            changes["low"] = "original"
            changes["scale"] = (float(f.low or 0), float(f.high or 0))
        made.append(replace(f, **changes))
    return Schema(made, known.relations, name)
