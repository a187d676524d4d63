"""CTU-13 (Neris): an infected machine's traffic per 30 seconds, 756 features, 360 relations.

Origin: S. García, M. Grill, J. Stiborek and A. Zunino, "An empirical comparison of botnet detection
methods", Computers & Security 45 (2014); features by A. Chernikova and A. Oprea ("FENCE", 2019):
sums, minima and maxima of bytes, packets and durations by direction (s, d) and port. The sample,
387 botnet rows that MOEVA's authors attacked, comes from serval-uni-lu/moeva2-ijcai22-replication
(data/botnet; MIT), as do types and upper bounds. Licence of the underlying data: CC BY-NC-SA 4.0
according to the CAA paper; see NOTICE before you redistribute.

What an attacker may do: add traffic. The 432 mutable features (bytes and packets sent, durations,
bytes by protocol) may grow to the largest value in the data, never shrink below the record's own.

The thing to get wrong: two of the relations are sums of 54 features that must equal sums of 36, so
a single feature can hardly ever move alone. All 387 rows satisfy all relations.

Sample: no benign rows, hence no training part. With the full table (198,128 rows) the split is the
papers': the first 143,046 rows, of which 20 % for validation, and the rest. Ids are row numbers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits, TestOnly
from durometer.datasets import source

if TYPE_CHECKING:
    from durometer.data.dataset import Dataset
    from durometer.tables.schema import Schema

CLASSES = ("benign", "botnet")
TRAIN_ROWS = 143_046
LABEL = "is_botnet"

PORTS = (
    *("1", "3", "8", "10", "21", "22", "25", "53", "80", "110", "123", "135", "138", "161"),
    *("443", "445", "993", "OTHER"),
)
WAYS = ("s", "d")
FREE = ("bytes_out", "pkts_out", "duration")  # what the infected machine decides
PROTOCOLS = ("tcp", "udp", "icmp")
MEASURES = (
    *(f"{m}_{of}" for m in ("bytes_in", "bytes_out") for of in ("sum", "min", "max")),
    *(f"{m}_{of}" for m in ("pkts_in", "pkts_out", "duration") for of in ("sum", "min", "max")),
    *(f"{p}_sum" for p in PROTOCOLS),
    *("distinct_external_ips", "distinct_src_port", "distinct_dst_port"),
)
FEATURES = tuple(f"{m}_{way}_{port}" for port in PORTS for way in WAYS for m in MEASURES)
PACKET = 1500  # bytes, the largest packet


def ctu13(path: str | os.PathLike[str] | None = None) -> Splits | TestOnly:
    """CTU-13 (Neris): botnet traffic per 30 seconds, 756 features and 360 relations; 387 botnet
    rows for testing are bundled.

    Args:
        path: Your own table: a CSV with the 756 columns and `is_botnet`; an .npz with `x` (n x 756,
            raw units) and `y`; or an .npz or .npy of botnet rows only, which become the test set.
            None: the sample.

    Returns:
        The `Splits`; without training rows only `test` can be used.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> data = ctu13().test
    >>> data
    Dataset(ctu13/test: 387 x 756, classes benign, botnet, f6ff0b691a65)
    >>> data.schema
    Schema(ctu13: 756 features, 432 mutable, 360 relations)
    """
    stored = source.bundled("ctu13")
    described = schema()
    x, y = unpack(stored) if path is None else read(source.existing(path))

    def part(name: str, rows: NDArray[np.int64]) -> Dataset:
        from durometer.data.dataset import Dataset

        return Dataset(x[rows], y[rows], rows, described, CLASSES, f"ctu13/{name}")

    if len(x) <= TRAIN_ROWS:
        rows = np.arange(len(x))
        return TestOnly(part("test", rows), "ctu13: the sample holds botnet rows for testing only; "
                        "pass path= to the full table for training rows")  # fmt: skip
    from sklearn.model_selection import train_test_split

    first, rest = np.arange(TRAIN_ROWS), np.arange(TRAIN_ROWS, len(x))
    train, val = train_test_split(first, test_size=0.2, stratify=y[first], random_state=1319)
    return Splits(part("train", train), part("test", rest), part("val", val))


def schema() -> Schema:
    """756 features of which 432 may grow, and 360 relations."""
    from durometer.tables.feature import Feature, Kind
    from durometer.tables.schema import Schema

    stored = source.bundled("ctu13")
    described = []
    for name, real, high in zip(FEATURES, stored["is_real"], stored["high"], strict=True):
        free = name.startswith(FREE) or name.startswith(PROTOCOLS)
        low: float | Literal["original"] = "original" if free else 0.0
        # Scaled by the range in the data, as the published networks and distances are.
        scale = (0.0, float(high))
        kind: Kind = "real" if real else "integer"
        described.append(Feature(name, kind, low, float(high), mutable=free, scale=scale))
    return Schema(described, relations(), "ctu13")


def relations() -> list[str]:
    """As text, in the order of the authors' list."""
    found = [
        f"{_total(PROTOCOLS[::-1], way)} == {_total(('bytes_in', 'bytes_out'), way)}"
        for way in WAYS
    ]
    for way in WAYS:
        for port in PORTS[:-1]:  # all but OTHER, whose packets the authors do not bound
            sent, packets = f"bytes_out_sum_{way}_{port}", f"pkts_out_sum_{way}_{port}"
            found.append(f"divide({sent}, {packets}, 0) <= {PACKET}")
    for measure in FREE:
        for port in PORTS:
            for way in WAYS[::-1]:
                low, high, total = (f"{measure}_{of}_{way}_{port}" for of in ("min", "max", "sum"))
                found += [f"{high} <= {total}", f"{low} <= {total}", f"{low} <= {high}"]
    return found


