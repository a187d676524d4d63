"""`decide`: is there a valid point that a tree ensemble gives to one of the allowed classes?

For each row of a region: the point, or the proof that there is none, or neither in the time given.

Certificates: what somebody else needs to check a proof, as one list of numbers for each row.

    1, digest of the row, digest of the trees
    constraints: how many; of each: bound, terms
        terms: how many; of each: feature, phi, a, sets (how many; of each: low, high)
    targets: how many; of each: the class, then the tree of cuts, parts before what follows them
        0                  no valid point fits in here
        1, f, t            the part with x_f <= t follows, then the one with x_f > t
        2, rival, grid,    the rival stays ahead of the target, by
           multipliers: how many; of each: constraint, value
           potentials: how many; of each: tree, feature, pieces, places of the thresholds between
                       them, values / grid
        3                  every tree has one leaf here, and their sum misses the goal

The checker (`verification/certificate.py`) knows this format and no code of the search.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from durometer.core.errors import DurometerError, Unsupported
from durometer.kernels.arrays import Array, Bools, Floats, Ints
from durometer.proofs.search.box import Box, box_of, unlimited
from durometer.proofs.search.box_splitting import Ask, Parts, Play
from durometer.proofs.search.constraint import Constraint
from durometer.proofs.search.expressions import Expressions
from durometer.proofs.search.kernel import BROKEN, OPEN, PROVEN, TIED, TIES, Answer, search
from durometer.proofs.search.separable import Separable
from durometer.spaces.ball import LpRegion
from durometer.tables.region import TableRegion
from durometer.trees.ensemble import Ensemble

_BLOCK = 32  # rows whose certificates are written at a time
_NUMBERS = 2**20  # in a certificate; what takes more stays without one


@dataclass(frozen=True, eq=False)
class Decision:
    """What is known of each row. `point` means something where `broken`."""

    broken: Bools  # (n,)
    proven: Bools
    point: Floats  # (n, d)
    margin: Floats  # (n,) no valid point's margin is smaller: > 0 where proven, else a bound
    nodes: Ints
    seconds: Floats
    nearest: Floats | None = None  # (n,) nothing as near as this is a success; NaN: not known
    certificates: tuple[bytes | None, ...] = ()  # of proven rows, where they were asked for

    @property
    def open(self) -> Bools:
        """Neither broken nor proven."""
        return ~(self.broken | self.proven)


def decide(
    ensemble: Ensemble, region: Any, allowed: Bools, seconds: float = 5.0,
    radius: Floats | None = None, certificates: bool = False,
) -> Decision:  # fmt: skip
    """Decide every row; `allowed` (n, classes) says which classes count as success.

    `radius` (n,) replaces the region's eps. Points are checked against the region itself.
    `certificates` keeps what makes each proof checkable by somebody else.
    """
    if certificates and len(allowed) > _BLOCK:
        return _in_blocks(ensemble, region, allowed, seconds, radius)
    box = box_of(region, radius)
    if box.x0.shape[1] != ensemble.n_features:
        raise Unsupported(
            f"the {ensemble.source} model takes {ensemble.n_features} features, the region has "
            f"{box.x0.shape[1]}"
        )
    if allowed.shape != (len(box.x0), ensemble.n_classes):
        raise DurometerError(
            f"allowed has shape {allowed.shape}; expected {(len(box.x0), ensemble.n_classes)}: "
            "rows, classes"
        )
    constraints = constraints_of(region, box)
    answer = search(ensemble, box, constraints, allowed, seconds, _NUMBERS if certificates else 0)
    verdict = _judged(ensemble, region, allowed, answer)
    left = np.flatnonzero((verdict == OPEN) & (answer.verdict != TIED) & (answer.seconds < seconds))
    if len(left) and isinstance(region, TableRegion) and not _complete(region, box):
        parts = Parts(region, *_players(ensemble, region, allowed))
        rest = seconds - float(answer.seconds[left].mean())
        verdict[left], answer.point[left] = parts.decide(box, left, rest)
        shown = left[verdict[left] == PROVEN]
        answer.margin[shown] = np.maximum(answer.margin[shown], 0.0)  # of each part, not kept
    verdict[(verdict == PROVEN) & _gaps_may_change(region)] = OPEN
    kept: tuple[bytes | None, ...] = ()
    if certificates:
        proofs = [answer.proof[i, :size] for i, size in enumerate(answer.proof_size)]
        kept = encode_certificate(ensemble, box.x0, constraints, proofs, verdict == PROVEN)
    return Decision(
        verdict == BROKEN, verdict == PROVEN, answer.point, answer.margin, answer.nodes,
        answer.seconds, certificates=kept,
    )  # fmt: skip


def vacuous(ensemble: Ensemble, region: Any, allowed: Bools, seconds: float) -> Bools:
    """(n,) is there no success even if all that eps can move may take any value?

    False where that is not shown within `seconds`, so a share of these is a lower bound.
    """
    box = unlimited(region)
    answer = search(ensemble, box, constraints_of(region, box), allowed, seconds)
    return np.asarray((answer.verdict == PROVEN) & ~_gaps_may_change(region))


def _judged(ensemble: Ensemble, region: Any, allowed: Bools, answer: Answer) -> Ints:
    """The kernel's verdicts, its points judged by the region and the library themselves."""
    verdict, point = answer.verdict.copy(), answer.point
    found = np.flatnonzero(verdict == BROKEN)
    if len(found):
        good, valid = _holds(ensemble, region, allowed, found, point)
        if isinstance(region, TableRegion) and not valid.all():
            # a relation that the bound does not know: the region repairs what can be computed
            wrong = found[~valid]
            part = region.take(torch.from_numpy(wrong))
            repaired = part.decode(part.encode(torch.from_numpy(point[wrong]))).numpy()
            mended = point.copy()
            mended[wrong] = repaired
            better, _ = _holds(ensemble, region, allowed, wrong, mended)
            point[wrong[better]] = repaired[better]
            good[~valid] = better
        verdict[found] = np.where(good, BROKEN, OPEN)
    tied = np.flatnonzero(verdict == TIED)
    verdict[tied] = OPEN
    if ensemble.library is not None:
        _ask_the_library(ensemble, region, allowed, answer, tied, verdict)
    return verdict


