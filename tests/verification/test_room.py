"""What constraints leave of a box: all that is valid, and no whole number that is not."""

import numpy as np

from durometer.verification.domain import Row, tighten


def test_a_whole_number_at_the_very_edge_of_the_ball_falls_to_another_features_small_step():
    """One step of a feature of range 2 is all of eps = 0.5; 307 of 10,767,986 are then too much.

    Found by the hardening study: three right certificates of 81 were refused, since whole numbers
    were rounded with a tolerance that is larger than that step.
    """
    eps, width = 0.5, np.array([2.0, 10_767_986.0])
    none = np.zeros((0, 2))
    ball = ((eps * (1 + 1e-9)) ** 2, [(f, 3, 1 / width[f] ** 2, none) for f in range(2)])
    row = Row(np.zeros(2), np.zeros(2), np.array([1.0, 5e6]), ("whole",) * 2, np.array([True]))
    low, high = np.array([0.0, 307.0]), np.array([1.0, 5e6])
    assert tighten(row, [ball], low, high)
    assert high[0] == 0.0
    low, high = np.array([0.0, 0.0]), np.array([1.0, 5e6])  # with no other step it is inside
    assert tighten(row, [ball], low, high)
    assert high[0] == 1.0
    low, high = np.array([1.0, 307.0]), np.array([1.0, 5e6])
    assert not tighten(row, [ball], low, high)
