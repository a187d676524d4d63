"""How many threads a compiled kernel is given: as many as torch uses, where there is work enough.

A row never looks at another, so the number of threads changes nothing but the time.
"""

from __future__ import annotations

import torch
from torch import Tensor

_FEW_NUMBERS = 1 << 18  # one thread has done so many before another has begun
_FEW_ROWS = 4  # of a population: each takes far longer than it takes to start a thread


def threads_for(numbers: Tensor) -> int:
    """For kernels that pass over these numbers a few times."""
    return min(torch.get_num_threads(), 1 + numbers.numel() // _FEW_NUMBERS)


def threads_for_rows(rows: int) -> int:
    """For kernels that take long over each row."""
    return max(1, min(torch.get_num_threads(), rows // _FEW_ROWS))
