"""The compiled search (`native/proofs/exact.cpp`): its declaration, and one batch through it."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
import torch
from numpy.typing import ArrayLike

from durometer.kernels.arrays import Array, Bools, Floats, Ints
from durometer.kernels.native import Kernel, Layout
from durometer.proofs.search.box import Box
from durometer.proofs.search.constraint import Constraint, pack
from durometer.trees.ensemble import LAYOUT as ENSEMBLE
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid

OPEN, BROKEN, PROVEN, TIED = range(4)
SWEEPS = 20, 5  # of messages: at the root, in every other box
TIES = 16  # tied cells of a row that are kept, for the library to decide
_SHORT = 2.0**20  # sums of whole multiples of 1 / _SHORT are exact

DOMAIN = Layout(
    rows="size", features="size", constraints="size", terms="size", intervals="size",
    codes="size", cuts="size",
    x0="float64[rows, features]", low="float64[rows, features]", high="float64[rows, features]",
    low_in="float64[rows, features]", high_in="float64[rows, features]",
    kind="int32[features]", code_start="int64[features_1]", code="float64[codes]",
    cut_start="int64[features_1]", cut="float64[cuts]",
    term_start="int64[constraints_1]", term_feature="int32[terms]", term_phi="int32[terms]",
    set_start="int64[terms_1]", coefficient="float64[rows, terms]",
    sets="float64[rows, intervals, 4]", bound="float64[rows, constraints]",
    bound_in="float64[rows, constraints]",
)  # fmt: skip
_exact = Kernel(
    "exact", ensemble=ENSEMBLE, domain=DOMAIN, rows="size", features="size", classes="size",
    threads="int64", seconds="float64", unit="float64", exact="int64", root_sweeps="int64",
    sweeps="int64", allowed="uint8[rows, classes]", verdict="out int32[rows]",
    point="out float64[rows, features]", margin="out float64[rows]", ties="out int64[rows]",
    room="size", tied="out float64[rows, room, features]", nodes_visited="out int64[rows]",
    spent="out float64[rows]", numbers="size",
    proof="out float64[rows, numbers]", proof_size="out int64[rows]",
)  # fmt: skip


class Answer(SimpleNamespace):
    """verdict (n,), point (n, d), margin (n,) a lower bound, ties, nodes, seconds (n,).

    proof (n, numbers): what a certificate says of each proven row, proof_size (n,) numbers of it.
    """

    verdict: Array
    point: Floats
    margin: Floats
    ties: Ints
    tied: Floats  # (n, TIES, d) a point of each of the first tied cells
    nodes: Ints
    seconds: Floats
    proof: Floats
    proof_size: Ints


def search(
    ensemble: Ensemble, box: Box, constraints: list[Constraint], allowed: Bools, seconds: float,
    numbers: int = 0,
) -> Answer:  # fmt: skip
    """Play every row of the box; a row never looks at another. `numbers`: for each certificate."""
    n = len(box.x0)
    cuts = Grid.of(ensemble).thresholds
    domain = SimpleNamespace(
        x0=box.x0, low=box.low, high=box.high, low_in=box.low_in, high_in=box.high_in,
        kind=box.kind, **_flat("code", box.codes), **_flat("cut", cuts), **pack(constraints, n),
    )  # fmt: skip
    answer = Answer(
        verdict=np.zeros(n, dtype=np.int32), point=box.x0.copy(), margin=np.zeros(n),
        ties=np.zeros(n, dtype=np.int64), tied=np.empty((n, TIES, box.x0.shape[1])),
        nodes=np.zeros(n, dtype=np.int64), seconds=np.zeros(n), proof=np.empty((n, numbers)),
        proof_size=np.zeros(n, dtype=np.int64),
    )  # fmt: skip
    unit = 2.0**-24 if ensemble.single else 2.0**-53
    _exact(
        ensemble, domain, torch.get_num_threads(), seconds, unit, _sums_are_exact(ensemble),
        *SWEEPS,
        np.ascontiguousarray(allowed, dtype=np.uint8), answer.verdict, answer.point, answer.margin,
        answer.ties, answer.tied, answer.nodes, answer.seconds, answer.proof, answer.proof_size,
    )  # fmt: skip
    return answer


def _sums_are_exact(ensemble: Ensemble) -> bool:
    numbers = np.concatenate([ensemble.value.ravel(), ensemble.base, [ensemble.cut]]) * _SHORT
    whole = np.array_equal(numbers, np.rint(numbers)) and bool(np.all(np.abs(numbers) < 2.0**40))
    return whole and not ensemble.single


def _flat(name: str, lists: Iterable[ArrayLike]) -> dict[str, Array]:
    parts = [np.asarray(v, dtype=np.float64) for v in lists]
    start = np.cumsum([0, *(len(v) for v in parts)]).astype(np.int64)
    return {f"{name}_start": start, name: np.concatenate(parts) if parts else np.zeros(0)}
