"""Every tree cut down to what a record's cells reach: tests that are decided vanish, leaves that
agree are one leaf."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel


@kernel
def prune(feature, cut, left, right, missing_left, value, roots, rough, nan, label, first, last):
    """(feature, cut, left, right, original leaf) per node kept, and the roots.

    first, last: the cells of each feature that are reached. Nodes below a leaf that stands for two
    equal ones stay in the arrays; nothing points at them.
    """
    trees, outputs = roots.shape[0], value.shape[1]
    room = 1024
    nf, nc = np.empty(room, np.int32), np.empty(room, np.int32)
    nl, nr = np.empty(room, np.int32), np.empty(room, np.int32)
    up, gl = np.empty(room, np.int32), np.empty(room, np.int32)  # parent; original leaf
    count = 0
    local_roots = np.empty(trees, np.int32)
    stack = np.empty((4096, 3), np.int64)
    for t in range(trees):
        begin = count
        top = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = roots[t], -1, 0
        while top > 0:
            top -= 1
            g, parent, side = stack[top, 0], stack[top, 1], stack[top, 2]
            while feature[g] >= 0:
                f = feature[g]
                if nan[f]:
                    g = left[g] if missing_left[g] else right[g]
                    continue
                lo, hi = first[f], last[f]
                node, child_side = parent, side
                while node >= 0:  # what the path already says about f
                    if nf[node] == f:
                        if child_side == 0:
                            hi = min(hi, nc[node])
                        else:
                            lo = max(lo, nc[node] + 1)
                    above = up[node]
                    if above >= 0:
                        child_side = 0 if nl[above] == node else 1
                    node = above
                if hi <= cut[g]:
                    g = left[g]
                elif lo > cut[g]:
                    g = right[g]
                else:
                    break
            if count == room:
                room *= 2
                nf, nc, nl, nr, up, gl = (
                    _grow(nf, room),
                    _grow(nc, room),
                    _grow(nl, room),
                    _grow(nr, room),
                    _grow(up, room),
                    _grow(gl, room),
                )
            me = count
            count += 1
            up[me] = parent
            if parent >= 0:
                if side == 0:
                    nl[parent] = me
                else:
                    nr[parent] = me
            nl[me], nr[me], gl[me], nf[me], nc[me] = -1, -1, g, feature[g], cut[g]
            if feature[g] >= 0:
                if top + 2 > stack.shape[0]:
                    bigger = np.empty((2 * stack.shape[0], 3), np.int64)
                    for i in range(top):
                        for j in range(3):
                            bigger[i, j] = stack[i, j]
                    stack = bigger
                stack[top, 0], stack[top, 1], stack[top, 2] = right[g], me, 1
                stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = left[g], me, 0
                top += 2
        for node in range(count - 1, begin - 1, -1):  # leaves that agree are one leaf
            if nf[node] >= 0 and nf[nl[node]] < 0 and nf[nr[node]] < 0:
                same = True
                for k in range(outputs):
                    if outputs == 1:
                        same = value[gl[nl[node]], 0] == value[gl[nr[node]], 0]
                    elif (
                        value[gl[nl[node]], label] - value[gl[nl[node]], k]
                        != value[gl[nr[node]], label] - value[gl[nr[node]], k]
                    ):
                        same = False
                if same:
                    gl[node] = gl[nl[node]] if rough[gl[nl[node]]] > 0.0 else gl[nr[node]]
                    nf[node] = -1
        local_roots[t] = begin
        if nf[begin] < 0:
            count = begin + 1
    return nf[:count], nc[:count], nl[:count], nr[:count], gl[:count], local_roots


@kernel
def _grow(a, room):
    out = np.empty(room, a.dtype)
    for i in range(a.shape[0]):
        out[i] = a[i]
    return out
