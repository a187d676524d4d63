"""Totals: the figures of a run whose rows are not held in memory.

Each chunk is added and let go. What stays is exact and small: how often each combination of classes
and outcomes occurred, and the sums of what was spent on it, from which rates and means over *all*
rows are read off; and a sample of the records, for whatever needs rows.

What a reader would get wrong: a row is in the sample because of its id (the smallest draws of a
stream of ids win), not because of when it was finished. So the sample does not depend on chunks or
workers, and two runs on the same data hold the same rows, which can be compared in pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import torch

from durometer.core.records import Records
from durometer.core.streams import Stream, keys

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20_000  # rows of the sample
LINES = 100_000  # of the table of counts: beyond, it is no longer kept by class
CLASSES = ("y", "clean", "target", "final")
OUTCOMES = ("success", "verdict", "valid", "winner", "blocked", "skipped")
SUMMED = ("distance", "forwards", "backwards", "seconds")


@dataclass(frozen=True, eq=False)
class Totals:
    """`table`: a line per combination, with the number of its `rows` and sums."""

    table: pd.DataFrame

    def __len__(self) -> int:
        return int(self.table["rows"].sum())

    def save(self, file: BinaryIO) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pandas(self.table, preserve_index=False), file)

    @classmethod
    def load(cls, path: Path) -> Totals:
        import pandas as pd

        return cls(pd.read_parquet(path))


@dataclass
class Tally:
    """Takes records chunk by chunk; `sample` and `totals` are of all that came."""

    shown: int = SHOWN
    rows: int = 0
    _lines: list[pd.DataFrame] = field(default_factory=list)
    _classes: bool = True
    _sample: Records | None = None
    _draws: np.ndarray = field(default_factory=lambda: np.empty(0))
    _overturned: Records | None = None  # the first row that the auditor broke; in every sample

    def __len__(self) -> int:
        return self.rows

    @property
    def overturned(self) -> bool:
        """The auditor broke a row that was proven."""
        return self._overturned is not None

    def add(self, k: int, part: Records) -> None:
        """One more chunk."""
        self.rows += len(part)
        wrong = np.flatnonzero(part.columns["overturned"] != "")
        if len(wrong) and self._overturned is None:
            self._overturned = part.take(wrong[:1])
        self._lines.append(_counted(part, self._classes))
        if sum(map(len, self._lines)) > LINES:
            self._join()
        self._draw(part)

    def _join(self) -> None:
        import pandas as pd

        joined = _summed(pd.concat(self._lines), self._classes)
        if len(joined) > LINES // 2 and self._classes:
            # The combinations of classes are too many: outcomes are few.
            self._classes = False
            right = joined["clean"] == joined["y"]
            joined = _summed(joined.assign(y=0, clean=np.where(right, 0, 1)), False)
        self._lines = [joined]

    def _draw(self, part: Records) -> None:
        ids = part.columns["id"]
        numbers = ids.astype(np.int64) if _whole(ids) else ids.astype(str)
        draws = Stream(0, keys(numbers), purpose="shown").uniform(torch.arange(len(ids)), 1)
        mine = draws[:, 0].numpy()
        if len(self._draws) >= self.shown:
            near = np.flatnonzero(mine < self._draws.max())
            if not len(near):
                return
            part, mine = part.take(near), mine[near]
        both = [part] if self._sample is None else [self._sample, part]
        joined, draws_of = Records.concat(both), np.concatenate([self._draws, mine])
        keep = np.arange(len(draws_of))
        if len(keep) > self.shown:
            keep = np.argpartition(draws_of, self.shown)[: self.shown]
        self._sample, self._draws = joined.take(keep), draws_of[keep]

    @property
    def records(self) -> Records:
        """The sample, in the order of the ids."""
        assert self._sample is not None
        sample = self._sample
        wrong = self._overturned
        if wrong is not None and wrong.columns["id"][0] not in sample.columns["id"]:
            sample = Records.concat([sample, wrong])
        return sample.take(np.argsort(sample.columns["id"], kind="stable")).withdrawn()

    @property
    def totals(self) -> Totals:
        """The counts."""
        self._join()
        lines = self._lines[0]
        if self._overturned is not None:  # all proofs of the run are withdrawn: see `Records`
            proven = lines["verdict"] == "proven"
            lines = lines.assign(
                verdict=lines["verdict"].mask(proven, "open"),
                winner=lines["winner"].mask(proven, ""),
            )
            lines = _summed(lines, self._classes)
        return Totals(lines)


def _whole(ids: np.ndarray) -> bool:
    return ids.dtype.kind in "iu" or (len(ids) > 0 and isinstance(ids[0], int | np.integer))


def _counted(part: Records, classes: bool) -> pd.DataFrame:
    """A chunk as counts and sums."""
    import pandas as pd

    c = part.columns
    lines = {name: c[name] for name in OUTCOMES}
    if classes:
        lines |= {name: c[name] for name in CLASSES}
    else:  # one class, told right or wrong: what rates need
        lines |= {"y": np.zeros(len(part), np.int64), "clean": (c["clean"] != c["y"]).astype(int)}
    lines["rows"] = np.ones(len(part), np.int64)
    for name in SUMMED:
        value = c[name].astype(float)
        known = ~np.isnan(value)
        value = np.where(known, value, 0.0)
        lines |= {f"{name}_n": known.astype(np.int64), f"{name}_sum": value}
        lines[f"{name}_squares"] = value * value
    return _summed(pd.DataFrame(lines, copy=False), classes)


def _summed(lines: pd.DataFrame, classes: bool) -> pd.DataFrame:
    by = [*OUTCOMES, *(CLASSES if classes else ("y", "clean"))]
    sums = ["rows", *(f"{name}_{k}" for name in SUMMED for k in ("n", "sum", "squares"))]
    return lines.groupby(by, as_index=False, observed=True, sort=True)[sums].sum()
