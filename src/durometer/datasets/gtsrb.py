"""GTSRB: German traffic signs, 43 classes, 32 x 32 colour.

Origin: J. Stallkamp, M. Schlipsing, J. Salmen and C. Igel, "Man vs. computer: Benchmarking machine
learning algorithms for traffic sign recognition", Neural Networks 32 (2012); Institut für
Neuroinformatik, Bochum. Licence: no formal text; free to use with citation.

The thing to get wrong: the training pictures are frames of *tracks*, some 30 near-copies of one
physical sign. Split by track or the validation accuracy is a memory test. `val` holds whole tracks
that `train` never shows; `test` is the official test set, other tracks by construction.

Sample: per class 44 training and up to 8 validation frames, spread over its tracks, and 20 test
frames, so accuracy on it is class-balanced accuracy. Whole picture, no crop, bilinear to 32 x 32.
Ids are class/track/row for training frames, test/row for test frames, rows in official file order.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.data.splits import Splits, images
from durometer.datasets import netpbm, source

if TYPE_CHECKING:
    from durometer.goals.group import Group

    pass

CLASSES = (
    *("20", "30", "50", "60", "70", "80", "end of 80", "100", "120"),
    *("no passing", "no passing for trucks", "right of way", "priority road", "yield", "stop"),
    *("no vehicles", "no trucks", "no entry", "danger", "curve left", "curve right"),
    *("double curve", "bumpy road", "slippery road", "road narrows", "road work"),
    *("traffic signals", "pedestrians", "children", "bicycles", "ice", "wild animals"),
    *("end of limits", "turn right", "turn left", "straight", "straight or right"),
    *("straight or left", "keep right", "keep left", "roundabout", "end of no passing"),
    "end of no passing for trucks",
)
SIDE = 32
STOPPING = ("stop", "no vehicles", "no entry")


class Signs(Splits):
    """The parts of GTSRB, with an attacker's goal.

    Args:
        train: Rows for training.
        test: Rows for testing.
        val: Rows for validation, of other physical signs. None: there are none.
    """

    def slow_down_goal(self) -> Group:
        """Speed signs read as a sign to stop, or as at most half the limit (Lin et al. 2024).

        The sources are the nine speed signs, "end of 80" among them and taken as an 80.

        >>> goal = gtsrb().slow_down_goal()
        >>> goal.relation["50"]
        ['20', 'stop', 'no vehicles', 'no entry']
        """
        from durometer.goals.group import Group

        speeds = {name: int(name.split()[-1]) for name in CLASSES[:9]}
        limits = {name: v for name, v in speeds.items() if name.isdigit()}
        return Group(
            {
                name: [*(n for n, v in limits.items() if 2 * v <= speed), *STOPPING]
                for name, speed in speeds.items()
            }
        )


def gtsrb(path: str | os.PathLike[str] | None = None) -> Signs:
    """GTSRB: German traffic signs in 43 classes, 32 x 32 in colour (Stallkamp et al., 2012); a
    class-balanced sample is bundled.

    Training and validation rows come from different physical signs.

    Args:
        path: The full set: the unpacked official archive (with Final_Training, Final_Test and
            GT-final_test.csv), or an .npz file with x_train, y_train, x_test, y_test (n x 32 x 32 x
            3 bytes) and optionally track_train, idx_train and idx_test. None: the sample.

    Returns:
        The `Splits`, with the attacker's goal `slow_down_goal()`.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> gtsrb().test.where(y="stop").x.shape
    torch.Size([20, 3, 32, 32])
    """
    stored = source.bundled("gtsrb") if path is None else read(source.existing(path))
    y, rows = stored["y_train"], stored.get("idx_train", np.arange(len(stored["y_train"])))
    track = stored.get("track_train")
    held = np.zeros(len(y), bool) if track is None else held_out(track)
    tracks = np.full(len(y), -1) if track is None else track
    ids = np.array([f"{c}/{t}/{r}" for c, t, r in zip(y, tracks, rows, strict=True)])
    rows = stored.get("idx_test", np.arange(len(stored["y_test"])))
    x = stored["x_train"]
    return Signs(
        train=images(x[~held], y[~held], ids[~held], CLASSES, "gtsrb/train"),
        val=images(x[held], y[held], ids[held], CLASSES, "gtsrb/val") if held.any() else None,
        test=images(
            stored["x_test"],
            stored["y_test"],
            np.array([f"test/{r}" for r in rows]),
            CLASSES,
            "gtsrb/test",
        ),
    )


def held_out(track: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which frames are for validation: every sixth track of a class, beginning with its fourth.

    A rule on the track number, not a draw, so the sample and the full set agree.
    """
    return np.asarray(track % 6 == 3)


def read(path: Path) -> source.Arrays:
    """The arrays from an .npz file or from the official folder."""
    if not path.is_dir():
        return source.arrays(path, ("x_train", "y_train", "x_test", "y_test"))
    train = next(path.glob("**/Final_Training/Images"), None)
    test = next(path.glob("**/Final_Test/Images"), None)
    labels = next(path.glob("**/GT-final_test.csv"), None)
    if train is None or test is None or labels is None:
        raise DurometerError(
            f"{path} is not the unpacked official archive: expected Final_Training/Images, "
            "Final_Test/Images and GT-final_test.csv in it"
        )
    frames = sorted(train.glob("*/*.ppm"))
    lines = labels.read_text().split()[1:]  # Filename;Width;...;ClassId
    named = [line.split(";") for line in lines]
    return {
        "x_train": np.stack([shrink(netpbm.read(frame)) for frame in frames]),
        "y_train": np.array([int(frame.parent.name) for frame in frames]),
        "track_train": np.array([int(frame.name.split("_")[0]) for frame in frames]),
        "x_test": np.stack([shrink(netpbm.read(test / fields[0])) for fields in named]),
        "y_test": np.array([int(fields[-1]) for fields in named]),
    }


def shrink(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bilinear to 32 x 32: each target pixel mixes the four source pixels around its centre."""
    low, high, share = [], [], []
    for length in picture.shape[:2]:
        centre = np.clip((np.arange(SIDE) + 0.5) * length / SIDE - 0.5, 0, length - 1)
        low.append(np.floor(centre).astype(int))
        high.append(np.minimum(low[-1] + 1, length - 1))
        share.append(centre - low[-1])
    rows, columns = share[0][:, None, None], share[1][None, :, None]
    top = picture[low[0]][:, low[1]] * (1 - columns) + picture[low[0]][:, high[1]] * columns
    base = picture[high[0]][:, low[1]] * (1 - columns) + picture[high[0]][:, high[1]] * columns
    mixed: NDArray[np.float64] = top * (1 - rows) + base * rows
    return np.rint(mixed).astype(np.uint8)
