"""What fuzzing found once, and a few inputs more: a result or a sentence, never a traceback."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
CORPUS = json.loads((HERE / "fuzz_corpus.json").read_text())


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    file = HERE.parents[1] / "studies" / "fuzz" / "run.py"
    spec = importlib.util.spec_from_file_location("fuzz", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["configs", "relations", "schemas", "files", "models", "api"])
def test_the_corpus_and_fresh_inputs(fuzz: ModuleType, kind: str) -> None:
    stored = [entry["input"] for entry in CORPUS if entry["kind"] == kind]
    fresh = [fuzz.made(kind, 2026, number) for number in range(40)]
    assert len(stored) >= 6
    inputs = [*stored, *fresh]
    with fuzz.extra(kind) as more:
        answers = list(fuzz.answers(kind, inputs, *more))
    assert len(answers) == len(inputs)
    for answer, what in zip(answers, inputs, strict=True):
        assert answer in ("result", "sentence"), (answer, json.dumps(what, default=repr)[:400])


def test_a_death_and_a_hang_are_findings(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import time

    def play(what: str) -> None:
        {"dies": os.abort, "hangs": lambda: time.sleep(60)}.get(what, lambda: 1 / (what != "raw"))()

    monkeypatch.setitem(fuzz.KINDS, "toy", (None, play))
    monkeypatch.setattr(fuzz, "SILENCE", 2.0)
    said = list(fuzz.answers("toy", ["fine", "dies", "fine", "hangs", "raw", "fine"]))
    assert [s.split(":")[0] for s in said] == [
        *("result", "the process died", "result", "no answer in 2 s"),
        *("ZeroDivisionError at ?", "result"),
    ]
