"""The raw Lending Club table of accepted loans: what is known when a loan is asked for, in numbers.

Kept are finished loans ("Fully Paid", "Charged Off") whose columns are all filled. Months, years
and grades become numbers; what a loan's later course reveals (payments, recoveries) is never read.

What a reader would get wrong: the file is 2.3 million rows by 151 columns, so it is read in pieces
and only the columns below. Older copies write "13.5%" and "36" where newer ones have 13.5 and
" 36 months"; both are understood.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from durometer.core.errors import DurometerError
from durometer.datasets import source

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = (
    *("loan_amnt", "int_rate", "installment", "annual_inc", "dti", "open_acc", "pub_rec"),
    *("revol_bal", "revol_util", "total_acc", "mort_acc", "pub_rec_bankruptcies"),
    *("fico_range_low", "fico_range_high"),
)
TEXTS = (
    *("term", "sub_grade", "emp_length", "home_ownership", "verification_status", "issue_d"),
    *("purpose", "earliest_cr_line", "initial_list_status", "application_type"),
)
STATUS = ("Fully Paid", "Charged Off")
WHERE = (
    "the file is accepted_2007_to_2018Q4.csv of kaggle.com/wordsforthewise/lending-club (CC0); "
    "leave path out for the bundled sample"
)
_ROWS = 200_000  # at a time


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The finished loans of a raw CSV (also .gz) as they are, indexed by row of the file."""
    import pandas as pd

    file = source.existing(path)
    wanted = [*NUMBERS, *TEXTS, "loan_status"]
    try:
        found = pd.read_csv(file, nrows=0).columns
        missing = [c for c in wanted if c not in found]
        if missing:
            raise DurometerError(f"{file} lacks the columns {missing}; {WHERE}")
        kinds = {c: str for c in wanted}
        pieces = pd.read_csv(file, usecols=wanted, dtype=kinds, chunksize=_ROWS)
        frame = pd.concat([piece[piece["loan_status"].isin(STATUS)] for piece in pieces])
    except (OSError, ValueError) as error:
        raise DurometerError(f"{file} cannot be read as a CSV table ({error}); {WHERE}") from None
    if frame.empty:
        raise DurometerError(f"{file} has no loan with the status {' or '.join(STATUS)}; {WHERE}")
    return frame


def prepare(raw: pd.DataFrame) -> pd.DataFrame:
    """Numbers and labels of the complete loans, by date of issue, with `charged_off` (0 or 1)."""
    import pandas as pd

    out = pd.DataFrame(index=raw.index)
    for column in NUMBERS:
        text = raw[column].astype(str).str.strip().str.rstrip("%")
        out[column] = _numbers(text, raw[column].isna(), column)
    out["fico_score"] = (out.pop("fico_range_low") + out.pop("fico_range_high")) / 2
    out["term"] = raw["term"].astype(str).str.extract(r"(\d+)", expand=False).astype(float)
    years = raw["emp_length"].astype(str).str.replace("< 1 year", "0 years", regex=False)
    out["emp_length"] = years.str.extract(r"^(\d+)\+? year", expand=False).astype(float)
    letter, digit = raw["sub_grade"].str[0], raw["sub_grade"].str[1]
    out["grade"] = letter.map({g: i + 1.0 for i, g in enumerate("ABCDEFG")})
    out["sub_grade"] = (out["grade"] - 1) * 5 + digit.astype(float) - 1
    for column in ("issue_d", "earliest_cr_line"):
        date = pd.to_datetime(raw[column], format="%b-%Y", errors="coerce")
        wrong = date.isna() & raw[column].notna()
        if wrong.any():
            raise DurometerError(
                f"{column} '{raw[column][wrong].iloc[0]}': expected a date like Dec-2015"
            )
        out[column] = date.dt.year * 100.0 + date.dt.month
    homes = raw["home_ownership"].replace({"NONE": "OTHER"})
    for column in ("verification_status", "purpose", "initial_list_status", "application_type"):
        out[column] = raw[column]
    out["home_ownership"] = homes
    out["charged_off"] = (raw["loan_status"] == "Charged Off").astype(np.int64)
    # No income, accounts or past: no ratios. The authors' bounds leave these out too.
    past = months(out["issue_d"]) > months(out["earliest_cr_line"])
    known = (out["annual_inc"] > 0) & (out["total_acc"] > 0) & past
    complete = out[known].dropna().sort_values("issue_d", kind="stable")
    if complete.empty:
        gaps = out.isna().mean()
        raise DurometerError(
            f"none of {len(out)} finished loans is complete: {gaps.idxmax()} is missing in "
            f"{gaps.max():.0%} of them; {WHERE}"
        )
    return complete


def months(date: pd.Series[float]) -> pd.Series[float]:
    """Months since the year 0 of a date written 201512."""
    return date // 100 * 12 + date % 100


def _numbers(text: pd.Series[str], gap: pd.Series[bool], column: str) -> pd.Series[float]:
    import pandas as pd

    value = pd.to_numeric(text, errors="coerce")
    wrong = value.isna() & ~gap
    if wrong.any():
        raise DurometerError(f"{column} '{text[wrong].iloc[0]}': expected a number")
    return value
