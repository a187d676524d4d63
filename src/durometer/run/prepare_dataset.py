"""Rows as they are played: finite, in the space's columns, with the model's classes.

Done once for data that are held, and part by part for data that are not (`Parquet`).
"""

from __future__ import annotations

from typing import Any

from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.games.static import as_game
from durometer.model.frames import align_classes


def prepare_dataset(data: Dataset, target: Any, space: Any) -> Dataset:
    """The rows of a data set in the form in which this game on this space takes them."""
    schema = getattr(space, "schema", None)
    _check_finite(data, hasattr(space, "schema") or getattr(as_game(target), "gaps", False))
    if schema is not None:
        data = data.in_schema(schema)
    return align_classes(getattr(target, "model", target), data)


def _check_finite(data: Dataset, gaps: bool) -> None:
    """Refuse what is no number; a missing cell is one where space or game know about `gaps`."""
    flat = data.x.reshape(len(data), -1)
    bad = flat.isinf() if gaps else ~flat.isfinite()
    if bool(bad.any()):
        row, column = (int(v) for v in bad.nonzero()[0])
        name = column if data.columns is None else f"'{data.columns.names[column]}'"
        cure = "drop or fill such rows first"
        if data.columns is not None and bool(flat[row, column].isnan()):
            cure += ", or move in a space that knows gaps: Schema.suggest(frame).space(eps=...)"
        raise DurometerError(
            f"{int(bad.any(1).sum())} of {len(data)} inputs hold NaN or infinite values, the first "
            f"in row {row} (id {data.ids[row]}), feature {name}: {float(flat[row, column])}; {cure}"
        )
