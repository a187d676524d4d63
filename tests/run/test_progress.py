"""The progress bar: what it says while inner loops compile."""

from __future__ import annotations

import numba
import numpy as np

from assay.run.progress import Progress


def test_the_bar_says_that_a_first_use_compiles() -> None:
    fresh = numba.njit(lambda x: 2 * x)
    with Progress(3, show=True) as bar:
        said: list[str] = []
        bar._live.update = lambda table: said.append(table.caption or "")
        fresh(np.ones(2))
        assert said == ["compiling inner loops (first use only)", ""]
        fresh(np.ones(2))  # compiled already
        assert len(said) == 2
    told = len(said)  # the last state is shown once more at the end
    fresh(np.ones((2, 2)))  # the bar is gone: nobody is told
    assert len(said) == told
