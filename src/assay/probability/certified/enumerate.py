"""A small box, cell by cell: P(every margin > 0) to the last bit of float64.

Cells within rounding of zero are named, for the model itself to decide.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import fast_kernel, kernel
from assay.probability.certified.joint_margins import chances, doubtful, fill


@kernel
def joint_cells(sizes, most):
    """How many joint cells the features have, `most` + 1 if more."""
    joint = 1
    for n in sizes:
        joint *= n
        if joint > most:
            return most + 1
    return joint


@kernel
def list_cells(
    nf, nc, gain, rough, node, parent, side, begin, trees, name, short, cell_start, sizes, flat,
    weight, base, slack, joint, tied, out,
):  # fmt: skip
    """out[0]: the mass of all cells that are sure; out[5]: how many are within rounding of zero.

    base: margins of the settled trees, tie rule included; tied: room for the doubtful cells (merged
    cells per feature, mass last). More of them than it holds: out[5] is larger. Returns the work.
    """
    active, rivals = sizes.shape[0], base.shape[0]
    order = np.argsort(-sizes)
    doubt = doubtful(nf, rough, node, begin[trees])
    table, error = np.zeros((rivals, joint)), np.zeros(joint if doubt else 0)
    work = fill(
        nf, nc, gain, rough, node, parent, side, begin, np.arange(trees), name, short, cell_start,
        sizes, order, table, error,
    )  # fmt: skip
    margin, wrong = table[0] + base[0], error if doubt else np.zeros(joint)
    for p in range(1, rivals):
        _least(margin, table[p], base[p])
    chance = chances(sizes, order, flat, weight)
    out[0], open_cells = _above(margin, wrong, chance, slack)
    found = 0
    for j in range(joint if open_cells else 0):
        if abs(margin[j]) <= slack + wrong[j]:
            if found < tied.shape[0]:
                rest = j
                for a in order:
                    tied[found, a] = rest % sizes[a]
                    rest //= sizes[a]
                tied[found, active] = chance[j]
            found += 1
    out[0], out[5] = min(out[0], 1.0), found
    return work + joint


@kernel
def _least(least, margin, base):
    for j in range(least.shape[0]):
        least[j] = min(least[j], margin[j] + base)


@fast_kernel
def _above(margin, wrong, chance, slack):
    """(mass of the cells surely above zero, is any neither surely above nor surely below)."""
    sure, doubts = 0.0, 0
    for j in range(margin.shape[0]):
        border = slack + wrong[j]
        sure += chance[j] if margin[j] > border else 0.0
        doubts += abs(margin[j]) <= border
    return sure, doubts > 0
