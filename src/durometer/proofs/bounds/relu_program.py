"""A whole small network and a table's rules as one mixed-integer program: exact, for a few rows.

Each step of the network becomes columns and rows (Tjeng et al. 2019): affine steps are equations,
an unstable ReLU has a binary "on", with the bounds that `crown.py` has found as its big M. Whole
numbers, categories, relations and the ball are there as in `milp.py`, so that the answer is about
valid records, not about a box: a bound below 0 is a proof, a point above 0 a candidate.

What a reader would get wrong: a step of another kind is not refused. It may be anything between its
bounds (and lines), which makes the set larger, and a proof stays one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from durometer.kernels.arrays import Array
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.inputs import SINGLE
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
    values: dict[str, tuple[Tensor, Tensor]] = {}  # numbers as (columns, *shape) and (1, *shape)
    for step in network.steps:
        taken = [values[name] for name in step.inputs]
        if step.kind == "input":
            values[step.name] = _inputs(program, region, k, layer, codes, network.shape)
        elif step.kind == "affine":
            zero = step.call(*(torch.zeros_like(c) for _, c in taken))
            wide = len(program.low)
            held = [torch.cat([e, e.new_zeros(wide - len(e), *e.shape[1:])]) for e, _ in taken]
            values[step.name] = step.call(*held) - zero, step.call(*(c for _, c in taken))
        else:
            values[step.name] = _bounded(program, network, step.name, taken)
    terms, const = values[network.steps[-1].name]
    leads = torch.einsum("mc,kc->mk", spec[0], terms)
    shift = spec[0] @ const[0]
    scores = [
        ({int(i): float(w[i]) for i in w.nonzero()[:, 0]}, float(b))
        for w, b in zip(leads, shift, strict=True)
    ]
    size = float(sum(side.abs().amax() for side in network.bounds[network.steps[-1].name]))
    blur = float((spec[0].abs() @ _blur(network)[0]).amax())
    floor = -slack - _SOLVER * size - blur
    bound, point = highest_lowest(program, squares, scores, seconds, floor)
    return bound < floor, None if point is None else point[: region.x0.shape[1]]


def _blur(network: Network) -> Tensor:
    """(1, C): how far what the model computes may be from the program's exact numbers."""
    reach = torch.maximum(*(side.abs() for side in network.domain.box))
    blur: dict[str, Tensor] = {}
    for step in network.steps:
        own = network.errors.get(step.name)
        if step.kind == "input":
            blur[step.name] = (2 * SINGLE * reach).reshape(len(reach), *network.shape)
        elif step.kind == "affine":
            low, high = step.interval(*((-blur[name], blur[name]) for name in step.inputs))
            blur[step.name] = (high - low) / 2 + (0.0 if own is None else own)
        elif step.kind == "bent":
            line = network.bent[step.name]
            slope = line.below.abs().maximum(line.above.abs()).clamp_min(1.0)
            blur[step.name] = slope * blur[step.inputs[0]] + (0.0 if own is None else own)
        else:  # between its bounds, whatever goes in
            blur[step.name] = torch.zeros_like(network.bounds[step.name][0])
    return blur[network.steps[-1].name]


def _inputs(
    program: Program, region: TableRegion, k: int, layer: Any, codes: dict[int, list[int]],
    shape: tuple[int, ...],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What the network sees of the columns."""
    d = region.x0.shape[1]
    if layer is None:
        eye = torch.eye(d, len(program.low), dtype=torch.float64).T
        return eye.reshape(-1, *shape), torch.zeros(1, *shape, dtype=torch.float64)
    size, count = shape[0], len(layer.numbers)
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
    return e, c


def _bounded(
    program: Program, network: Network, name: str, taken: list[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """A step that is not affine: passed on where it is straight, a column where it is not."""
    step = next(s for s in network.steps if s.name == name)
    low, high = (side[0].flatten() for side in network.bounds[name])
    line = network.bent.get(name)
    expressions: list[tuple[dict[int, float], float]] = []
    for j in range(len(low)):
        if line is None:
            expressions.append(({program.column(float(low[j]), float(high[j])): 1.0}, 0.0))
            continue
        terms, const = (t.reshape(len(t), -1)[:, j] for t in taken[0])
        now = {int(i): float(terms[i]) for i in terms.nonzero()[:, 0]}
        z_low, z_high = (float(s[0].flatten()[j]) for s in network.bounds[step.inputs[0]])
        below, floor, above, roof = (
            float(v[0].flatten()[j]) for v in (line.below, line.floor, line.above, line.roof)
        )
        if step.curve in ("relu", "leaky") and not bool(line.loose[0].flatten()[j]):
            expressions.append(({i: below * w for i, w in now.items()}, below * float(const[0])))
            continue
        z = program.column(z_low, z_high)
        program.row({**now, z: now.get(z, 0.0) - 1.0}, -float(const[0]), -float(const[0]))
        y = program.column(float(low[j]), float(high[j]))
        program.row({y: 1.0, z: -above}, roof)
        if step.curve in ("relu", "leaky"):
            on, slope = program.column(0, 1, True), step.slope
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
    shape = network.bounds[name][0].shape[1:]
    return e.reshape(wide, *shape), c.reshape(1, *shape)
