"""What holds for every test: the same hypothesis examples each time, one thread, no network, and
compiled kernels as new as their sources.

`HYPOTHESIS_PROFILE=search pytest` looks for new counter-examples instead.
"""

import os
import subprocess
import sys
from pathlib import Path

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
    monkeypatch.setenv("DUROMETER_CACHE", str(tmp_path / "durometer-cache"))


def pytest_configure(config):
    """Compile what has changed, once and not in every worker; takes no time if nothing has."""
    if not hasattr(config, "workerinput"):
        script = Path(__file__).parent.parent / "hatch_build.py"
        subprocess.run([sys.executable, script], check=True, stdout=subprocess.DEVNULL)


def pytest_collection_modifyitems(items):
    """Two workers must give a test the same name, which an object's address is not."""
    loose = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if loose:
        raise pytest.UsageError(f"a test is named after an object's address; give ids=: {loose[0]}")
