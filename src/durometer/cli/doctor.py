"""`durometer doctor`: versions, kernels, extras, and whether what is installed works here.

What a reader would get wrong: a package that is installed may still not work. So a tree and a
network are evaluated whose answers are known in closed form, and a run is saved and verified.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

State = Literal["ok", "off", "wrong"]

# extra -> the packages that serve it (one of them suffices), and what it is for
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "catboost": (("catboost",), "CatBoost models"),
    "lightgbm": (("lightgbm",), "LightGBM models"),
    "magika": (("magika",), "the magika example"),
    "onnx": (("onnx", "onnxruntime"), "ONNX files"),
    "plot": (("matplotlib",), "figures outside the report page"),
    "ray": (("ray",), "runs on a Ray cluster"),
    "sign": (("cryptography",), "signed attestations"),
    "text": (("transformers",), "Hugging Face models"),
    "xgboost": (("xgboost",), "XGBoost models"),
    "xgboost-cpu": (("xgboost-cpu",), "XGBoost models, without GPU code"),
}
REQUIRED = ("cloudpickle", "filelock", "jinja2", "numpy", "pandas", "pyarrow", "rich",
            "scikit-learn", "scipy", "torch", "typer")  # fmt: skip
_SAME = {"xgboost": "xgboost-cpu", "xgboost-cpu": "xgboost"}  # two names of one import


@dataclass(frozen=True)
class Finding:
    """One line: a thing, its state, and what to say of it."""

    name: str
    state: State
    text: str


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="Look only; evaluate nothing (a second).")
    ] = False,
) -> None:
    """Say what is installed and whether it works here: paste this into a bug report.

    Exit code 0: all that durometer needs works. 1: something that it needs does not; each line
    marked "wrong" says what to do. An extra that is not installed is "off", which is no fault.

    [dim]Example:[/dim]  durometer doctor
    """
    from durometer.cli.screen import say

    found = [*_machine(), *_packages(), *_kernels()]
    if not fast:
        found += _works()
    if json:
        import json as writer

        say(writer.dumps([vars(f) for f in found], indent=1))
    else:
        wide = max(len(f.name) for f in found)
        for f in found:
            say(f"{f.state:<6}{f.name:<{wide}}  {f.text}")
        wrong = [f.name for f in found if f.state == "wrong"]
        say(f"does not work here: {', '.join(wrong)}" if wrong else _all_well(fast))
    raise typer.Exit(int(any(f.state == "wrong" for f in found)))


def _all_well(fast: bool) -> str:
    return "all that durometer needs is installed" if fast else "all that durometer needs works"


def _machine() -> Iterator[Finding]:
    import durometer

    yield Finding(
        "durometer", "ok", f"{durometer.__version__} ({os.path.dirname(durometer.__file__)})"
    )
    new = sys.version_info >= (3, 11)
    text = f"{platform.python_version()} ({sys.executable})"
    yield Finding("python", "ok" if new else "wrong", text if new else f"{text}: 3.11 is needed")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("machine", "ok", f"{platform.platform()}, {usable} cores for this process")


def _packages() -> Iterator[Finding]:
    for name in REQUIRED:
        known = _version(name)
        yield Finding(name, "ok" if known else "wrong", known or f"missing: pip install {name}")
    for extra, (packages, use) in EXTRAS.items():
        has = {p: _version(p) for p in packages}
        lacking = [p for p, v in has.items() if v is None]
        if not lacking:
            said = ", ".join(f"{p} {v}" for p, v in has.items())
            yield Finding(f"[{extra}]", "ok", f"{said}: {use}")
        elif extra in _SAME and _version(_SAME[extra]) is not None:
            continue  # the other of the two serves, and both at once would break each other
        else:
            how = f"pip install 'durometer[{extra}]'"
            yield Finding(f"[{extra}]", "off", f"no {', '.join(lacking)}; for {use}: {how}")
    if _version("xgboost") is not None and _version("xgboost-cpu") is not None:
        yield Finding("xgboost twice", "wrong", "xgboost and xgboost-cpu own the same folder: "
                      "uninstall both, then install one")  # fmt: skip
    yield from _devices()


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _devices() -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding("devices", "wrong", f"torch cannot be imported: {error}")
        return
    cards = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    cards += ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    text = ", ".join(cards) if cards else "no GPU: models run on the processor"
    yield Finding("devices", "ok", f"{text}; torch uses {torch.get_num_threads()} threads")


def _kernels() -> Iterator[Finding]:
    from durometer.core.errors import DurometerError
    from durometer.kernels.native import load
    from durometer.kernels.stamp import library

    try:
        load()
    except DurometerError as error:
        yield Finding("kernels", "wrong", str(error))
        return
    yield Finding("kernels", "ok", f"compiled, loaded ({library(sys.platform).name})")


def _works() -> Iterator[Finding]:
    """Small evaluations whose answers are known beforehand."""
    import time

    tried: dict[str, Callable[[], str]] = {
        "a tree, exactly": _tree,
        "a network, with bounds": _network,
        "a run, saved and verified": _saved,
    }
    for name, attempt in tried.items():
        start = time.perf_counter()
        try:
            wrong = attempt()
        except Exception as error:  # whatever is broken here: that is what is asked
            wrong = f"{type(error).__name__}: {error}"
        took = f"as expected, {time.perf_counter() - start:.1f} s"
        yield Finding(name, "wrong" if wrong else "ok", wrong or took)


def _rows() -> tuple[Any, Any]:
    """Ten points on a line; the class changes at 0.5, four of them lie within 0.15 of it."""
    import numpy as np

    x = np.array([[0.05], [0.15], [0.25], [0.4], [0.45], [0.55], [0.6], [0.75], [0.85], [0.95]])
    return x, (x[:, 0] > 0.5).astype(int)


def _tree() -> str:
    from sklearn.tree import DecisionTreeClassifier

    x, y = _rows()
    return _compared(DecisionTreeClassifier(max_depth=1).fit(x, y), x)


def _network() -> str:
    import torch

    net = torch.nn.Linear(1, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        net.bias.copy_(torch.tensor([0.5, -0.5]))
    return _compared(net, _rows()[0].astype("float32"))


def _compared(model: Any, x: Any) -> str:
    """What differs from the closed form: |x - 0.5| > 0.15 is proven, the rest is broken."""
    report = _evaluated(model, x)
    found = round(float(report.metric("proven")), 6), round(float(report.metric("robust")), 6)
    return "" if found == (0.6, 0.6) else f"proven and robust are {found}; expected 0.6 and 0.6"


def _evaluated(model: Any, x: Any) -> Any:
    from durometer._evaluate import evaluate
    from durometer.data.dataset import Dataset
    from durometer.spaces.lp import Linf

    return evaluate(model, Dataset(x, _rows()[1]), space=Linf(0.15), progress=False)


def _saved() -> str:
    import tempfile
    from pathlib import Path

    from sklearn.linear_model import LogisticRegression

    from durometer.verification.verify import verify

    x, y = _rows()
    report = _evaluated(LogisticRegression(C=1e4).fit(x, y), x)
    with tempfile.TemporaryDirectory() as place:
        found = verify(report.save(Path(place) / "run"))
    return "" if found.status in ("verified", "consistent") else str(found)
