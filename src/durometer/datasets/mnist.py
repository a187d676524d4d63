"""MNIST: handwritten digits, 28 x 28 grey.

Origin: Y. LeCun, C. Cortes and C. Burges, "The MNIST database of handwritten digits" (1998), from
NIST Special Databases 1 and 3. Licence: usually given as CC BY-SA 3.0; the authors' page carried
no licence text.

Sample: 4,000 of the 60,000 training and 1,000 of the 10,000 test images, class shares kept. Ids are
the row numbers in the original files, so a sample's row and the full set's row have the same id.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits, images
from durometer.datasets import source

CLASSES = tuple("0123456789")
MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
FILES = {
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}
SHA256 = {
    "x_train": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "y_train": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "x_test": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "y_test": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def mnist(path: str | os.PathLike[str] | None = None, *, full: bool = False) -> Splits:
    """MNIST: handwritten digits, 28 x 28 grey images (LeCun et al., 1998); a sample of 4,000 and
    1,000 is bundled.

    Args:
        path: The full set: an .npz file with x_train, y_train, x_test, y_test (bytes), or a folder
            with the four idx files, gzipped or not. None: the sample.
        full: Whether to download the full set (11 MB) into the cache.

    Returns:
        The `Splits`.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> mnist().test.x.shape
    torch.Size([1000, 1, 28, 28])
    """
    if path is None and not full:
        stored = source.bundled("mnist")
    else:
        stored = read(download() if path is None else source.existing(path))
    parts = {}
    for part in ("train", "test"):
        x, y = stored[f"x_{part}"], stored[f"y_{part}"]
        ids = stored.get(f"idx_{part}", np.arange(len(x)))
        parts[part] = images(x, y, ids, CLASSES, f"mnist/{part}")
    return Splits(**parts)


def read(path: Path) -> source.Arrays:
    """The four arrays from an .npz file or a folder of idx files."""
    if not path.is_dir():
        return source.arrays(path, FILES)
    found = {}
    for key, name in FILES.items():
        candidates = [path / name, path / name.removesuffix(".gz")]
        file = next((c for c in candidates if c.exists()), None)
        if file is None:
            raise DurometerError(f"the folder {path} lacks {name} (or the same without .gz)")
        found[key] = idx(file)
    return found


def download() -> Path:
    """The folder of the four idx files, fetched if need be."""
    for key, name in FILES.items():
        source.fetch([mirror + name for mirror in MIRRORS], SHA256[key], "mnist")
    return source.cache() / "mnist"


def idx(path: Path) -> NDArray[np.uint8]:
    """An idx file of bytes: two zeros, type 8, the number of axes, their lengths, the values."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise DurometerError(f"{path} starts with {data[:4]!r}: not an idx file of bytes")
    axes = data[3]
    shape = struct.unpack_from(f">{axes}I", data, 4)
    if len(data) - 4 - 4 * axes != math.prod(shape):
        raise DurometerError(f"{path} is not whole: its header announces {shape}")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
