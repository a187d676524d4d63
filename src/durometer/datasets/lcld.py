"""LCLD: loans of Lending Club, paid back or charged off, as the applicant can shape them.

Origin: LendingClub public loan statistics, kaggle.com/wordsforthewise/lending-club. Licence: CC0.
The sample is the complete, finished loans among 2,000 drawn at random (github.com/JGFuentesC/
didactic-octo-telegram, data/lending_club_sample.csv): too few to train on, so they are test rows.

Two versions, both made from the raw columns by `prepare`:
  28 features, the CAA paper's (2013-2017; categories in one column each), 9 relations;
  47 features, MOEVA's (categories one-hot), 10 relations; its networks are published.
Bounds of 28 are those of the authors' sibling repository drift-robustness, as the original file is
not public; codes of categories are alphabetical here, by first appearance there.

The things to get wrong. An equality of ratios is exact, but the instalment is rounded to cents: it
is checked within 0.01 $ (28 features) or 0.1 $ (47). One sample loan (row 543) breaks it in both
versions: it pays 653.38 $ where amount, rate and term make 634.30 $. Half of the 28 features
are immutable: what the bank decides or the past has fixed. MOEVA scales by ranges rounded outwards
to whole numbers; `scale` holds those. MOEVA forgives every relation 0.001; here ratios are exact.

Split of your own file, 28: rows of 2013-2017 merged; test and validation stratified and as large as
the periods 2016-2017 and July-December 2015 (`train_test_split`, random_state 100 and 200). 47:
25 % test, stratified, random_state 42 (ours; the paper names none). Ids are rows of the CSV.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits, TestOnly
from durometer.datasets import lending, source

if TYPE_CHECKING:
    import pandas as pd

    from durometer.data.dataset import Dataset
    from durometer.tables.schema import Schema

CLASSES = ("fully paid", "charged off")
HOMES = ("ANY", "MORTGAGE", "OTHER", "OWN", "RENT")
VERIFIED = ("Not Verified", "Source Verified", "Verified")
PURPOSES = (
    *("car", "credit_card", "debt_consolidation", "educational", "home_improvement", "house"),
    *("major_purchase", "medical", "moving", "other", "renewable_energy", "small_business"),
    *("vacation", "wedding"),
)
LABELS = {
    "home_ownership": HOMES,
    "verification_status": VERIFIED,
    "purpose": PURPOSES,
    "initial_list_status": ("f", "w"),
    "application_type": ("Individual", "Joint App"),
}
# name: kind, low, high; "!" marks what an applicant cannot change.
COLUMNS = {
    28: """
loan_amnt real 1000 40000
term! integer 36 60
int_rate! real 5.32 30.99
installment real 4.93 1719.83
sub_grade! integer 0 34
emp_length integer 0 10
home_ownership! category - -
annual_inc real 100 10999200
verification_status! category - -
purpose category - -
dti real -1 999
open_acc integer 1 90
pub_rec! integer 0 86
revol_bal real 0 2904836
revol_util real 0 892.3
total_acc integer 2 176
initial_list_status! category - -
application_type category - -
mort_acc integer 0 51
pub_rec_bankruptcies! integer 0 12
fico_score! real 662 847.5
month_of_year! integer 0 11
ratio_loan_amnt_annual_inc real 0.0001714285714285 260
ratio_open_acc_total_acc real 0.0285714285714285 1
month_since_earliest_cr_line! integer 36 999
ratio_pub_rec_month_since_earliest_cr_line! real 0 0.4959349593495935
ratio_pub_rec_bankruptcies_month_since_earliest_cr_line! real 0 0.0909090909090909
ratio_pub_rec_bankruptcies_pub_rec! real -1 1
""",
    47: """
