"""Minimal Riesz energy on the simplex in plain numpy."""

import numpy as np


def _power(base, exponent):
    """By squaring: products round the same on every machine, `pow` may not."""
    result = 1.0
    while exponent:
        if exponent % 2:
            result *= base
        base, exponent = base * base, exponent // 2
    return result


def energy(points, grad):
    """Log of the mean energy of a pair; its gradient, up to a positive factor, into `grad`."""
    n, d = points.shape
    total = 0.0
    grad[:] = 0.0
    for i in range(n):
        for j in range(i):
            square = 0.0
            for m in range(d):
                square += (points[i, m] - points[j, m]) * (points[i, m] - points[j, m])
            square = max(square, 1e-12)
            pair = 1.0
            for _ in range(d):  # square^(-s/2)
                pair /= square
            total += pair
            for m in range(d):
                pull = (points[i, m] - points[j, m]) * pair / square
                grad[i, m] -= pull
                grad[j, m] += pull
    return float(np.log(total / (n * (n - 1) / 2)))


def spread_points(points, steps, alpha):
    n, d = points.shape
    grad, first, second = np.zeros((n, d)), np.zeros((n, d)), np.zeros((n, d))
    best, low, stale = points.copy(), np.inf, 0
    for k in range(1, steps + 1):
        value = energy(points, grad)
        if value < low:
            low, stale = value, 0
            best[:] = points
        else:
            stale += 1
            if stale > 30:  # as far as this step length goes
                points, stale, alpha = best.copy(), 0, alpha / 2
                first[:] = 0.0
                second[:] = 0.0
                continue
        size = 0.0
        for i in range(n):  # along the simplex
            mean = grad[i].mean()
            grad[i] -= mean
            size = max(size, np.sqrt((grad[i] ** 2).sum()))
        for i in range(n):
            for m in range(d):
                g = grad[i, m] / size
                first[i, m] = 0.9 * first[i, m] + 0.1 * g
                second[i, m] = 0.999 * second[i, m] + 0.001 * g * g
                step = (
                    first[i, m]
                    / (1 - _power(0.9, k))
                    / (np.sqrt(second[i, m] / (1 - _power(0.999, k))) + 1e-8)
                )
                points[i, m] = max(points[i, m] - alpha * step, 0.0)
            points[i] /= points[i].sum()
    return best
