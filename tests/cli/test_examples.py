"""Every command's own example runs, one after the other, in the folder of a newcomer's table; and
its help says everything that its parameters say."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import joblib
import numpy as np
import onnx
import pandas as pd
import pytest
import typer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import helper as h
from onnx import numpy_helper
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from durometer.cli.app import app

GROUP = typer.main.get_command(app)
ORDER = (  # as a newcomer would: what one writes, the next reads
    "init", "schema", "list", "doctor", "run", "show", "export", "compare", "verify", "repair",
    "gate", "properties", "harden", "merge", "vnnlib", "view",
)  # fmt: skip
SLOW = {"demo"}  # a minute; `make demo` and the site play it
GIVEN = {  # what an example takes for granted beside the files of those before it
    "compare": ["run loans_run.toml --rows 100 --seed 1 --out runs/second"],
    "merge": [f"run shards.toml --rows 100 --shard {k}/2 --out runs/part{k}" for k in (1, 2)],
}  # fmt: skip
PROPERTY = """
(declare-const X_0 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (>= X_0 0.4))
(assert (<= X_0 0.6))
(assert (>= Y_0 Y_1))
"""


def examples(name: str) -> list[str]:
    text = inspect.cleandoc(GROUP.commands[name].help or "")
    _, _, after = text.partition("[dim]Example")
    return [line.strip() for line in re.findall(r"durometer .+", after)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where, rng = tmp_path_factory.mktemp("examples"), np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.integers(10, 90, 200), "debt": rng.integers(0, 40, 200),
                          "sex": rng.integers(0, 2, 200)})  # fmt: skip
    frame["paid"] = (frame["income"] - frame["debt"] > 20).astype(int)
    frame.to_csv(where / "loans.csv", index=False)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    joblib.dump(tree.fit(frame.drop(columns="paid"), frame["paid"]), where / "model.joblib")
    key = Ed25519PrivateKey.generate()
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (where / "key.pem").write_bytes(key.private_bytes(*kinds, serialization.NoEncryption()))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (where / "key.pub").write_bytes(public)
    weights = numpy_helper.from_array(np.array([[1.0, -1.0]], np.float32), "w")
    ends = [h.make_tensor_value_info(n, 1, [1, k]) for n, k in (("x", 1), ("y", 2))]
    graph = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"])], "g", *zip(ends), [weights])
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, where / "net.onnx")
    (where / "robust.vnnlib").write_text(PROPERTY)
    return where


def call(words: str) -> None:
    result = CliRunner().invoke(app, shlex.split(words))
    decided = words.split()[0] in ("gate", "verify", "properties")  # an answer of theirs is a code
    assert result.exit_code in ((0, 1, 2, 3) if decided else (0,)), (words, result.output)
    for refusal in ("cannot read", "no saved report", "could not run", "No such", "Usage:"):
        assert refusal not in result.output, (words, result.output)


def test_every_command_has_an_example() -> None:
    assert {*ORDER} | SLOW == {*GROUP.commands}
    assert [n for n in GROUP.commands if not examples(n)] == []


def test_the_examples_run_one_after_the_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in ORDER:
        if name == "merge":
            file = (folder / "loans_run.toml").read_text()
            (folder / "shards.toml").write_text(f"batch = 20\n{file}")
        for words in GIVEN.get(name, ()):
            call(words)
        for line in examples(name):
            call(line.removeprefix("durometer "))
    for made in ("loans_run.toml", "schema.toml", "first.csv", "gate.md", "hardened.joblib",
                 "runs/whole/report.html", "site/index.html"):  # fmt: skip
        assert (folder / made).exists(), made


@pytest.mark.parametrize("name", ["", *GROUP.commands])
def test_the_help_loses_no_word(name: str) -> None:
    command = GROUP.commands[name] if name else GROUP
    words = [name, "--help"] if name else ["--help"]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "400", "TERM": "dumb"}).output
    assert "<bool>" not in shown and " ," not in shown
    plain = " ".join(re.sub(r"[│╭╮╰╯─]", " ", shown).split())
    for p in command.params:
        text = " ".join((getattr(p, "help", "") or "").replace("\\[", "[").split())
        assert text in plain, (name, text)
