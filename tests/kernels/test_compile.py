"""Compiled code where nothing can be written: beside the package, else elsewhere, else not kept."""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching

from assay.kernels.compile import fast_kernel, kernel


def double(x):  # type: ignore[no-untyped-def]
    return 2 * x


@pytest.mark.parametrize("make", [kernel, fast_kernel])
def test_a_read_only_package_and_home_compile_into_the_temporary_folder(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = [c for c in caching.CacheImpl._locator_classes if "UserProvided" in c.__name__]
    assert only, "numba has renamed its locators: the test must follow"
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", only)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(double)
    assert make(double)(np.arange(3.0)).tolist() == [0, 2, 4]
    assert list(tmp_path.rglob("*.nbi"))


def test_where_nothing_can_be_written_it_is_compiled_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert kernel(double)(np.arange(3.0)).tolist() == [0, 2, 4]
    assert "NUMBA_CACHE_DIR" in caplog.text