def _ask_the_library(
    ensemble: Ensemble, region: Any, allowed: Bools, answer: Answer, tied: Ints, verdict: Ints
) -> None:
    """Rows whose only unsettled cells are ties: the points of a cell have one label, its own."""
    rows = tied[answer.ties[tied] <= TIES]
    none = np.ones(len(rows), dtype=bool)  # no tied cell reaches the goal
    for k in range(TIES):
        asked = answer.ties[rows] > k
        if not asked.any():
            break
        here = rows[asked]
        x = answer.tied[:, k]
        label = ensemble.decide(x[here])
        none[asked] &= ~allowed[here, label]
        good, _ = _holds(ensemble, region, allowed, here, x)
        answer.point[here[good]] = x[here[good]]
        verdict[here[good]] = BROKEN
    verdict[rows[none]] = PROVEN


def _players(ensemble: Ensemble, region: TableRegion, allowed: Bools) -> tuple[Play, Ask]:
    """What `Parts` needs: boxes through the kernel, and records through the judge."""

    def play(box: Box, of: Ints, seconds: float) -> tuple[Ints, Floats]:
        part = region.take(torch.from_numpy(of))
        answer = search(ensemble, box, constraints_of(part, box), allowed[of], seconds)
        return _judged(ensemble, part, allowed[of], answer), answer.point

    def ask(x: Floats, of: Ints) -> Bools:
        part, every = region.take(torch.from_numpy(of)), np.arange(len(of))
        return _holds(ensemble, part, allowed[of], every, x)[0] if len(of) else every.astype(bool)

    return play, ask


def _complete(region: TableRegion, box: Box) -> bool:
    """Do the constraints say all of the relations?"""
    schema = region.space.schema
    around = Expressions(schema.layout, box.x0, box.low, box.high, float(region.space.tolerance))
    return bool(Separable(around).read(schema.relations)[1].all())


