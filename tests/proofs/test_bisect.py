"""A box that is cut in two loses no record: the halves of whole numbers meet without a hole."""

import numpy as np
import pytest

from durometer.proofs.search.box import REAL, WHOLE
from durometer.proofs.search.box_splitting import _bisect


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 2), (-3, 4), (-4, -1), (5, 12)])
def test_every_whole_number_is_in_exactly_one_half(low, high):
    kind = np.array([WHOLE, WHOLE], dtype=np.int32)
    a, b = np.array([[low, 7.0]]), np.array([[high, 9.0]])
    of, lows, highs = _bisect(np.array([3]), a, b, np.array([0]), kind)
    assert of.tolist() == [3, 3]
    for v in range(low, high + 1):
        assert ((lows[:, 0] <= v) & (v <= highs[:, 0])).sum() == 1, v
    assert (lows[:, 1] == 7).all() and (highs[:, 1] == 9).all()


def test_reals_share_the_cut():
    kind = np.array([REAL], dtype=np.int32)
    _, lows, highs = _bisect(np.array([0]), np.zeros((1, 1)), np.ones((1, 1)), np.array([0]), kind)
    assert lows[:, 0].min() == 0 and highs[:, 0].max() == 1 and lows[1, 0] == highs[0, 0]
