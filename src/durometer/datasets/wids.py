"""WiDS: does a patient survive the stay in intensive care? Schema and preparation, no data.

Origin: M. Lee et al., "WiDS (Women in Data Science) Datathon 2020: ICU mortality prediction",
PhysioNet (2020), 91,713 stays, 186 columns. Licence: PhysioNet Restricted Health Data License, so
nothing of it may be bundled; who has signed passes the path of training_v2.csv.

The authors' own table (108 features, bounds, mutability) is not public. Here: the columns with less
than half of the values missing, without the ids of hospital and ward and without the readmission
flag, which is always 0; 106 in all. Gaps are filled with the training rows' median, or as the label
"missing". Bounds are the smallest and largest value in the file. Measurements are mutable; who the
patient is, how they came and what they suffered from before is not: our choice.

The 31 relations are the authors': the smallest value of a vital sign or lab test is at most the
largest. They give them by column number only; the names are inferred from the order of the columns.

The thing to get wrong: the two `apache_4a_..._prob` are the answers of another model to the same
question. They stay, immutable, since the authors keep them; drop them for a model of your own.

Split: 20 % test, stratified, then 20 % of the rest (random_state 100 and 200). Ids: encounter_id.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits
from durometer.datasets import source

if TYPE_CHECKING:
    import pandas as pd

    from durometer.tables.feature import Feature
    from durometer.tables.schema import Schema

CLASSES = ("survived", "died")
LABEL = "hospital_death"
MISSING = "missing"
WHERE = (
    "WiDS is licensed health data: sign the agreement at physionet.org/content/widsdatathon2020 "
    "(or kaggle.com/c/widsdatathon2020), then pass wids(path=.../training_v2.csv)"
)

_VITALS = (
    *("diasbp", "diasbp_noninvasive", "heartrate", "mbp", "mbp_noninvasive", "resprate", "spo2"),
    *("sysbp", "sysbp_noninvasive", "temp"),
)
_LABS = (
    *("bun", "calcium", "creatinine", "glucose", "hco3", "hemaglobin", "hematocrit", "platelets"),
    *("potassium", "sodium", "wbc"),
)
# In the order of the authors' columns 33 to 94: each stands for a _max and a _min.
RANGES = (
    *(f"{when}_{sign}" for when in ("d1", "h1") for sign in _VITALS),
    *(f"d1_{test}" for test in _LABS),
)
CATEGORIES = (
    *("ethnicity", "gender", "hospital_admit_source", "icu_admit_source", "icu_stay_type"),
    *("icu_type", "apache_3j_bodysystem", "apache_2_bodysystem"),
)
FLAGS = (
    *("elective_surgery", "apache_post_operative", "arf_apache", "gcs_unable_apache"),
    *("intubated_apache", "ventilated_apache", "aids", "cirrhosis", "diabetes_mellitus"),
    *("hepatic_failure", "immunosuppression", "leukemia", "lymphoma"),
    "solid_tumor_with_metastasis",
)
MEASURED = (
    *("bun_apache", "creatinine_apache", "gcs_eyes_apache", "gcs_motor_apache"),
    *("gcs_verbal_apache", "glucose_apache", "heart_rate_apache", "hematocrit_apache"),
    *("map_apache", "resprate_apache", "sodium_apache", "temp_apache", "wbc_apache"),
    *(f"{name}_{end}" for name in RANGES for end in ("max", "min")),
)
FIXED = (
    *("age", "bmi", "height", "pre_icu_los_days", "weight", "apache_2_diagnosis"),
    *("apache_3j_diagnosis", "apache_4a_hospital_death_prob", "apache_4a_icu_death_prob"),
)
FEATURES = (*FIXED, *FLAGS, *MEASURED, *CATEGORIES)
RELATIONS = tuple(f"{name}_min <= {name}_max" for name in RANGES)


def wids(path: str | os.PathLike[str] | None = None) -> Splits:
    """WiDS: survival in intensive care (Lee et al., 2020); schema and preparation only, the data
    are licensed.

    Args:
        path: Your licensed copy of training_v2.csv (also .gz). Required.

    Returns:
        The `Splits`.

    Raises:
        DurometerError: No path was given, or the file does not hold what is expected.

    >>> wids()
    Traceback (most recent call last):
    durometer.core.errors.DurometerError: WiDS is licensed health data: sign the agreement at ...
    """
    from sklearn.model_selection import train_test_split

    from durometer.data.dataset import Dataset

    if path is None:
        raise DurometerError(WHERE)
    raw = read(path)
    y = raw[LABEL].to_numpy(np.int64)
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=100)
    train, val = train_test_split(rest, test_size=0.2, stratify=y[rest], random_state=200)
    table = fill(raw, train)
    described = schema(table)
    x, ids = described.tensor(table).numpy(), raw["encounter_id"].to_numpy()
    parts = {
        name: Dataset(x[rows], y[rows], ids[rows], described, CLASSES, f"wids/{name}")
        for name, rows in (("train", train), ("val", val), ("test", test))
    }
    return Splits(**parts)


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The columns that are used, gaps and all."""
    import pandas as pd

    file = source.existing(path)
    wanted = [*FEATURES, LABEL, "encounter_id"]
    try:
        found = pd.read_csv(file, nrows=0).columns
        missing = [c for c in wanted if c not in found]
        if missing:
            raise DurometerError(
                f"{file} lacks {len(missing)} columns, first {missing[:3]}; {WHERE}"
            )
        frame = pd.read_csv(file, usecols=wanted)
    except (OSError, ValueError) as error:
        raise DurometerError(f"{file} cannot be read as a CSV table ({error}); {WHERE}") from None
    if not frame[LABEL].isin([0, 1]).all():
        raise DurometerError(f"{file}: {LABEL} must be 0 or 1 in every row; is it unlabeled.csv?")
    return frame


def fill(raw: pd.DataFrame, train: np.ndarray) -> pd.DataFrame:
    """No gaps: medians of the training rows, and a label of its own for categories."""
    table = raw[list(FEATURES)].copy()
    for name in FEATURES:
        if name in CATEGORIES:
            table[name] = table[name].astype(object).fillna(MISSING).astype(str)
            continue
        column = table[name].astype(float)
        middle = column.iloc[train].median()
        if np.isnan(middle):
            raise DurometerError(f"column '{name}' is empty in the training rows; {WHERE}")
        if (column.dropna() % 1 == 0).all():
            middle = np.floor(middle)  # a whole number, and a flag stays 0 or 1
        table[name] = column.fillna(middle)
    return table


def schema(table: pd.DataFrame) -> Schema:
    """Types and bounds as the filled table has them, mutability, and the 31 relations."""
    from durometer.tables.schema import Schema

    return Schema([_feature(name, table[name]) for name in FEATURES], RELATIONS, "wids")


def _feature(name: str, column: pd.Series) -> Feature:
    from durometer.tables.feature import Feature

    if name in CATEGORIES:
        return Feature(name, "category", mutable=False, values=tuple(sorted(set(column))))
    if name in FLAGS:
        return Feature(name, "boolean", 0, 1, mutable=False)
    kind = "integer" if bool((column % 1 == 0).all()) else "real"
    low, high = float(column.min()), float(column.max())
    return Feature(name, kind, low, high, mutable=name in MEASURED)
