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
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.datasets import source
from assay.datasets.splits import Splits
from assay.errors import AssayError

CLASSES = ("legitimate", "phishing")
ROWS = 11_430


def url(path: str | os.PathLike[str] | None = None) -> Splits:
    """The whole set; with `path` from your copy of dataset_B_05_2020.csv (also .gz), same split.

    >>> splits = url()
    >>> len(splits.train), len(splits.val), len(splits.test)
    (7315, 1829, 2286)
    """
    from assay.data import Dataset

    stored = source.bundled("url")
    x, y = unpack(stored) if path is None else read(path, features())
    parts = {}
    for part in ("train", "val", "test"):
        rows = stored[part].astype(np.int64)
        parts[part] = Dataset(x[rows], y[rows], ids=rows, classes=CLASSES, name=f"url/{part}")
    return Splits(**parts)


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
        raise AssayError(f"{path}: status holds {unknown[:3]}; expected {list(CLASSES)}")
    y = (frame["status"] == "phishing").to_numpy().astype(np.int64)
    return frame[list(names)].to_numpy().astype(np.float64), y