loan_amnt real 1000 40000
term integer 36 60
int_rate! real 5.31 30.99
installment real 4.93 1719.83
grade! integer 1 7
emp_length integer 0 10
annual_inc real 33 10999200
issue_d! integer 201203 201812
dti real -1 999
earliest_cr_line! integer 193404 201510
open_acc real 1 90
pub_rec! real 0 86
revol_bal real 0 2904836
revol_util real 0 892.3
total_acc real 2 176
mort_acc real 0 51
pub_rec_bankruptcies! real 0 12
fico_score! real 662 847.5
initial_list_status_w! integer 0 1
application_type_Joint App integer 0 1
ratio_loan_amnt_annual_inc real 0.000171429 310.6060606
ratio_open_acc_total_acc real 0.024390244 1
diff_issue_d_earliest_cr_line! real 36 999
ratio_pub_rec_diff_issue_d_earliest_cr_line! real 0 0.495934959
ratio_pub_rec_bankruptcies_diff_issue_d_earliest_cr_line! real 0 0.090909091
ratio_pub_rec_bankruptcies_pub_rec! real -1 1
""",
}
# Columns of 47 that are one-hot: the group, its labels, may the applicant change it?
ONE_HOT = (
    ("home_ownership", ("MORTGAGE", "OTHER", "OWN", "RENT"), False),
    ("verification_status", VERIFIED, False),
    ("purpose", PURPOSES, True),
)


def lcld(features: int = 28, path: str | os.PathLike[str] | None = None) -> Splits | TestOnly:
    """LCLD: Lending Club loans, paid back or charged off, with relations between features; a sample
    for testing is bundled.

    Args:
        features: The version: 28 (CAA; categories in one column each, 9 relations) or 47 (MOEVA;
            one-hot categories, 10 relations).
        path: Your copy of accepted_2007_to_2018Q4.csv. None: the sample.

    Returns:
        The `Splits`; without `path` only `test` can be used.

    Raises:
        DurometerError: There is no such version, or the file does not hold what is expected.

    >>> lcld().test.schema
    Schema(lcld28: 28 features, 14 mutable, 9 relations)
    >>> lcld(47).test.x.shape
    torch.Size([1082, 47])
    """
    described = schema(features)
    raw = _bundled() if path is None else lending.read(path)
    loans = lending.prepare(raw)
    if features == 28:
        loans = loans[(loans["issue_d"] > 201300) & (loans["issue_d"] < 201800)]
        if loans.empty:
            raise DurometerError(
                f"{path}: no loan was issued in 2013-2017, the years of this version"
            )
    table = engineer(loans, features)
    x, y = described.tensor(table).numpy(), loans["charged_off"].to_numpy()

    def part(name: str, rows: Any) -> Dataset:
        from durometer.data.dataset import Dataset

        ids = loans.index.to_numpy()[rows]
        return Dataset(x[rows], y[rows], ids, described, CLASSES, f"lcld{features}/{name}")

    if path is None:
        return TestOnly(
            part("test", np.arange(len(x))),
            f"lcld: the bundled {len(x)} loans are for testing only; for training rows pass path=: "
            + lending.WHERE,
        )
    return Splits(*(part(*each) for each in _split(loans, features)))


def _split(loans: pd.DataFrame, features: int) -> list[tuple[str, Any]]:
    from sklearn.model_selection import train_test_split

    y, rows, date = loans["charged_off"].to_numpy(), np.arange(len(loans)), loans["issue_d"]
    try:
        if features == 47:
            train, test = train_test_split(rows, test_size=0.25, stratify=y, random_state=42)
            return [("train", train), ("test", test)]
        last, late = int((date > 201600).sum()), int(date.between(201507, 201512).sum())
        rest, test = train_test_split(rows, test_size=last, stratify=y, random_state=100)
        train, val = train_test_split(rest, test_size=late, stratify=y[rest], random_state=200)
    except ValueError as error:
        raise DurometerError(f"{len(loans)} loans cannot be split as published ({error})") from None
    return [("train", train), ("test", test), ("val", val)]


def engineer(loans: pd.DataFrame, features: int) -> pd.DataFrame:
    """The columns of a version from prepared loans (see `lending.prepare`)."""
    out = loans.copy()
    age = lending.months(out["issue_d"]) - lending.months(out["earliest_cr_line"])
    long = "month_since" if features == 28 else "diff_issue_d"
    out["month_of_year"] = out["issue_d"] % 100 - 1
    out["ratio_loan_amnt_annual_inc"] = out["loan_amnt"] / out["annual_inc"]
    out["ratio_open_acc_total_acc"] = out["open_acc"] / out["total_acc"]
    out[f"{long}_earliest_cr_line"] = age
    for count in ("pub_rec", "pub_rec_bankruptcies"):
        out[f"ratio_{count}_{long}_earliest_cr_line"] = out[count] / age
    share = out["pub_rec_bankruptcies"] / out["pub_rec"].where(out["pub_rec"] != 0)
    out["ratio_pub_rec_bankruptcies_pub_rec"] = share.fillna(-1.0)
    if features == 47:
        homes = out["home_ownership"].replace({"ANY": "OTHER"})
        for group, labels, _ in ONE_HOT:
            column = homes if group == "home_ownership" else out[group]
            for each in labels:
                out[f"{group}_{each}"] = (column == each).astype(float)
        out["initial_list_status_w"] = (out["initial_list_status"] == "w").astype(float)
        out["application_type_Joint App"] = (out["application_type"] == "Joint App").astype(float)
    return out[list(schema(features).names)]


def schema(features: int = 28) -> Schema:
    """Types, bounds, mutability and relations of one of the two versions."""
    from durometer.tables.feature import Feature, Kind
    from durometer.tables.schema import Schema

    if features not in COLUMNS:
        raise DurometerError(
            f"lcld has versions with 28 and with 47 features; asked for {features}"
        )
    described = []
    for line in COLUMNS[features].strip().splitlines():
        name, kind, low, high = line.rsplit(" ", 3)
        free, name = not name.endswith("!"), name.rstrip("!")
        if kind == "category":
            described.append(Feature(name, "category", mutable=free, values=LABELS[name]))
            continue
        ends = float(low), float(high)
        wide = (float(math.floor(ends[0])), float(math.ceil(ends[1])))
        scale = wide if features == 47 and wide != ends else None
        described.append(Feature(name, cast(Kind, kind), *ends, mutable=free, scale=scale))
    if features == 47:
        described += [
            Feature(f"{group}_{each}", "boolean", 0, 1, mutable=free, group=group)
            for group, labels, free in ONE_HOT
            for each in labels
        ]
    return Schema(described, relations(features), f"lcld{features}")


def relations(features: int) -> list[str]:
    """As text, in the order of the authors' list."""
    rate, slack = "int_rate / 1200", 0.01 if features == 28 else 0.1
    growth = f"(1 + {rate}) ** term"
    age = ("month_since" if features == 28 else "diff_issue_d") + "_earliest_cr_line"
    month = "floor({0} / 100) * 12 + {0} % 100"
    since = f"{age} == {month.format('issue_d')} - ({month.format('earliest_cr_line')})"
    found = [
        f"installment == loan_amnt * ({rate}) * {growth} / ({growth} - 1) within {slack}",
        "open_acc <= total_acc",
        "pub_rec_bankruptcies <= pub_rec",
        "term in {36, 60}",
        "ratio_loan_amnt_annual_inc == loan_amnt / annual_inc",
        "ratio_open_acc_total_acc == open_acc / total_acc",
        since,
        f"ratio_pub_rec_{age} == pub_rec / {age}",
        f"ratio_pub_rec_bankruptcies_{age} == pub_rec_bankruptcies / {age}",
        "ratio_pub_rec_bankruptcies_pub_rec == divide(pub_rec_bankruptcies, pub_rec, -1)",
    ]
    return [r for r in found if r is not since or features == 47]


def _bundled() -> pd.DataFrame:
    import pandas as pd

    stored = source.bundled("lcld")
    columns = {name: values for name, values in stored.items() if name != "row"}
    return pd.DataFrame(columns, index=stored["row"])
