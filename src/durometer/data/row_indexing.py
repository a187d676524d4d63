"""Which rows of a data set are meant: by position, by a mask, by values of columns.

What a reader would get wrong: a pandas Series has names for its rows, and they count. A mask that
was sorted or shuffled means the rows it names, not those that stand where it stands; labels in
another order than their table are refused, because nobody can know which order was meant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, nearest
from durometer.data import array_validation


def row_positions(rows: Any, data: Any) -> Tensor:
    """Indices of rows: from indices, a slice or a boolean mask."""
    n = len(data)
    if isinstance(rows, slice):
        rows = range(*rows.indices(n))
    if is_series(rows) and rows.dtype == bool:
        rows = _by_name(rows, data)
    try:
        index = array_validation.check_array(rows, "rows").cpu()
    except DurometerError:
        raise DurometerError(f"rows {rows!r}: expected positions, a slice or a mask") from None
    if index.ndim != 1:
        raise DurometerError(f"rows of shape {tuple(index.shape)}: expected (rows,)")
    if index.dtype == torch.bool:
        if index.shape != (n,):
            raise DurometerError(f"a mask of shape {tuple(index.shape)} for {n} rows")
        return index.nonzero()[:, 0]
    index = index.long()
    if index.numel() and not (-n <= int(index.min()) <= int(index.max()) < n):
        raise DurometerError(f"row {int(index.max())} asked for, but the data has {n} rows")
    return index


def mask(rows: Any, data: Any) -> Tensor:
    """(n,) bool: a mask, or a function of the data that gives one."""
    if callable(rows):
        rows = rows(data)
    if is_series(rows) and rows.dtype == bool:
        rows = _by_name(rows, data)
    made = rows.numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    if made.dtype != bool or made.shape != (len(data),):
        raise DurometerError(
            f"where({type(rows).__name__} of {made.dtype}): expected a mask of "
            f"{len(data)} booleans, or classes by name: where(y=...)"
        )
    return torch.from_numpy(made.copy())


def matches(data: Any, column: str, value: Any) -> Tensor:
    """(n,) bool: is the cell one of these values? None (or NaN) is a cell that is missing."""
    import pandas as pd

    one = value is None or isinstance(value, int | str | bool | float | np.generic)
    if not one and not hasattr(value, "__iter__"):
        raise DurometerError(f"where({column}={value!r}): expected a value, or a list of them")
    wanted: list[Any] = [value] if one else [*value]
    if column == "y":
        return _of_classes(data, wanted, one)
    cells = pd.Series(data.column(column))
    missing = [v for v in wanted if v is None or v != v or v is pd.NA]
    found = cells.isin([v for v in wanted if not any(v is m for m in missing)])
    known = () if data.columns is None else dict(_labels(data.columns)).get(column, ())
    unknown = [v for v in wanted if known and isinstance(v, str) and v not in map(str, known)]
    if unknown:
        raise DurometerError(
            f"no row has {column}={unknown[0]!r}{nearest(unknown[0], map(str, known))}"
        )
    if missing:
        found = found | cells.isna()
    return torch.from_numpy(found.to_numpy(dtype=bool, copy=True))


def check_index_order(series: Any, table: Any, what: str) -> Any:
    """Labels or ids beside a table: refused where their rows have the table's names in another
    order."""
    if not is_series(series) or series.index.equals(table.index):
        return series
    if len(series) == len(table) and set(series.index) == set(table.index):
        raise DurometerError(
            f"{what} is a Series whose index has the rows of the table in another order: give "
            f"{what}.loc[frame.index], or {what}.to_numpy() if the order is right as it is"
        )
    return series


def index_as_ids(table: Any) -> Any:
    """A table's index as ids, where it names each row once by whole numbers or text."""
    index = table.index
    kinds = ("integer", "string")
    if index.nlevels == 1 and index.is_unique and index.inferred_type in kinds:
        return index.to_numpy()
    return None


def is_series(rows: Any) -> bool:
    """Is it a column of pandas, with an index that names its rows?"""
    return hasattr(rows, "index") and hasattr(rows, "reindex") and hasattr(rows, "dtype")


def _by_name(rows: Any, data: Any) -> Any:
    """A mask in the order of the data, by the names of its rows: the table's index, or ids."""
    import pandas as pd

    names = [pd.Index(data.ids)] if data.table is None else [data.table.index, pd.Index(data.ids)]
    for index in names:
        if rows.index.equals(index):
            return rows.to_numpy()
        if rows.index.is_unique and index.isin(rows.index).all():
            return rows.reindex(index).to_numpy(dtype=bool)
    if rows.index.equals(pd.RangeIndex(len(data))):
        return rows.to_numpy()
    raise DurometerError(
        f"a mask of shape {rows.shape} for {len(data)} rows whose index names other rows; give one "
        "that was made from these data, or mask.to_numpy()"
    )


def _of_classes(data: Any, wanted: list[Any], one: bool) -> Tensor:
    truths = data.classes is not None and set(data.classes) <= {"False", "True"}
    if one and truths and isinstance(wanted[0], bool | np.bool_):
        wanted = [str(wanted[0])]
    if any(isinstance(v, bool | np.bool_) for v in wanted):
        raise DurometerError("where(y=a mask): expected classes; a mask goes without y=")
    found = torch.isin(data.y, torch.tensor([class_index(data, c) for c in wanted]))
    if not bool(found.any()):
        known = data.y.unique().tolist()
        raise DurometerError(f"no row has class {wanted}; classes here: {known}")
    return found


def class_index(data: Any, c: int | str) -> int:
    """A class by its index or its name."""
    if not isinstance(c, str):
        if isinstance(c, bool) or not isinstance(c, int | np.integer) or abs(c) > 2**60:
            raise DurometerError(f"class {c!r}: expected an index or a name")
        return int(c)
    if data.classes is None:
        raise DurometerError(f"class '{c}' asked for by name, but the data set has no class names")
    if c not in data.classes:
        raise DurometerError(f"no class '{c}'{nearest(c, data.classes)}")
    return int(data.classes.index(c))


def _labels(columns: Any) -> list[tuple[str, tuple[Any, ...]]]:
    return [(c.name, c.values) for c in columns.each if c.kind == "label"]
