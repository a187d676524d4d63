"""Draw the eyeglass frame on forty ORL faces, as taken (above) and aligned by their eyes (below).

python studies/groups/eyeglasses.py docs/pictures/eyeglasses.png
"""

import base64
import sys
from pathlib import Path

import numpy as np

import durometer as du
from durometer.report.page.png import address

FRAME = (220, 130, 0)


def sheet(aligned: bool) -> np.ndarray:
    """(h, w, 3): every third test face of ORL behind the frame, twenty a row."""
    faces = (du.datasets.orl(aligned=aligned).test.x[::3, 0].numpy() * 255).astype(np.uint8)
    tiles = np.repeat(faces[..., None], 3, axis=3)
    tiles[:, du.masks.eyeglasses(64, 64)] = FRAME
    tiles = np.pad(tiles, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
    return np.concatenate([np.concatenate(tiles[i : i + 20], axis=1) for i in (0, 20)])


if __name__ == "__main__":
    above, below = sheet(False), sheet(True)
    gap = np.full((8, above.shape[1], 3), 255, np.uint8)
    picture = np.concatenate([above, gap, below]).transpose(2, 0, 1) / 255
    Path(sys.argv[1]).write_bytes(base64.b64decode(address(picture).split(",")[1]))
