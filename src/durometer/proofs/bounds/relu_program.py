"""A whole small network and a table's rules as one mixed-integer program: exact, for a few rows.

Each step of the network becomes columns and rows (Tjeng et al. 2019): affine steps are equations,
an unstable ReLU has a binary "on", with the bounds that `crown.py` has found as its big M. Whole
numbers, categories, relations and the ball are there as in `milp.py`, so that the answer is about
valid records, not about a box: a bound below 0 is a proof, a point above 0 a candidate.

What a reader would get wrong: a step of another kind is not refused. It may be anything between its
bounds (and lines), which makes the set larger, and a proof stays one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from durometer.kernels.arrays import Array
from durometer.proofs.aten.curves import Hinge
from durometer.proofs.aten.program import Affine, Curve, Input
from durometer.proofs.bounds.crown import Network
from durometer.proofs.search.milp import Program, highest_lowest, records
from durometer.tables.region import TableRegion

MOST = 400  # numbers of bent steps: larger programs do not end in seconds
_SOLVER = 1e-4  # what HiGHS's tolerances may add, relatively


def solve(
    network: Network, spec: Tensor, region: TableRegion, k: int, layer: Any, seconds: float,
    slack: float,
) -> tuple[bool, Array | None]:  # fmt: skip
    """Is the lowest of the leads `spec` (1, m, C) of record k below -slack everywhere? If not,
    a record where it is highest, as far as that was found."""
    box = region.box()
    program, squares, codes = records(region, k, box)
    values: dict[int, tuple[Tensor, Tensor]] = {}  # numbers as (columns, *shape) and (1, *shape)
    for at, op in enumerate(network.program.operations):
        taken = [values[i] for i in op.inputs]
        if isinstance(op, Input):
            values[at] = _inputs(program, region, k, layer, codes, op.shape)
        elif isinstance(op, Affine):
            zero = op.apply(*(torch.zeros_like(c) for _, c in taken))
            wide = len(program.low)
            held = [torch.cat([e, e.new_zeros(wide - len(e), *e.shape[1:])]) for e, _ in taken]
            values[at] = op.apply(*held) - zero, op.apply(*(c for _, c in taken))
        else:
            values[at] = _bounded(program, network, at, taken)
    last = len(network.program.operations) - 1
    terms, const = (t.flatten(1) for t in values[last])
    leads = torch.einsum("mc,kc->mk", spec[0].flatten(1), terms)
    shift = spec[0].flatten(1) @ const[0]
    scores = [
        ({int(i): float(w[i]) for i in w.nonzero()[:, 0]}, float(b))
        for w, b in zip(leads, shift, strict=True)
    ]
    size = float(sum(side.abs().amax() for side in network.bounds[last]))
    blur = float((spec[0].flatten(1).abs() @ _blur(network)[0].flatten()).amax())
    floor = -slack - _SOLVER * size - blur
    bound, point = highest_lowest(program, squares, scores, seconds, floor)
    return bound < floor, None if point is None else point[: region.x0.shape[1]]


def _blur(network: Network) -> Tensor:
    """(1, *shape): how far what the model computes may be from the program's exact numbers."""
    moved = network.domain.rounded
    if moved is None:
        moved = torch.zeros_like(network.domain.centre)
    blur: list[Tensor] = []
    for at, op in enumerate(network.program.operations):
        own: Tensor | float = network.errors.get(at, 0.0)
        if isinstance(op, Input):
            found = moved.reshape(len(moved), *op.shape)
        elif isinstance(op, Affine):
            found = op.spread(*(blur[i] for i in op.inputs)) + own
        elif isinstance(op, Hinge):
            found = op.slope.abs().clamp_min(1.0) * blur[op.inputs[0]] + own
        elif isinstance(op, Curve):
            line = network.relaxations[at]
            slope = line.lower_slope.abs().maximum(line.upper_slope.abs())
            found = slope * blur[op.inputs[0]] + own
        else:  # between its bounds, whatever goes in
            found = torch.zeros_like(network.bounds[at][0])
        blur.append(found)
    return blur[-1]


