"""Certificates of proven rows: where a region is cut, and the slopes and multipliers of each part.

What is written is not what the proof happened to do, but what somebody else needs to redo it: a
tree of cuts, at ReLUs or, where few features can move, of a feature's range in halves (both sides
follow, the upper one first), and for a part that the plain bound does not close, a slope and a
multiplier for every ReLU. Whoever checks it
(`verification/network.py`) computes all bounds anew from the weights.

What a reader would get wrong: some proven rows get none. A mixed-integer program leaves nothing
behind that is short, and rules of a table are not part of these bounds.
"""

from __future__ import annotations

import io

import numpy as np
import torch
from torch import Tensor

from durometer.proofs.aten.curves import Hinge
from durometer.proofs.aten.program import Curve, Program
from durometer.proofs.bounds.climb import climb
from durometer.proofs.bounds.crown import Free, Network
from durometer.proofs.bounds.domain import Domain

FEW = 8  # features that can move: up to so many are halved
_MARGIN = 1e-6  # leads must be below 0 by so much, relatively: another's sums are rounded otherwise


def encode(
    digest: str, cuts: list[tuple[int, int]], alpha: list[Tensor], beta: list[Tensor]
) -> bytes:
    """A certificate as numpy's .npz."""
    out = io.BytesIO()
    joined = [torch.cat(v) if v else torch.zeros(0) for v in (alpha, beta)]
    np.savez_compressed(
        out, digest=np.array(digest), cuts=np.array(cuts, np.int32),
        alpha=joined[0].float().numpy(), beta=joined[1].float().numpy(),
    )  # fmt: skip
    return out.getvalue()


def certify(
    program: Program, held: Domain, spec: Tensor, goal: Tensor, digest: str, most: int
) -> bytes | None:
    """The certificate of one row; None where `most` parts do not do.

    Args:
        program: The network.
        held: The domain of the row.
        spec: Leads of each class of the goal over each other class, as weights (1, m, *shape).
        goal: How many classes the goal has; the leads are in their order.
        digest: The model's hash.
        most: Largest number of parts.
    """
    curves = {k: op for k, op in enumerate(program.operations) if isinstance(op, Curve)}
    if not all(isinstance(op, Hinge) for op in curves.values()) or held.blocks:
        return None
    places = list(curves)
    wanted = int(goal.sum())
    cuts: list[tuple[int, int]] = []
    alpha: list[Tensor] = []
    beta: list[Tensor] = []
    stack: list[tuple[dict[int, Tensor], Tensor, Tensor]] = [({}, held.low, held.high)]
    halve = int((held.high - held.low > 1e-4).sum()) <= FEW
    while stack:
        if len(cuts) > 2 * most:
            return None
        signs, low, high = stack.pop()
        network = Network(program, held.within(low, high), signs)
        with torch.no_grad():
            network.prepare()
            lead = network.highest(spec)
        if bool(network.empty()) or _closed(lead, wanted):
            cuts.append((-1, 0))
            continue
        _, free = climb(network, spec, 20)
        used = _single(network, free)
        with torch.no_grad():
            lead = network.highest(spec, free=used)
        if places and _closed(lead, wanted):
            cuts.append((-2, 0))
            for k in places:
                like = network.relaxations[k].lower_slope
                alpha.append(used.alpha.get(k, like).flatten())
                beta.append(free.beta.get(k, torch.zeros_like(like)).flatten())
            continue
        if halve:
            at = _feature(network, spec, high - low)
            cuts.append((-3, at))
            middle = (low + high) / 2
            only = torch.arange(low.shape[1]) == at
            stack.append((signs, low, torch.where(only, middle, high)))
            stack.append((signs, torch.where(only, middle, low), high))
            continue
        found = _worst(network, spec, places)
        if found is None:
            return None
        cuts.append((places.index(found[0]), found[1]))
        for side in (-1, 1):
            other = {k: v.clone() for k, v in signs.items()}
            like = network.relaxations[found[0]].lower_slope
            fixed = other.setdefault(found[0], torch.zeros(like.shape, dtype=torch.int8))
            fixed.view(-1)[found[1]] = side
            stack.append((other, low, high))
    return encode(digest, cuts, alpha, beta)


def _closed(lead: Tensor, wanted: int) -> bool:
    """Is every class of the goal clearly behind some other?"""
    low = lead.reshape(wanted, -1)
    return bool((low < -_MARGIN * (1 + low.abs())).any(1).all())


def _single(network: Network, free: Free) -> Free:
    """The choices as they are written, in single precision, where there is one."""
    alpha, beta = {}, {}
    for k, v in free.alpha.items():
        free.alpha[k] = v.float().double()
        line = network.relaxations[k]
        alpha[k] = torch.where(line.unstable, free.alpha[k], line.lower_slope)
    for k, v in free.beta.items():
        free.beta[k] = v.float().double()
        beta[k] = free.beta[k] * network.signs[k]
    return Free(alpha, beta)


def _feature(network: Network, spec: Tensor, width: Tensor) -> int:
    """The feature whose range weighs most in the leads."""
    with torch.no_grad():
        weight = network.linear(spec)[0]
    return int((weight.abs().amax((0, 1)) * width[0]).argmax())


def _worst(network: Network, spec: Tensor, places: list[int]) -> tuple[int, int] | None:
    """The unstable ReLU whose interval, on its narrower side, weighs most in the leads."""
    best, found = 0.0, None
    seen: dict[int, Tensor] = {}
    with torch.no_grad():
        network.highest(spec, free=Free(seen=seen))
    for k in places:
        low, high = network.bounds[network.program.operations[k].inputs[0]]
        room = high.clamp_min(0).minimum((-low).clamp_min(0)).flatten()
        room = room * (seen[k].abs().flatten(2).amax((0, 1)) + 1e-12 if k in seen else 1e-12)
        at = int(room.argmax())
        if float(room[at]) > best:
            best, found = float(room[at]), (k, at)
    return found
