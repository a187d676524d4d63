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
    spec = importlib.util.spec_from_file_location("fuzz", HERE.parents[1] / "studies" / "fuzz.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["configs", "relations", "schemas", "files", "api"])
def test_the_corpus_and_fresh_inputs(fuzz: ModuleType, kind: str) -> None:
    stored = [entry["input"] for entry in CORPUS if entry["kind"] == kind]
    fresh = [fuzz.made(kind, 2026, number) for number in range(40)]
    assert len(stored) >= 9
    with fuzz.extra(kind) as more:
        for what in (*stored, *fresh):
            answer = fuzz.tried(fuzz.KINDS[kind][1], what, *more)
            assert answer in ("result", "sentence"), (answer, json.dumps(what, default=repr)[:400])
