"""CIFAR-10: photographs of ten kinds of things, 32 x 32 in colour.

Origin: A. Krizhevsky, "Learning multiple layers of features from tiny images" (2009). Licence: no
formal text; the page asks to be cited.

Sample: 1,200 training and 300 test images, the first of each class in the original order. Ids are
"train/17" and "test/3": the row numbers of the original files, so a sample's row and the full set's
have the same id.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits, images
from durometer.datasets import source

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
KEYS = ("x_train", "y_train", "x_test", "y_test")
FILES = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}


def cifar10(path: str | os.PathLike[str] | None = None) -> Splits:
    """CIFAR-10: 32 x 32 colour images in ten classes (Krizhevsky, 2009); a sample of 1,200 and 300
    is bundled.

    Args:
        path: Your copy of the full set: an .npz file with x_train, y_train, x_test, y_test (n x 32
            x 32 x 3 bytes), or the folder cifar-10-batches-py. None: the sample.

    Returns:
        The `Splits`.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> cifar10().test.x.shape
    torch.Size([300, 3, 32, 32])
    """
    stored = source.bundled("cifar10") if path is None else read(source.existing(path))
    parts = {}
    for part in ("train", "test"):
        x, y = stored[f"x_{part}"], stored[f"y_{part}"]
        rows = stored.get(f"idx_{part}", np.arange(len(x)))
        ids = np.array([f"{part}/{row}" for row in rows])
        parts[part] = images(x, y, ids, CLASSES, f"cifar10/{part}")
    return Splits(**parts)


def read(path: Path) -> source.Arrays:
    """The four arrays from an .npz file or from the archive's folder."""
    if not path.is_dir():
        return source.arrays(path, KEYS)
    found: source.Arrays = {}
    for part, names in FILES.items():
        batches = [_batch(path / name) for name in names]
        pixels = np.concatenate([np.asarray(b["data"], np.uint8) for b in batches])
        found[f"x_{part}"] = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        found[f"y_{part}"] = np.concatenate([np.asarray(b["labels"]) for b in batches])
    return found


class _Plain(pickle.Unpickler):
    """Arrays, lists and text: a data file has no business importing anything else."""

    def find_class(self, module: str, name: str) -> Any:
        numpy = module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype")
        if numpy or (module, name) == ("_codecs", "encode"):  # how Python 2 wrote bytes
            return super().find_class(module, name)
        raise DurometerError(f"the file asks for {module}.{name}: not a batch of CIFAR-10")


def _batch(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise DurometerError(f"the folder {path.parent} lacks {path.name}: not cifar-10-batches-py")
    with path.open("rb") as stream:
        held = _Plain(stream, encoding="latin1").load()
    return {str(k): v for k, v in held.items()}
