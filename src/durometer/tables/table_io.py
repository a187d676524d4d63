"""Tables in files: CSV and Parquet, as their owner would read them.

A CSV knows no types. Text that is a date in every cell (2024-03-01, 2024-03-01 12:30:00) is read as
one, so that from the command line too a date is days on a line and not a category; columns that a
schema calls categories stay text.

What a reader would get wrong: only ISO dates are taken. 01/02/2024 is two different days.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from durometer.core.errors import DurometerError

if TYPE_CHECKING:
    import pandas as pd

_ISO = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"


def read_table(file: Path, text: Iterable[str] = ()) -> pd.DataFrame:
    """The table of a .parquet or .csv file; the columns in `text` are not taken for dates."""
    import pandas as pd

    try:
        if file.suffix == ".parquet":
            return pd.read_parquet(file)
        frame = pd.read_csv(file)
    except Exception as error:  # of pandas or Arrow, which have kinds of their own
        said = str(error) or type(error).__name__
        raise DurometerError(f"'{file}' cannot be read as a table: {said}") from None
    kept = set(text)
    for name in frame.columns:
        if name not in kept and _dates(frame[name]):
            frame[name] = pd.to_datetime(frame[name], format="ISO8601")
    return frame


def _dates(series: pd.Series) -> bool:
    import pandas as pd

    if pd.api.types.infer_dtype(series, skipna=True) != "string":
        return False
    cells = series.dropna()
    if not bool(cells.str.fullmatch(_ISO).all()):
        return False
    return not bool(pd.to_datetime(cells, format="ISO8601", errors="coerce").isna().any())
