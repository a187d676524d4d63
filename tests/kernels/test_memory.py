"""What a step frees serves the next one: no page faults while an attack runs."""

import os
import subprocess
import sys

import pytest
import torch

import durometer as du
from durometer.kernels import memory

resource = pytest.importorskip("resource")
glibc = pytest.mark.skipif(
    sys.platform != "linux" or any(name in os.environ for name in memory._OWN),
    reason="about glibc as it is",
)


def faults() -> int:
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)


@glibc
def test_an_attack_fetches_no_memory_anew():
    """It was 800 pages for every gradient of this network."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip
    x = torch.rand(64, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        data = du.Dataset(x, net(x).argmax(1))
    ask = {"space": du.Linf(1e-4), "attack": du.APGD(20, loss="ce"), "progress": False}
    assert memory.keep_freed()
    took = []
    for _ in range(3):  # the first time everything is new
        before = faults()
        report = du.evaluate(net, data, **ask)
        took.append((faults() - before) / 20)
    assert report.table["backwards"].max() >= 20
    assert min(took) < 100, took


@glibc
def test_who_has_tuned_glibc_is_left_alone():
    code = "from durometer.kernels.memory import keep_freed; print(keep_freed())"
    for name in memory._OWN:
        said = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {name: ""},
            capture_output=True,
            text=True,
        )
        assert said.stdout.strip() == "False", said.stderr


def test_elsewhere_nothing_is_asked(monkeypatch):
    memory.keep_freed.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    try:
        assert not memory.keep_freed()
    finally:
        memory.keep_freed.cache_clear()
