"""Population: many individuals per row, expressed, measured and asked of the model in one call.

What every genetic or local search here shares: genes in, three numbers out (probability outside the
goal, distance, violation), with every individual judged by the referee on the way; and the cutting
of a batch into blocks of rows that fit a memory budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from durometer import losses
from durometer.core.errors import DurometerError, Unsupported
from durometer.kernels.arrays import Array
from durometer.problem.problem import Problem
from durometer.spaces.genes import Genes, Genetic

_WORK = (
    12  # arrays of the evaluated inputs' size that live at once (measured: docs/how-to/search.md)
)
_CACHED = 2 * 10**8  # on a CPU larger blocks only miss the caches: up to twice slower (measured)


def genetic(problem: Problem) -> Genetic:
    """The region of all rows, or a refusal."""
    region = problem.regions
    if not isinstance(region, Genetic):
        raise Unsupported(
            f"a search over genes needs an Lp ball or a table, not a {type(region).__name__}; "
            "use PGD or APGD there"
        )
    return region


def blocks(problem: Problem, held: int, evaluated: int, memory: int) -> Iterator[Tensor]:
    """Open rows, as many at a time as fit into `memory` bytes, and no more than a CPU is good at.

    Per row `held` individuals are stored and `evaluated` are asked of the model at once.
    """
    if memory < 1:
        raise DurometerError(f"memory={memory}: expected a number of bytes, e.g. 2 * 10**9")
    inputs, coordinates = math.prod(problem.shape), problem.regions.origin.shape[1]
    each = 8 * (2 * held * coordinates + _WORK * evaluated * (inputs + coordinates))
    rows = problem.open
    size = max(1, (min(memory, _CACHED) if rows.device.type == "cpu" else memory) // each)
    yield from (rows[i : i + size] for i in range(0, len(rows), size))


class Population:
    """`size` individuals for each of `rows`; made anew when rows drop out."""

    def __init__(self, problem: Problem, rows: Tensor, genes: Genes, size: int) -> None:
        self.problem, self.genes = problem, genes
        self.rows = rows.repeat_interleave(size)
        self.region = problem.region(self.rows)
        self.shape = (len(rows), size)
        self.targets = problem.targets[self.rows]

    def measure(self, individuals: Array) -> tuple[Tensor, Tensor, Tensor]:
        """Log odds of the goal, distance and violation (n, size) of genes (n, size, G)."""
        assert isinstance(self.region, Genetic)
        genes = torch.from_numpy(individuals).to(self.genes.start.device)
        flat = self.genes.express(genes)
        x = flat.reshape(len(flat), *self.problem.shape)
        violation = flat.new_zeros(len(flat))
        if self.region.constrained:
            violation = self.region.violation(x)
        logits = self.problem.query(self.rows, x, violation)
        odds = losses.odds(logits.double(), self.targets)
        found = (odds, self.region.distance(x).double(), violation.double())
        odds, distance, violation = (f.reshape(self.shape) for f in found)
        return odds, distance, violation

    def evaluate(self, individuals: Array) -> Array:
        """(n, size, 3): probability outside the goal, distance, violation; all to be minimised."""
        odds, distance, violation = self.measure(individuals)
        found: Array = torch.stack([torch.sigmoid(-odds), distance, violation], dim=2).cpu().numpy()
        return np.nan_to_num(found, nan=np.inf)
