"""Where the bytes come from: the package, the user's file, or a download that is checked.

A download is trusted only if its SHA-256 is the one written in the source code. It lands in a
temporary file and is renamed when it is whole, so an interrupted one leaves nothing behind. The
cache is `$DUROMETER_CACHE`, or `~/.cache/durometer`.

Colour pictures in little room, to the last bit: what a sample in the package is stored as.

Green, red - green and blue - green are each predicted from the pixel to the left (a), above (b) and
above left (c) by the median edge detector of lossless JPEG (Weinberger et al. 2000):

    min(a, b) where c >= max(a, b),  max(a, b) where c <= min(a, b),  a + b - c elsewhere

and the errors, modulo 256, are compressed by LZMA: about 0.55 of a photograph's bytes, where zlib
alone needs 0.93. Errors wrap around, so bytes are enough for differences, too.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError

if TYPE_CHECKING:
    import pandas as pd


Arrays = dict[str, NDArray[Any]]


def bundled(name: str) -> Arrays:
    """The arrays of a sample that ships with the package."""
    with as_file(files("durometer.datasets") / "samples" / f"{name}.npz") as path:
        found = arrays(path, ())
    for key in [k.removesuffix(":stored") for k in found if k.endswith(":stored")]:
        found[key] = unpack(found.pop(f"{key}:stored"), found.pop(f"{key}:shape"))
    return found


def arrays(path: Path, needed: Iterable[str]) -> Arrays:
    """All arrays of an .npz file; `needed` names those that must be there."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise DurometerError(f"{path} cannot be read as an .npz file of arrays ({error})") from None
    missing = [key for key in needed if key not in found]
    if missing:
        raise DurometerError(f"{path} has the arrays {sorted(found)}; expected also {missing}")
    return found


def table(path: str | os.PathLike[str], columns: Iterable[str], rows: int) -> pd.DataFrame:
    """A CSV file (also .gz) that must have these columns and this many rows."""
    import pandas as pd

    file = existing(path)
    try:
        frame = pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise DurometerError(f"{file} cannot be read as a CSV table ({error})") from None
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise DurometerError(
            f"{file} lacks the columns {missing[:5]}{' ...' * (len(missing) > 5)}; it has "
            f"{list(frame.columns)[:5]} ..."
        )
    if len(frame) != rows:
        raise DurometerError(
            f"{file} has {len(frame)} rows; the public file has {rows}, and the split is defined "
            "on those. For rows of your own build a durometer.Dataset"
        )
    return frame


def existing(path: str | os.PathLike[str]) -> Path:
    """The path, if something is there."""
    found = Path(path).expanduser()
    if not found.exists():
        raise DurometerError(f"no file or folder '{found}'; leave path out for the bundled sample")
    return found


def cache() -> Path:
    """The folder for downloads."""
    return Path(os.environ.get("DUROMETER_CACHE") or Path.home() / ".cache" / "durometer")


def sha256(path: Path) -> str:
    """The digest of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(addresses: Sequence[str], digest: str, folder: str) -> Path:
    """A file with this SHA-256: `folder` of the cache, else the first address that answers."""
    target = cache() / folder / addresses[0].rsplit("/", 1)[-1]
    if target.exists() and sha256(target) == digest:
        return target
    refusals = []
    for address in addresses:
        try:
            _download(address, target, digest)
            return target
        except (OSError, DurometerError) as error:  # URLError and time-outs are OSErrors
            refusals.append(f"{address}: {error}")
    raise DurometerError(
        f"{target.name} could not be downloaded. Offline? Get the file elsewhere and pass path=, "
        "or use the bundled sample. Tried:\n  " + "\n  ".join(refusals)
    )


def _download(address: str, target: Path, digest: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, urllib.request.urlopen(address, timeout=60) as answer:
            while chunk := answer.read(1 << 20):
                out.write(chunk)
        got = sha256(part)
        if got != digest:
            raise DurometerError(
                f"SHA-256 is {got}, expected {digest}; the file is not what it was"
            )
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


Bytes = NDArray[np.uint8]
_FILTER = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "pb": 0}]


def pack(pictures: Bytes) -> dict[str, NDArray[Any]]:
    """(n, h, w, 3) bytes as two small arrays.

    >>> x = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    >>> bool((unpack(**pack(x)) == x).all())
    True
    """
    planes = _split(pictures)
    padded = np.pad(planes, ((0, 0), (0, 0), (1, 0), (1, 0)))
    errors = planes - _predicted(padded[..., 1:, :-1], padded[..., :-1, 1:], padded[..., :-1, :-1])
    raw = lzma.compress(errors.tobytes(), lzma.FORMAT_RAW, filters=_FILTER)
    return {"stored": np.frombuffer(raw, np.uint8), "shape": np.array(pictures.shape, np.int32)}


def unpack(stored: Bytes, shape: NDArray[np.integer]) -> Bytes:
    """The pictures again."""
    n, height, width, _ = (int(v) for v in shape)
    raw = lzma.decompress(stored.tobytes(), lzma.FORMAT_RAW, filters=_FILTER)
    errors = np.frombuffer(raw, np.uint8).reshape(3, n, height, width)
    padded = np.zeros((3, n, height + 1, width + 1), np.uint8)
    for i in range(1, height + 1):
        for j in range(1, width + 1):
            near = padded[..., i, j - 1], padded[..., i - 1, j], padded[..., i - 1, j - 1]
            padded[..., i, j] = errors[..., i - 1, j - 1] + _predicted(*near)
    green, red, blue = padded[..., 1:, 1:]
    return np.stack([red + green, green, blue + green], axis=3)


def _split(pictures: Bytes) -> Bytes:
    """(3, n, h, w): green, and the others less green."""
    red, green, blue = (pictures[..., k] for k in range(3))
    return np.stack([green, red - green, blue - green])


def _predicted(left: Bytes, above: Bytes, corner: Bytes) -> Bytes:
    low, high = np.minimum(left, above), np.maximum(left, above)
    smooth = left + above - corner
    return np.where(corner >= high, low, np.where(corner <= low, high, smooth))