def _in_blocks(
    ensemble: Ensemble, region: Any, allowed: Bools, seconds: float, radius: Floats | None
) -> Decision:
    """Certificates are large while they are written: some rows at a time."""
    parts = []
    for at in range(0, len(allowed), _BLOCK):
        rows = np.arange(at, min(at + _BLOCK, len(allowed)))
        part, here = region.take(torch.from_numpy(rows)), None if radius is None else radius[rows]
        parts.append(decide(ensemble, part, allowed[rows], seconds, here, certificates=True))
    joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts])
              for f in fields(Decision) if f.name not in ("nearest", "certificates")}  # fmt: skip
    return Decision(**joined, certificates=tuple(c for p in parts for c in p.certificates))


def constraints_of(region: Any, box: Box) -> list[Constraint]:
    """The budget, and the relations as far as they are separable."""
    found = list(box.budget)
    if isinstance(region, TableRegion) and region.constrained:
        schema = region.space.schema
        tolerance = float(region.space.tolerance)
        around = Expressions(schema.layout, box.x0, box.low, box.high, tolerance)
        relations = Separable(around)
        found += relations.read(schema.relations)[0]
    return found


def _gaps_may_change(region: Any) -> Bools:
    """(n,) may a cell be filled in or left blank? The search keeps missing cells as they are."""
    if not isinstance(region, TableRegion) or region.gaps is None:
        return np.zeros(len(region.origin), dtype=bool)
    return np.asarray(region.gaps.may.any(1).numpy())


def _holds(
    ensemble: Ensemble, region: Any, allowed: Bools, rows: Ints, point: Floats
) -> tuple[Bools, Bools]:
    """Which of these rows' points are valid successes, and which are valid."""
    part = region.take(torch.from_numpy(rows))
    x = torch.from_numpy(point[rows]).to(region.origin.dtype)
    if isinstance(region, LpRegion):
        x = x.reshape(len(rows), *region.inputs)
    valid = part.contains(x).numpy()
    good = valid.copy()
    if valid.any():  # of an invalid point no library need have an opinion
        label = ensemble.decide(x.double().numpy().reshape(len(rows), -1)[valid])
        good[valid] = allowed[rows[valid], label]
    return good, valid


VERSION = 1.0


def encode_certificate(
    ensemble: Ensemble, x0: Floats, constraints: list[Constraint], proofs: list[Floats],
    proven: Bools,
) -> tuple[bytes | None, ...]:  # fmt: skip
    """The certificates of proven rows; None where there is none, or none that is small enough."""
    trees = digest(ensemble.feature, ensemble.threshold, ensemble.left, ensemble.right,
                   ensemble.value, ensemble.roots, ensemble.base)  # fmt: skip

    def written(i: int, proof: np.ndarray) -> bytes:
        numbers = [VERSION, digest(x0[i]), trees, *_describe(constraints, i), *proof]
        return pack_certificate(np.array(numbers))

    return tuple(
        written(i, proof)
        if proven[i] and len(proof) else None
        for i, proof in enumerate(proofs)
    )  # fmt: skip


def digest(*arrays: Array) -> float:
    """A whole number that a float64 holds."""
    whole = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return float(int.from_bytes(whole.digest()[:6], "little"))


def pack_certificate(numbers: Floats) -> bytes:
    """Compressed, with the bytes of equal weight side by side."""
    return zlib.compress(np.frombuffer(numbers.tobytes(), np.uint8).reshape(-1, 8).T.tobytes(), 6)


def _describe(constraints: list[Constraint], i: int) -> list[float]:
    """What the proof of row i assumes of a valid point, beside the bounds of each feature."""
    out: list[float] = [len(constraints)]
    for c in constraints:
        terms = [t for t in c.terms if t.a[i] != 0]
        out += [min(float(c.outer[i]), 1e300), len(terms)]
        for t in terms:
            sets = np.zeros((0, 4)) if t.sets is None else t.sets[i]
            out += [t.feature, t.phi, float(t.a[i]), len(sets), *sets[:, :2].ravel().tolist()]
    return out
