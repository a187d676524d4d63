"""Columns: a table of any types as one float64 array, and back again, by name.

Numbers stand for themselves, true is 1, a date is days since 1970, text is its place among the
column's values, and a missing cell is NaN whatever the type. The way back gives the dtypes of the
table that came in (text as text, categories with all their categories in order, int32 as int32), so
that a model fitted on frames is asked with a frame it knows.

What a reader would get wrong: the codes of text mean nothing to a model. They are the library's own
and never reach a model that was fitted on text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError, nearest
from durometer.kernels.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

DAY = 86_400_000_000  # microseconds
EXACT = 2.0**53  # up to here every whole number has a double of its own
DAYS = "days since 1970"  # the unit of a feature that holds dates


@dataclass(frozen=True, eq=False)
class Column:
    """One column: `kind` is "real", "integer", "boolean", "date" or "label"."""

    name: str
    kind: str
    dtype: Any = None  # as pandas has it, in the table that came in
    values: tuple[Any, ...] = ()  # of a label
    codes: tuple[float, ...] = ()  # and what stands for each in the array

    @staticmethod
    def of(name: str, series: pd.Series) -> Column:
        """What a column of a table is."""
        import pandas as pd

        dtype, types = series.dtype, pd.api.types
        if isinstance(dtype, pd.CategoricalDtype):
            return _label(name, dtype, dtype.categories)
        if types.is_bool_dtype(dtype):
            return Column(name, "boolean", dtype)
        if types.is_datetime64_any_dtype(dtype):
            return Column(name, "date", dtype)
        if types.is_integer_dtype(dtype) or types.is_float_dtype(dtype):
            return Column(name, "integer" if types.is_integer_dtype(dtype) else "real", dtype)
        inside = types.infer_dtype(series, skipna=True)
        if inside in ("integer", "floating", "mixed-integer-float", "decimal", "empty"):
            return Column(name, "integer" if inside == "integer" else "real", dtype)
        if inside in ("date", "datetime"):
            return Column(name, "date", dtype)
        if inside in ("string", "boolean", "mixed", "mixed-integer"):
            seen = series.dropna().unique().tolist()
            return _label(name, dtype, sorted(seen, key=lambda v: (str(type(v)), v)))
        raise DurometerError(
            f"column '{name}' holds {inside}; expected numbers, text, categories, booleans or dates"
        )

    @cached_property
    def _lookup(self) -> Any:
        """The values in the column's own dtype, to be taken from by position."""
        import pandas as pd

        if self.dtype is None or self.dtype == np.dtype(object):
            found = np.empty(len(self.values) + 1, dtype=object)
            found[:-1], found[-1] = self.values, np.nan
            return found
        return pd.array([*self.values, None], dtype=self.dtype)

    def encode(self, series: pd.Series) -> Floats:
        """Its cells as numbers, NaN where they are missing."""
        import pandas as pd

        if self.kind == "label":
            at = pd.Index(list(self.values), dtype=object).get_indexer(series.astype(object))
            unseen = (at < 0) & series.notna().to_numpy()
            if unseen.any():
                wrong = series.iloc[int(unseen.argmax())]
                raise DurometerError(
                    f"column '{self.name}': '{wrong}' is none of its values"
                    f"{nearest(str(wrong), map(str, self.values))} "
                    f"({int(unseen.sum())} of {len(series)} rows)"
                )
            return np.asarray(np.append(np.array(self.codes), np.nan)[at], dtype=np.float64)
        if self.kind == "date":
            return days(series)
        try:
            cells = series.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise DurometerError(f"column '{self.name}': {error}; expected numbers") from None
        if self.kind == "integer" and len(cells) and np.nanmax(np.abs(cells), initial=0) > EXACT:
            raise DurometerError(
                f"column '{self.name}' holds whole numbers beyond 2**53, which double precision "
                "cannot tell apart: make it text, or leave it out (ids=, extra=)"
            )
        return cells

    def decode(self, x: Floats) -> Any:
        """Cells of the column's own type."""
        if self.kind == "label":
            return self._lookup.take(self._places(x))
        gaps = np.isnan(x)
        if self.kind == "date":
            return _dates(x, gaps, self.dtype)
        if self.kind == "real" and (self.dtype is None or self.dtype == np.float64):
            return x
        whole = self.kind == "real" or bool((x == np.round(x))[~gaps].all())
        if self.kind == "boolean" and not bool(((x == 0) | (x == 1))[~gaps].all()):
            return x  # half a truth: only a space or a noise without types gives that
        if not whole or self.dtype is None:
            return x if gaps.any() or not whole or self.kind == "real" else x.astype(np.int64)
        return _typed(x, gaps, self.dtype)

    def _places(self, x: Floats) -> NDArray[np.int64]:
        codes = np.array(self.codes)
        gaps = np.isnan(x)
        order = codes.argsort()
        near = np.searchsorted(codes[order], x).clip(max=len(codes) - 1)
        at = order[near]
        wrong = (codes[at] != x) & ~gaps
        if wrong.any():
            raise DurometerError(
                f"column '{self.name}' holds labels, and {float(x[wrong][0]):g} is between them; "
                "give the data a schema and move in schema.space(...), or leave the column alone"
            )
        return np.where(gaps, len(codes), at)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table, in order.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"amount": [10, 20], "purpose": ["car", "house"]})
    >>> columns = Columns.of(frame)
    >>> columns.array(frame).tolist()
    [[10.0, 0.0], [20.0, 1.0]]
    >>> columns.frame(columns.array(frame)).equals(frame)
    True
    """

    each: tuple[Column, ...]

    @staticmethod
    def of(frame: pd.DataFrame) -> Columns:
        """What the columns of a frame are."""
        return Columns(tuple(Column.of(str(name), frame[name]) for name in frame.columns))

    @staticmethod
    def named(names: Iterable[Any]) -> Columns:
        """Columns of numbers of which nothing but the names is known."""
        return Columns(tuple(Column(str(name), "real") for name in names))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(c.name for c in self.each)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.each)

    def __repr__(self) -> str:
        return f"Columns({', '.join(f'{c.name}: {c.kind}' for c in self.each)})"

    @cached_property
    def numeric(self) -> bool:
        """Is every column a number?"""
        return all(c.kind in ("real", "integer") for c in self.each)

    def place(self, names: Iterable[str]) -> list[int]:
        """Where these columns stand."""
        known = {name: i for i, name in enumerate(self.names)}
        return [known[name] for name in names]

    def alike(self, other: Columns) -> bool:
        """Do both hold the same columns in the same order, with the same codes?"""
        mine, theirs = (
            [(c.name, tuple(map(str, c.values)), c.codes) for c in each.each]
            for each in (self, other)
        )
        return mine == theirs

    def select(self, names: Iterable[str]) -> Columns:
        """These columns, in this order."""
        return Columns(tuple(self.each[i] for i in self.place(names)))

    def array(self, frame: pd.DataFrame) -> Floats:
        """(n, d) the table as numbers."""
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise DurometerError(
                f"column '{missing[0]}' is missing ({len(missing)} of {len(self)} in all)"
                f"{nearest(missing[0], [str(c) for c in frame.columns])}"
            )
        return np.stack([c.encode(frame[c.name]) for c in self.each], axis=1)

    def frame(self, x: Floats) -> pd.DataFrame:
        """Rows (n, d) as a frame with each column's own type."""
        import pandas as pd

        if all(c.kind == "real" and c.dtype in (None, np.float64) for c in self.each):
            return pd.DataFrame(x, columns=list(self.names))  # one block, nothing is copied
        return pd.DataFrame({c.name: c.decode(x[:, i]) for i, c in enumerate(self.each)})


