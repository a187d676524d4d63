"""URL phishing: 11,430 web addresses, half of them phishing, 63 numeric features in raw units.

Origin: A. Hannousse and S. Yahiouche, "Towards benchmark datasets for machine learning based
website phishing detection", Engineering Applications of AI 104 (2021); Mendeley Data c2gw7fy2j4,
file dataset_B_05_2020.csv. Licence: CC BY 4.0. The whole set is bundled, without the addresses
themselves and without the 24 features of the page's content: the 63 kept are those of the CAA
paper, which an attacker changes by choosing the address and its registration.

The split is the paper's: 20 % test, stratified, then 20 % of the rest for validation, both with
scikit-learn's `train_test_split(random_state=42)`: 7,315 / 1,829 / 2,286. Its indices are stored in
that function's order, since subsets of the test set are drawn by position. Ids are rows of the CSV.

174 rows are duplicates of others once the address is dropped.

The 14 relations are the CAA paper's, all features mutable, bounds the smallest and largest value in
the data. The thing to get wrong: six of them are if-thens, and the authors' code has the premise of
each upside down ("0 <= a or b > 0" for "if a > 0 then b > 0"), so that they always hold. Here they
are what was meant, which 8 of the 11,430 rows break: row 705 (a host name of hexadecimal letters,
taken for an IP address) and seven whose subdomain starts like "www-" and has no digit.
`relations="published"` is for comparing with published figures.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits
from durometer.datasets import source

if TYPE_CHECKING:
    from durometer.tables.schema import Schema

CLASSES = ("legitimate", "phishing")
ROWS = 11_430

SIGNS = (
    *("dots", "hyphens", "at", "qm", "and", "or", "eq", "underscore", "tilde", "percent", "slash"),
    *("star", "colon", "comma", "semicolumn"),
)
# In the order of the paper's list, which has no 7th and no 9th.
RELATIONS = (
    "length_hostname <= length_url",
    " + ".join(f"nb_{sign}" for sign in SIGNS) + " + 3 * nb_space <= length_url",
    "if nb_com > 0 then nb_dots > 0",
    "if http_in_path > 0 then nb_slash > 0",
    "3 * nb_www + 4 * nb_com + 2 * http_in_path <= length_url",
    "if nb_space > 0 then ratio_digits_url > 0",
    "if ip > 0 then ratio_digits_url > 0",
    "if port > 0 then ratio_digits_url > 0",
    "if abnormal_subdomain > 0 then ratio_digits_host > 0",
    "nb_external_redirection <= nb_redirection",
    "3 * nb_www <= length_url + 1",
    "4 * nb_com <= length_url + 1",
    "4 * ip <= length_url + 1",
    "2 * http_in_path <= length_url + 1",
)


def url(
    path: str | os.PathLike[str] | None = None,
    relations: Literal["meant", "published"] = "meant",
) -> Splits:
    """URL phishing: 11,430 web addresses, half of them phishing, 63 features and 14 relations
    (Hannousse & Yahiouche, 2021); all are bundled.

    Args:
        path: Your copy of dataset_B_05_2020.csv (also .gz). None: the bundled rows.
        relations: "meant": the relations as their authors meant them, which 8 rows break.
            "published": as in the published code, whose if-then relations never fail; for
            comparisons with published figures.

    Returns:
        The `Splits` of the CAA paper.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> splits = url()
    >>> len(splits.train), len(splits.val), len(splits.test)
    (7315, 1829, 2286)
    >>> splits.test.schema
    Schema(url: 63 features, 63 mutable, 14 relations)
    """
    from durometer.data.dataset import Dataset

    described = schema(relations)
    stored = source.bundled("url")
    x, y = unpack(stored) if path is None else read(path, features())
    parts = {}
    for part in ("train", "val", "test"):
        rows = stored[part].astype(np.int64)
        parts[part] = Dataset(
            x[rows], y[rows], ids=rows, schema=described, classes=CLASSES, name=f"url/{part}"
        )
    return Splits(**parts)


def schema(relations: str = "meant") -> Schema:
    """Types, bounds and relations: as meant, or "published" with the authors' vacuous if-thens."""
    from durometer.tables.feature import Feature
    from durometer.tables.schema import Schema

    if relations not in ("meant", "published"):
        raise DurometerError(f'relations={relations!r}; expected "meant" or "published"')
    stored = source.bundled("url")
    x, _ = unpack(stored)
    columns = zip(features(), stored["is_real"], x.min(0), x.max(0), strict=True)
    described = [
        Feature(name, "real" if real else "integer", float(low), float(high))
        for name, real, low, high in columns
    ]
    texts = RELATIONS if relations == "meant" else tuple(_inverted(text) for text in RELATIONS)
    return Schema(described, texts, "url")


def _inverted(text: str) -> str:
    """The if-then as it stands in the authors' code."""
    found = re.fullmatch(r"if (\w+) > 0 then (\w+) > 0", text)
    return f"0 <= {found[1]} or 0 < {found[2]}" if found else text


def features() -> tuple[str, ...]:
    """The names of the 63 columns, in order."""
    return tuple(source.bundled("url")["features"].tolist())


def unpack(stored: source.Arrays) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Counts are stored as integers, ratios as floats: a third of the size, the same values."""
    real = stored["is_real"]
    x = np.empty((len(stored["y"]), len(real)))
    x[:, ~real] = stored["counts"]
    x[:, real] = stored["ratios"]
    return x, stored["y"]


def read(
    path: str | os.PathLike[str], names: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features and labels (1 = phishing) from the public CSV."""
    frame = source.table(path, (*names, "status"), ROWS)
    unknown = sorted(set(frame["status"]) - set(CLASSES))
    if unknown:
        raise DurometerError(f"{path}: status holds {unknown[:3]}; expected {list(CLASSES)}")
    y = (frame["status"] == "phishing").to_numpy().astype(np.int64)
    return frame[list(names)].to_numpy().astype(np.float64), y