def _total(measures: tuple[str, ...], way: str) -> str:
    return " + ".join(f"{m}_sum_{way}_{port}" for m in measures for port in PORTS)


def unpack(stored: source.Arrays) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Counts are stored as integers, column by column: a third of the size, the same values."""
    real = stored["is_real"]
    x = np.empty((stored["counts"].shape[1], len(real)))
    x[:, ~real] = stored["counts"].T
    x[:, real] = stored["durations"].T
    return x, np.ones(len(x), np.int64)


def read(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features in raw units and labels (1 = botnet) from a file of the user's."""
    if path.suffix in (".npz", ".npy"):
        return _read_arrays(path)
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DurometerError(f"{path} cannot be read as a CSV table ({error})") from None
    missing = [c for c in (*FEATURES, LABEL) if c not in frame.columns]
    if missing:
        raise DurometerError(f"{path} lacks {len(missing)} of 757 columns, first {missing[:3]}")
    return _checked(frame[list(FEATURES)].to_numpy(np.float64), frame[LABEL].to_numpy(), path)


def _read_arrays(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    if path.suffix == ".npy":
        try:
            x = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DurometerError(f"{path} cannot be read as an array ({error})") from None
        return _checked(x, np.ones(len(x)), path)
    found = source.arrays(path, ())
    if "x_candidates_common" in found:
        x = found["x_candidates_common"]
        return _checked(x, np.ones(len(x)), path)
    if "x" in found and "y" in found:
        return _checked(found["x"], found["y"], path)
    raise DurometerError(
        f"{path} has the arrays {sorted(found)}; expected x and y, or x_candidates_common"
    )


def _checked(
    x: NDArray[Any], y: NDArray[Any], path: Path
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    if x.ndim != 2 or x.shape[1] != len(FEATURES) or y.shape != (len(x),):
        raise DurometerError(
            f"{path}: features of shape {x.shape} with labels of shape {y.shape}; expected "
            f"(rows, {len(FEATURES)}) and (rows,)"
        )
    return x.astype(np.float64), y.astype(np.int64)
