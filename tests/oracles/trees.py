"""Plain twins of the compiled kernels of trees and noise: slow, and nothing in common with them."""

import numpy as np


def scores(ensemble, x):
    """Leaf values added one after the other, rounded where the library rounds."""
    kind = np.float32 if ensemble.single else np.float64
    out = np.empty((len(x), ensemble.outputs))
    for i, row in enumerate(x):
        total = ensemble.base.astype(kind)
        for root in ensemble.roots:
            node = int(root)
            while ensemble.feature[node] >= 0:
                left = row[ensemble.feature[node]] <= ensemble.threshold[node]
                node = int((ensemble.left if left else ensemble.right)[node])
            total = (total + ensemble.value[node].astype(kind)).astype(kind)
        out[i] = total
    return out


def leaf_masses(ensemble, grid, masses):
    """P(class) of a single tree: every leaf's mass as a product over features."""
    out = np.zeros((len(masses), ensemble.n_classes))
    label = np.argmax(ensemble.value + ensemble.base, axis=1)

    def walk(node, lo, hi):
        f = int(ensemble.feature[node])
        if f < 0:
            mass = np.ones(len(masses))
            for g in range(ensemble.n_features):
                a = grid.start[g]
                mass = mass * masses[:, a + lo[g] : a + hi[g] + 1].sum(axis=1)
            out[:, label[node]] += mass
            return
        cut = int(grid.cut[node])
        if lo[f] <= cut:
            walk(ensemble.left[node], lo, [*hi[:f], min(hi[f], cut), *hi[f + 1 :]])
        if hi[f] > cut:
            walk(ensemble.right[node], [*lo[:f], max(lo[f], cut + 1), *lo[f + 1 :]], hi)

    last = (np.diff(grid.start) - 1).tolist()
    walk(int(ensemble.roots[0]), [0] * ensemble.n_features, last)
    return out


def margins(local, cell):
    """Margins of one joint cell of a local part."""
    total = local.base.copy()
    for root in local.roots:
        node = int(root)
        while local.nf[node] >= 0:
            left = cell[local.nf[node]] <= local.nc[node]
            node = int((local.nl if left else local.nr)[node])
        total = total + local.gain[node]
    return total


def tails(tables, chances, base):
    """P(base + last[cell] + a sum of the others > 0), every combination listed."""
    value, mass = np.zeros(1), np.ones(1)
    for table, chance in zip(tables[:-1], chances[:-1], strict=True):
        value = (value[:, None] + table).ravel()
        mass = (mass[:, None] * chance).ravel()
    return np.array([mass[base + last + value > 0].sum() for last in tables[-1]])