def as_frame(table: Any) -> pd.DataFrame | None:
    """A table of any library as a pandas frame with names as text; None for arrays and tensors.

    pandas, polars and Arrow (whatever has `to_pandas`), a mapping of columns.
    """
    if isinstance(table, Mapping):
        import pandas as pd

        try:
            return _named(pd.DataFrame(dict(table)))
        except (ValueError, TypeError) as error:
            raise DurometerError(f"a mapping that is no table of columns ({error})") from None
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return _named(table)
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # polars, not yet computed
        table = table.collect()
    if hasattr(table, "to_pandas"):
        made = table.to_pandas()
        return _named(made) if hasattr(made, "columns") else None
    return None


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Each column has one name of its own, as text: a frame of an array counts 0, 1, 2."""
    if frame.columns.nlevels > 1:
        raise DurometerError(
            f"the table's columns have names of {frame.columns.nlevels} levels; give each one, "
            "e.g. frame.columns = ['_'.join(map(str, c)) for c in frame.columns]"
        )
    names = [str(c) for c in frame.columns]
    twice = [n for n in names if names.count(n) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise DurometerError(
            f"the table has {names.count(twice[0])} columns '{twice[0]}'; name each once"
        )
    if names == list(frame.columns):
        return frame
    renamed = frame.copy(deep=False)
    renamed.columns = names
    return renamed


def _label(name: str, dtype: Any, values: Iterable[Any]) -> Column:
    listed = tuple(values)
    return Column(name, "label", dtype, listed, tuple(float(i) for i in range(len(listed))))


def encode_labels(column: Column, values: Sequence[Any], codes: Sequence[float]) -> Column:
    """A label column whose codes somebody else has given, by the values' text."""
    own = {str(v): v for v in column.values}
    return replace(column, values=tuple(own.get(str(v), v) for v in values), codes=tuple(codes))


def days(series: pd.Series) -> Floats:
    """Dates as days since 1970, whatever their zone and resolution; NaN where there is none."""
    import pandas as pd

    stamps = pd.to_datetime(series)
    if stamps.dt.tz is not None:
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    micro = stamps.to_numpy(dtype="datetime64[us]")
    out = micro.astype(np.int64).astype(np.float64) / DAY
    out[np.isnat(micro)] = np.nan
    return out


def _dates(x: Floats, gaps: NDArray[np.bool_], dtype: Any) -> Any:
    import pandas as pd

    micro = np.round(np.where(gaps, 0.0, x) * DAY).astype(np.int64).astype("datetime64[us]")
    micro[gaps] = np.datetime64("NaT")
    if dtype is None or dtype == np.dtype(object):
        return micro
    if getattr(dtype, "tz", None) is not None:
        return pd.Series(micro).dt.tz_localize("UTC").dt.tz_convert(dtype.tz).astype(dtype)
    return micro.astype(dtype)


def _typed(x: Floats, gaps: NDArray[np.bool_], dtype: Any) -> Any:
    import pandas as pd

    if isinstance(dtype, np.dtype):
        if dtype == np.dtype(object):
            cells = np.array([int(v) if v.is_integer() else v for v in x.tolist()], dtype=object)
            cells[gaps] = np.nan
            return cells
        # A whole number that went missing is a float, as pandas itself would have it.
        return x if gaps.any() and dtype.kind != "f" else x.astype(dtype)
    return pd.Series(x).astype(dtype)
