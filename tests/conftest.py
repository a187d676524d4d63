"""What holds for every test: the same hypothesis examples each time, one thread, no network.

`HYPOTHESIS_PROFILE=search pytest` looks for new counter-examples instead.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test may find a data set in, or leave one in, the user's cache."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "assay-cache"))
