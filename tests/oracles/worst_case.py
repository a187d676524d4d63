"""The exact worst case without any of the search's code: all points, or a mixed-integer program.

`enumerate_all` tries every combination of candidate values of up to six features. It is complete
where features are discrete; a real feature is complete without relations, because within a cell of
the model's own thresholds the value nearest to the original is as good as any.

`milp` is the textbook program (Kantchelian et al. 2016) for Linf with linear relations and
if-thens, solved by HiGHS: a binary per threshold, a share per leaf, a binary per if-then. It
reads the model from the library's own dump.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint
from scipy.optimize import milp as highs
from scipy.sparse import csr_matrix


def enumerate_all(region, candidates, predict, allowed, most=3_000_000):
    """(n,) bool: does some valid combination of the candidates (a list per feature) succeed?"""
    found = []
    for i in range(len(region.origin)):
        lists = candidates[i]
        count = int(np.prod([len(v) for v in lists]))
        assert count <= most, count
        broken = False
        points = itertools.product(*lists)
        while not broken:
            block = np.array(list(itertools.islice(points, 200_000)))
            if not len(block):
                break
            x = torch.from_numpy(block).to(region.origin.dtype)
            here = region.take(torch.full((len(x),), i))
            valid = here.contains(x).numpy()
            if valid.any():
                broken = bool(allowed[i][predict(x[valid].numpy())].any())
        found.append(broken)
    return np.array(found)


def near_thresholds(x0, low, high, thresholds):
    """The original, the ends, and on and beside every float32 threshold: values of one feature."""
    t = np.asarray(sorted(set(thresholds)), dtype=np.float32)
    beside = [np.nextafter(t, np.float32(s)).astype(float) for s in (-np.inf, np.inf)]
    values = np.concatenate([[x0, low, high], t.astype(float), *beside])
    return sorted({float(v) for v in values if low <= v <= high})


def xgboost_thresholds(model, features):
    """Thresholds per feature, from the model's own JSON."""
    trees = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]
    found = [set() for _ in range(features)]
    for tree in trees["model"]["trees"]:
        for left, f, t in zip(
            tree["left_children"], tree["split_indices"], tree["split_conditions"], strict=True
        ):
            if left >= 0:
                found[f].add(float(np.float32(t)))
    return [sorted(s) for s in found]


def milp(  # one program, row by row
    model, x0, low, high, whole, rows, implications, sign, seconds=20.0, ball=None
):
    """min of sign * margin over the box; None if it was not solved. XGBoost, two classes.

    `ball`: (eps, width), the L2 ball of (x - x0) / width, by tangents of the squares from outside;
    where the point lies outside the ball, tangents at it are added and the program solved again.

    `rows`: (coefficients, bound) with coefficients @ x <= bound; `implications`: (a, b), if
    feature a > 0 then feature b > 0 (b real: at least 2e-6). Thresholds count as crossed upwards
    from the float32 number itself (XGBoost goes left below it).
    """
    learner = json.loads(model.get_booster().save_raw("json"))["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    base = float(learner["learner_model_param"]["base_score"].strip("[]"))
    margin0 = float(np.log(base / (1 - base)))
    d = len(x0)
    names = {}  # (feature, threshold) -> column of the binary "x < threshold"
    cost, lower, upper, integer = [0.0] * d, list(low), list(high), [int(w) for w in whole]

    def column(c, lo, hi, whole_number):
        cost.append(c), lower.append(lo), upper.append(hi), integer.append(whole_number)
        return len(cost) - 1

    data, at, cols, lo_row, hi_row = [], [], [], [], []

    def row(entries, lo, hi):
        for c, v in entries:
            data.append(v), at.append(len(lo_row)), cols.append(c)
        lo_row.append(lo), hi_row.append(hi)

    for tree in trees:
        left, right = tree["left_children"], tree["right_children"]
        leaves = []

        def collect(node, path, tree=tree, left=left, right=right, leaves=leaves):
            if left[node] < 0:
                leaves.append((float(np.float32(tree["split_conditions"][node])), path))
                return
            f, t = tree["split_indices"][node], float(np.float32(tree["split_conditions"][node]))
            edge = float(np.ceil(t)) if whole[f] else t
            if low[f] >= edge:
                collect(right[node], path)
            elif high[f] < edge:
                collect(left[node], path)
            else:
                if (f, edge) not in names:
                    b = names[f, edge] = column(0.0, 0, 1, 1)
                    gap = 1.0 if whole[f] else max(1e-9, 1e-7 * abs(edge))
                    # b = 1: x <= edge - gap; b = 0: x >= edge
                    row([(f, 1.0), (b, high[f] - (edge - gap))], -np.inf, high[f])
                    row([(f, 1.0), (b, edge - low[f])], edge, np.inf)
                collect(left[node], [*path, (names[f, edge], 1)])
                collect(right[node], [*path, (names[f, edge], 0)])

        collect(0, [])
        if len(leaves) == 1:
            margin0 += leaves[0][0]
            continue
        shares = [column(sign * v, 0, 1, 0) for v, _ in leaves]
        row([(s, 1.0) for s in shares], 1, 1)
        for s, (_, path) in zip(shares, leaves, strict=True):
            for b, side in path:
                row([(s, 1.0), (b, -1.0)] if side else [(s, 1.0), (b, 1.0)], -np.inf, 1 - side)
    for coefficients, bound in rows:
        row([(f, a) for f, a in enumerate(coefficients) if a], -np.inf, bound)
    for a, b in implications:
        on = column(0.0, 0, 1, 1)
        row([(a, 1.0), (on, -max(high[a], 1.0))], -np.inf, 0)
        least = 1.0 if whole[b] else 2e-6
        row([(b, 1.0), (on, -least + min(low[b], 0.0))], min(low[b], 0.0), np.inf)
    reach = {}  # feature -> columns of its scaled distance and of that one's square

    def tangent(f, a):
        row([(reach[f][1], 1.0), (reach[f][0], -2 * a)], -a * a, np.inf)

    if ball is not None:
        eps, width = ball
        for f in np.flatnonzero(np.asarray(low) < np.asarray(high)):
            e, q = column(0.0, 0, eps, 0), column(0.0, 0, eps * eps, 0)
            reach[f] = e, q
            row([(f, 1.0), (e, -width[f])], -np.inf, x0[f])
            row([(f, 1.0), (e, width[f])], x0[f], np.inf)
            for a in np.linspace(0, eps, 7)[1:]:
                tangent(f, a)
        row([(q, 1.0) for _, q in reach.values()], -np.inf, eps * eps * (1 + 1e-9))
    for _ in range(1 if ball is None else 8):
        matrix = csr_matrix((data, (at, cols)), shape=(len(lo_row), len(cost)))
        answer = highs(
            np.array(cost), integrality=np.array(integer), bounds=Bounds(lower, upper),
            constraints=LinearConstraint(matrix, lo_row, hi_row),
            options={"time_limit": seconds, "mip_rel_gap": 1e-7},
        )  # fmt: skip
        if answer.status != 0 or answer.fun + sign * margin0 > 0 or ball is None:
            break  # without a success in the larger set there is none in the ball
        far = {f: abs(answer.x[f] - x0[f]) / width[f] for f in reach}
        if sum(v * v for v in far.values()) <= eps * eps * (1 + 1e-6):
            break
        for f, v in far.items():
            tangent(f, v)
    else:
        return None
    if answer.status == 2:
        return np.inf
    return None if answer.status != 0 else float(answer.fun + sign * margin0)
