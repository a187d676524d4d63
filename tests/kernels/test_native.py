"""The compiled extension: what it computes, and what it refuses before a pointer leaves Python."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.oracles.splitmix import uniform

import durometer as du
from durometer.kernels import stamp
from durometer.kernels.native import Kernel, Layout, load

splitmix = Kernel(
    "splitmix",
    n="size",
    draws="size",
    threads="int64",
    word="uint64[n]",
    out="out float64[n, draws]",
)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_kernel_equals_its_python_twin_in_any_number_of_threads(threads):
    words = np.random.default_rng(0).integers(0, 2**64, 40, dtype=np.uint64)
    out = np.empty((40, 9))
    splitmix(threads, words, out)
    assert np.array_equal(out, uniform(words, 9))


@pytest.mark.parametrize(
    ("word", "out", "said"),
    [
        (np.zeros(2), np.empty((2, 1)), "word: an array of float64; expected uint64"),
        ([1, 2], np.empty((2, 1)), "word: a list"),
        (np.zeros(2, ">u8"), np.empty((2, 1)), "word: an array of >u8"),
        (np.zeros(4, np.uint64)[::2], np.empty((2, 1)), "contiguous"),
        (np.zeros(2, np.uint64), np.empty((3, 1)), r"shape \(3, 1\); expected \[n, draws\]"),
        (np.zeros(2, np.uint64), np.broadcast_to(0.0, (2, 1)), "contiguous writeable"),
    ],
)
def test_arrays_of_the_wrong_kind_shape_or_layout_are_refused(word, out, said):
    with pytest.raises(du.DurometerError, match=said):
        splitmix(1, word, out)


def test_tensors_are_taken_as_they_are_and_checked_each_time():
    uniforms = Kernel("uniforms", n="size", draws="size", threads="int64", word="int64[n]",
                      out="out float64[n, draws]")  # fmt: skip
    words = torch.arange(6)
    for shape in ((6, 4), (6, 2), (6, 4)):
        out = torch.empty(shape, dtype=torch.float64)
        uniforms(1, words, out)
        again = torch.empty(shape, dtype=torch.float64)
        uniforms(1, words, again)  # its shapes are known by now
        assert torch.equal(out, again)
    with pytest.raises(du.DurometerError, match="contiguous"):
        uniforms(1, torch.arange(12)[::2], torch.empty(6, 4, dtype=torch.float64))
    with pytest.raises(du.DurometerError, match="an array of torch.float32"):
        uniforms(1, words, torch.empty(6, 4))
    with pytest.raises(du.DurometerError, match=r"shape \(5, 4\)"):
        uniforms(1, words, torch.empty(5, 4, dtype=torch.float64))
    with pytest.raises(du.DurometerError, match="an array of"):
        uniforms(1, words, torch.empty(6, 4, dtype=torch.float64, device="meta"))


def test_a_missing_argument_is_named():
    with pytest.raises(du.DurometerError, match="expected .*'out'"):
        splitmix(1, np.zeros(2, np.uint64))


def test_a_layout_takes_the_fields_of_an_object_and_checks_them():
    layout = Layout(n="size", x="float64[n]", y="float64[n]")
    probe = Kernel("splitmix", pair=layout)
    pair = SimpleNamespace(x=np.zeros(3), y=np.zeros(2))
    with pytest.raises(du.DurometerError, match=r"pair.y: shape \(2,\)"):
        probe(pair)


def test_a_packed_object_is_checked_once_and_its_sizes_each_time():
    @dataclass(frozen=True, eq=False)
    class Pair:
        x: np.ndarray
        y: np.ndarray

    layout = Layout(n="size", x="float64[n]", y="float64[n]")
    with pytest.raises(du.DurometerError, match=r"Pair.y: shape \(2,\)"):
        layout.pack(Pair(np.zeros(3), np.zeros(2)))
    pair = Pair(np.zeros(3), np.zeros(3))
    assert layout.pack(pair) is layout.pack(pair)
    probe = Kernel("splitmix", pair=layout, z="float64[n]")
    with pytest.raises(du.DurometerError, match=r"z: shape \(2,\); expected \[n\] with {'n': 3}"):
        probe(layout.pack(pair), np.zeros(2))
    other = Kernel(
        "splitmix", z="float64[n]", pair=Layout(n="size", x="float64[n]", y="float64[n]")
    )
    with pytest.raises(du.DurometerError, match="pair: packed by another layout"):
        other(np.zeros(3), layout.pack(pair))
    same = Kernel("splitmix", z="float64[n]", pair=layout)
    with pytest.raises(du.DurometerError, match="pair: n is 3; expected 2"):
        same(np.zeros(2), layout.pack(pair))


def test_a_library_older_than_its_sources_does_not_load(monkeypatch):
    monkeypatch.setattr("durometer.kernels.native.stamp", lambda: "0" * 16)
    load.cache_clear()
    with pytest.raises(du.DurometerError, match="older than their C"):
        load()
    load.cache_clear()


def test_a_missing_library_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setattr("durometer.kernels.native.library", lambda _: tmp_path / "none.so")
    load.cache_clear()
    with pytest.raises(du.DurometerError, match="make setup"):
        load()
    load.cache_clear()


def test_the_build_script_compiles_only_what_has_changed(tmp_path):
    root = Path(__file__).parents[2]
    shutil.copy(root / "hatch_build.py", tmp_path)
    kernels = tmp_path / "src" / "durometer" / "kernels"
    (kernels / "native").mkdir(parents=True)
    for name in ("stamp.py", "native/stamp.cpp", "native/kernel.h"):
        shutil.copy(root / "src" / "durometer" / "kernels" / name, kernels / name)

    def build():
        line = [sys.executable, str(tmp_path / "hatch_build.py")]
        made = Path(subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip())
        return made.stat().st_mtime_ns

    first = build()
    assert build() == first
    header = kernels / "native" / "kernel.h"
    header.write_text(header.read_text() + "// changed\n")
    assert build() > first


def test_a_read_only_package_and_home_are_no_obstacle(tmp_path):
    """MOEVA from a copy of the package that nobody may write to writes nothing anywhere."""
    root = Path(__file__).parents[2]
    package, home = tmp_path / "site" / "durometer", tmp_path / "home"
    shutil.copytree(
        root / "src" / "durometer", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    home.mkdir()
    before = sorted(tmp_path.rglob("*"))
    for path in (package, *package.rglob("*"), home):
        path.chmod(0o555 if path.is_dir() else 0o444)
    code = """
import durometer as du
net, data = du.testing.toy()
attack = du.MOEVA(generations=3, population=10, offspring=6)
print(du.__file__, du.evaluate(net, data, space=du.Linf(0.1), attack=attack).metric("robust").value)
"""
    environment = {"PYTHONPATH": str(package.parent), "HOME": str(home), "TMPDIR": str(home),
                   "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(package / "__init__.py"), "0.9375"]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_stamp_of_this_checkout_is_in_its_library():
    assert stamp.carries(stamp.library(sys.platform), stamp.stamp())
