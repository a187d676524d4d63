"""The two inner loops of a table region in plain Python."""

import numpy as np

_ROUNDS = 6  # of finding out which coordinates are free


def round_records(x, z0, z, low, high, numeric, width, whole, lift):
    for row in range(len(x)):
        for k in range(len(numeric)):
            i = numeric[k]
            was = x[row, i]
            value = was + (z[row, k] - z0[row, k]) * width[k]
            if whole[i]:
                step = value - was
                value = was + np.copysign(np.floor(abs(step) + lift), step)
            x[row, i] = min(max(value, low[row, i]), high[row, i])


def keep_sums(grad, z, low, high, starts, places, weights):
    free = np.empty(len(places), dtype=np.bool_)
    moved = np.empty(len(places))
    for row in range(len(grad)):
        for s in range(len(starts) - 1):
            free[:] = True
            for _ in range(_ROUNDS):
                top, bottom = 0.0, 1e-300
                for t in range(starts[s], starts[s + 1]):
                    if free[t]:
                        top += weights[t] * grad[row, places[t]]
                        bottom += weights[t] * weights[t]
                same = True
                for t in range(starts[s], starts[s + 1]):
                    at = places[t]
                    moved[t] = grad[row, at] - top / bottom * weights[t]
                    can = z[row, at] < high[row, at] if moved[t] > 0 else z[row, at] > low[row, at]
                    same &= can == free[t]
                    free[t] = can
                if same:
                    break
            for t in range(starts[s], starts[s + 1]):
                grad[row, places[t]] = moved[t] if free[t] else 0.0
