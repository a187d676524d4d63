"""Examples: a few successful attacks, before and after, so that a report can explain itself.

A report holds what the attacker handed in, not the clean data; to show changes side by side some
clean rows are kept here: the nearest successes, plus which features were changed over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.data import Dataset
from assay.records import Records

MOST = 12


@dataclass(frozen=True, eq=False)
class Examples:
    """`places` are rows of the report's table; inputs as in the data, shape (k, ...)."""

    places: np.ndarray
    clean: np.ndarray
    adversarial: np.ndarray
    names: tuple[str, ...]  # of the features, for tables
    units: tuple[str, ...]
    changed: np.ndarray  # (features,): in how many successes each feature was changed

    def save(self, path: Path) -> None:
        np.savez(
            path,
            places=self.places,
            clean=self.clean,
            adversarial=self.adversarial,
            names=np.array(self.names, str),
            units=np.array(self.units, str),
            changed=self.changed,
        )

    @classmethod
    def load(cls, path: Path) -> Examples:
        with np.load(path) as f:
            return cls(
                f["places"],
                f["clean"],
                f["adversarial"],
                tuple(f["names"].tolist()),
                tuple(f["units"].tolist()),
                f["changed"],
            )


def gather(data: Dataset, records: Records) -> Examples | None:
    """The nearest successes an attack had to work for; None where there are none."""
    c = records.columns
    won = np.flatnonzero(c["success"] & (c["winner"] != "clean"))
    if records.adversarial is None or not len(won) or len(records) > len(data):
        return None
    nearest = won[np.argsort(c["distance"][won], kind="stable")][:MOST]
    place = {name: i for i, name in enumerate(data.ids.tolist())}  # games may reorder the rows
    clean = data.x.cpu().numpy()[[place[name] for name in c["id"].tolist()]]
    flat = (len(won), -1)
    moved = records.adversarial[won].reshape(flat) != clean[won].reshape(flat)
    names, units = _features(data.schema)
    return Examples(
        nearest, clean[nearest], records.adversarial[nearest], names, units, moved.sum(0)
    )


def _features(schema: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if schema is None:
        return (), ()
    features = schema.features
    return tuple(f.name for f in features), tuple(f.unit for f in features)