def _inputs(
    program: Program, region: TableRegion, k: int, layer: Any, codes: dict[int, list[int]],
    shape: tuple[int, ...],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What the network sees of the columns."""
    d = region.x0.shape[1]
    if layer is None:
        eye = torch.eye(d, len(program.low), dtype=torch.float64).T
        return eye.reshape(-1, *shape), torch.zeros(1, *shape, dtype=torch.float64)
    size, count = math.prod(shape), len(layer.numbers)
    e = torch.zeros(len(program.low), size, dtype=torch.float64)
    c = torch.zeros(1, size, dtype=torch.float64)
    width, start = layer.width.double(), layer.low.double()
    e[layer.numbers, torch.arange(count)] = 1 / width
    c[0, :count] = -start / width
    at = count
    for i in (i for group in layer.one_hot_groups for i in group):
        e[i, at] = 1.0
        at += 1
    for i, values in layer.codes:
        for j, value in enumerate(values):
            if i in codes:
                e[codes[i][j], at + j] = 1.0
            else:
                c[0, at + j] = float(region.x0[k, i] == value)
        at += len(values)
    return e.reshape(-1, *shape), c.reshape(1, *shape)


def _bounded(
    program: Program, network: Network, at: int, taken: list[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """What is not affine: passed on where it is straight, a column where it is not."""
    op = network.program.operations[at]
    low, high = (side[0].flatten() for side in network.bounds[at])
    line = network.relaxations.get(at)
    expressions: list[tuple[dict[int, float], float]] = []
    if line is not None:
        z_side = [side[0].flatten() for side in network.bounds[op.inputs[0]]]
        lines = [
            v[0].flatten()
            for v in (line.lower_slope, line.lower_bias, line.upper_slope, line.upper_bias)
        ]
        slopes = op.slope.expand(op.shape).flatten() if isinstance(op, Hinge) else None
        inner, fixed = (t.reshape(len(t), -1) for t in taken[0])
    for j in range(len(low)):
        if line is None:
            expressions.append(({program.column(float(low[j]), float(high[j])): 1.0}, 0.0))
            continue
        terms, const = inner[:, j], float(fixed[0, j])
        now = {int(i): float(terms[i]) for i in terms.nonzero()[:, 0]}
        z_low, z_high = (float(s[j]) for s in z_side)
        below, floor, above, roof = (float(v[j]) for v in lines)
        slope = None if slopes is None else float(slopes[j])
        if slope is not None and (z_low >= 0 or z_high <= 0):
            expressions.append(({i: below * w for i, w in now.items()}, below * const))
            continue
        z = program.column(z_low, z_high)
        program.row({**now, z: now.get(z, 0.0) - 1.0}, -const, -const)
        y = program.column(float(low[j]), float(high[j]))
        program.row({y: 1.0, z: -above}, roof)
        if slope is not None and slope <= 1:
            on = program.column(0, 1, True)
            program.row({y: -1.0, z: 1.0}, 0.0)
            program.row({y: -1.0, z: slope}, 0.0)
            # off: y <= slope z; on: y <= z
            program.row({y: 1.0, z: -slope, on: -(1 - slope) * z_high}, 0.0)
            program.row({y: 1.0, z: -1.0, on: -(1 - slope) * z_low}, -(1 - slope) * z_low)
        else:
            program.row({y: -1.0, z: below}, -floor)
        expressions.append(({y: 1.0}, 0.0))
    wide = len(program.low)
    e = torch.zeros(wide, len(low), dtype=torch.float64)
    c = torch.zeros(1, len(low), dtype=torch.float64)
    for j, (terms_, const_) in enumerate(expressions):
        for i, w in terms_.items():
            e[i, j] = w
        c[0, j] = const_
    return e.reshape(wide, *op.shape), c.reshape(1, *op.shape)
