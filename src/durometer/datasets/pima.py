"""Pima diabetes: 768 women, 8 measurements, diabetic within five years or not.

Origin: National Institute of Diabetes and Digestive and Kidney Diseases; J. W. Smith et al.,
"Using the ADAP learning algorithm to forecast the onset of diabetes mellitus" (1988); UCI machine
learning repository. Licence: public data, marked CC0 where it is redistributed today; no formal
text from the source. The whole set is bundled.

The thing to get wrong: a zero in Glucose, BloodPressure, SkinThickness, Insulin or BMI means "not
measured". The zeros are kept as they are; `MEASURED` names those columns.

Split: 20 % test, stratified, `train_test_split(random_state=42)`. Ids are rows of the CSV.
"""

from __future__ import annotations

import os

import numpy as np

from durometer.data.splits import Splits
from durometer.datasets import source

FEATURES = (
    *("Pregnancies", "Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI"),
    *("DiabetesPedigreeFunction", "Age"),
)
MEASURED = ("Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI")
CLASSES = ("healthy", "diabetic")
ROWS = 768


def pima(path: str | os.PathLike[str] | None = None) -> Splits:
    """Pima diabetes: 768 women, 8 measurements, diabetic within five years or not (Smith et al.,
    1988); all are bundled.

    A zero in Glucose, BloodPressure, SkinThickness, Insulin or BMI means "not measured".

    Args:
        path: A CSV with the usual column names and `Outcome`, the same rows. None: the bundled
            ones.

    Returns:
        The `Splits`.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> pima().train.x.shape
    torch.Size([614, 8])
    """
    from durometer.data.dataset import Dataset

    stored = source.bundled("pima")
    x, y = stored["x"], stored["y"]
    if path is not None:
        frame = source.table(path, (*FEATURES, "Outcome"), ROWS)
        x = frame[list(FEATURES)].to_numpy(np.float64)
        y = frame["Outcome"].to_numpy(np.int64)
    parts = {}
    for part in ("train", "test"):
        rows = stored[part].astype(np.int64)
        parts[part] = Dataset(x[rows], y[rows], ids=rows, classes=CLASSES, name=f"pima/{part}")
    return Splits(**parts)
