"""ORL (AT&T) faces: 40 people, 10 grey pictures of each.

Origin: Olivetti Research Laboratory, Cambridge, 1992-94; F. Samaria and A. Harter,
"Parameterisation of a stochastic model for human face identification" (1994). Licence: no formal
text; free to use if the laboratory is credited.

Sample: all 400 pictures, the central 92 x 92 square reduced to 64 x 64 (Lanczos). The pictures of a
person were taken one after another and look alike: shots 1-7 are `train`, 8-10 are `test`. Ids and
class names are those of the archive's folders, "s7/3" and "s7".

The pictures are not aligned: eyes are between rows 19 and 35 of 64. An eyeglass frame needs them in
one place, so each picture is moved, whole pixels, until the middle between its eyes is where
`du.masks.eyeglasses` expects it; what comes in at the border repeats the border. The places are in
samples/orl_eyes.txt (row, column of the 64 x 64 picture, a line per person): found by correlating
with the mean eye region, and looked at, picture by picture (docs/how-to/groups.md shows them).
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits, images
from durometer.datasets import netpbm, source

if TYPE_CHECKING:
    from durometer.goals.group import Group
    from durometer.goals.quota import Quota

CLASSES = tuple(f"s{person}" for person in range(1, 41))
TRAIN_SHOTS = 7
EYES = 0.375  # the height at which a frame of `masks.eyeglasses` sits
STAFF = tuple(f"s{person}" for person in (3, 11, 19, 27, 35))
BURGLARS = tuple(f"s{person}" for person in (5, 13, 21, 29, 37))


class Faces(Splits):
    """The parts of ORL, with two attackers' goals.

    Args:
        train: Rows for training.
        test: Rows for testing.
        val: None: there is no validation part.
    """

    def staff_goal(self) -> Group:
        """Any burglar wants to be taken for any one of the staff.

        >>> orl().staff_goal().relation["s5"]
        ['s3', 's11', 's19', 's27', 's35']
        """
        from durometer.goals.group import Group

        return Group({burglar: list(STAFF) for burglar in BURGLARS})

    def vault(self, k: int = 3, reuse: bool = False) -> Quota:
        """The burglars together want to be taken for several different ones of the staff.

        Args:
            k: How many.
            reuse: Whether one burglar may be taken for several of them.

        >>> orl().vault(k=2).k
        2
        """
        from durometer.goals.quota import Quota

        return Quota(k, BURGLARS, STAFF, reuse)


def orl(path: str | os.PathLike[str] | None = None, *, aligned: bool = True) -> Faces:
    """ORL (AT&T) faces: 40 people, 10 grey pictures of each (Samaria & Harter, 1994); all are
    bundled at 64 x 64.

    Args:
        path: The originals at 112 x 92: the unpacked archive (folders s1 ... s40), or an .npz file
            with x (n x 112 x 92 bytes), y (0-39) and shot (1-10). None: the bundled ones.
        aligned: Whether to align the eyes, which `Patch("eyeglasses")` needs.

    Returns:
        The `Splits`: shots 1-7 for training, 8-10 for testing.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> orl().train.x.shape
    torch.Size([280, 1, 64, 64])
    """
    stored = source.bundled("orl") if path is None else read(source.existing(path))
    x, y, shot = stored["x"], stored["y"], stored["shot"]
    if aligned:
        x = align(x, eyes()[y.astype(int), shot.astype(int) - 1])
    ids = np.array([f"{CLASSES[c]}/{s}" for c, s in zip(y, shot, strict=True)])
    first = shot <= TRAIN_SHOTS
    return Faces(
        train=images(x[first], y[first], ids[first], CLASSES, "orl/train"),
        test=images(x[~first], y[~first], ids[~first], CLASSES, "orl/test"),
    )


def eyes() -> NDArray[np.float64]:
    """(40, 10, 2): the middle between the eyes of each picture, as shares of its central square."""
    file = files("durometer.datasets") / "samples" / "orl_eyes.txt"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    places = [[place.split(",") for place in line.split()] for line in lines]
    return (np.array(places, dtype=float) + 0.5) / 64


def align(x: NDArray[np.uint8], middle: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The pictures (n, h, w) moved so that the middle between the eyes is where a frame has it."""
    height, width = x.shape[-2:]
    square = min(height, width)
    place = middle * square + (np.array([height, width]) - square) / 2
    move = np.trunc(place - [EYES * height, 0.5 * width]).astype(int)
    rows = (np.arange(height) + move[:, :1]).clip(0, height - 1)
    columns = (np.arange(width) + move[:, 1:]).clip(0, width - 1)
    number = np.arange(len(x))[:, None, None]
    moved: NDArray[np.uint8] = x[number, rows[:, :, None], columns[:, None, :]]
    return moved


def read(path: Path) -> source.Arrays:
    """The arrays from an .npz file or from the folders of the archive."""
    if not path.is_dir():
        return source.arrays(path, ("x", "y", "shot"))
    files = [path / person / f"{shot}.pgm" for person in CLASSES for shot in range(1, 11)]
    missing = [file for file in files if not file.exists()]
    if missing:
        raise DurometerError(
            f"{path} is not the unpacked archive: {missing[0]} and {len(missing) - 1} more of the "
            "400 pictures s1/1.pgm ... s40/10.pgm are not there"
        )
    return {
        "x": np.stack([netpbm.read(file) for file in files]),
        "y": np.repeat(np.arange(len(CLASSES)), 10),
        "shot": np.tile(np.arange(1, 11), len(CLASSES)),
    }
