"""Square's moves once more in plain numpy, one row after the other, as the paper tells them."""

import numpy as np


def _window(shape, side, u):
    """The mask (c, h, w) of a square whose corner two numbers choose."""
    c, h, w = shape
    top, left = int(u[0] * (h - side + 1)), int(u[1] * (w - side + 1))
    mask = np.zeros((c, h, w), bool)
    mask[:, top : top + side, left : left + side] = True
    return mask


def corners(shape, flat, side, z, low, high, u):
    """A square of z at the ends of the ball, a sign per channel; turned where nothing changes."""
    c = shape[0]
    up = np.zeros(shape, bool)
    if flat:
        chosen = np.argsort(-u[: z.size])[:side]
        mask = np.zeros(shape, bool)
        mask[0, 0, chosen] = True
        up[0, 0, chosen] = u[z.size : z.size + side] >= 0.5
    else:
        mask = _window(shape, side, u)
        up[:] = (u[2 : 2 + c] >= 0.5)[:, None, None]
    z, low, high = (a.reshape(shape) for a in (z, low, high))
    new = np.where(mask, np.where(up, high, low), z)
    if np.array_equal(new, z):
        new = np.where(mask, np.where(up, low, high), z)
    return new.ravel()


def bumps(shape, flat, size, z, origin, low, high, eps, p, bump, u):
    """One square gains a bump, another one is emptied, and the whole is brought to eps."""
    c, _, w = shape
    z, origin = z.reshape(shape), origin.reshape(shape)
    d = (z - origin).astype(np.float64)
    spare = max(eps**p - (np.abs(d) ** p).sum(), 0.0) / c
    new = d.copy()
    for k in range(c):
        if flat:
            order = np.argsort(u[:w])
            gains, loses = order[:size], order[size : 2 * size]
            gain, lose = np.zeros((1, w), bool), np.zeros((1, w), bool)
            gain[0, gains], lose[0, loses] = True, True
            hill = np.zeros((1, w))
            hill[0, gains] = np.where(u[w : w + size] < 0.5, -1.0, 1.0) / np.arange(1, size + 1)
        else:
            gain, lose = (_window(shape, size, part)[k] for part in (u[:2], u[2:4]))
            hill = np.zeros(shape[1:])
            turned = bump if u[4] < 0.5 else bump.T
            hill[gain] = (-1.0 if u[5 + k] < 0.5 else 1.0) * turned.ravel()
        freed = (np.abs(d[k][gain | lose]) ** p).sum()
        old = np.where(gain, d[k], 0.0)
        raised = hill / np.linalg.norm(hill.ravel(), p)
        raised = raised + old / max(np.linalg.norm(old.ravel(), p), 1e-12)
        raised *= (spare + freed) ** (1 / p) / max(np.linalg.norm(raised.ravel(), p), 1e-12)
        new[k][lose] = 0.0
        new[k][gain] = raised[gain]
    new *= eps / max(np.linalg.norm(new.ravel(), p), 1e-12)
    return np.clip(origin + new, low.reshape(shape), high.reshape(shape)).ravel()
