"""Nothing in a run folder is executed: payloads wherever a folder can hold one, every command."""

import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

CONFIG = """\
batch = 8
[data]
path = "d.npz"
[model]
python = "net.py:net"
[space]
type = "Linf"
eps = "1/10"
[attack]
type = "PGD"
steps = 3
"""
PAYLOAD = """
from pathlib import Path
Path({mark!r}).write_text("ran")
import durometer as du
X = data = net = du.Linf
"""
SPACE = '[space]\ntype = "Linf"\neps = "1/10"'
ATTACK = '[attack]\ntype = "PGD"\nsteps = 3'
DATA = '[data]\npath = "d.npz"'
# What is written into the config.toml of the folder: each names code that lies beside it.
CONFIGS = {
    "data python": (DATA, '[data]\npython = "payload.py:data"'),
    "data name": (DATA, '[data]\nname = "payload.py:X"'),
    "data module": (DATA, '[data]\nname = "payload:X"'),
    "space": (SPACE, '[space]\ntype = "payload.py:X"'),
    "space module": (SPACE, '[space]\ntype = "payload:X"'),
    "attack": (ATTACK, '[attack]\ntype = "payload.py:X"'),
    "inner attack": (ATTACK, '[attack]\ntype = "Then"\nattacks = [{type = "payload.py:X"}]'),
    "goal": (ATTACK, ATTACK + '\n[goal]\ntype = "payload.py:X"'),
    "also": ("batch = 8", 'batch = 8\nalso = [{type = "payload.py:X"}]'),
    "defense": (ATTACK, ATTACK + '\n[defense]\ntype = "payload.py:X"'),
    "game": (ATTACK, ATTACK + '\n[game]\ntype = "payload.py:X"'),
    "noise": (f"{SPACE}\n{ATTACK}", '[noise]\ntype = "payload.py:X"'),
    "model python": ('python = "net.py:net"', 'python = "payload.py:net"'),
    "model pickle": ('python = "net.py:net"', 'pickle = "payload.pkl"'),
    "model trusted": ('python = "net.py:net"', 'skops = "payload.pkl"\ntrusted = ["payload.X"]'),
}


COMMANDS = ("verify", "show", "compare", "merge", "repair", "export", "gate")


class Bomb:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))


def call(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


def every_command(folder, other):
    """All commands that read a run folder, on that one."""
    rule = f"robust no lower than {folder} by more than 0.5"
    yield "verify", folder
    yield "verify", folder, "--model", "net.py:net"
    yield "verify", folder, "--model", "net.py:net", "--data", "d.npz"
    yield "show", folder
    yield "show", folder, "--by", "y"
    yield "compare", folder, other, "--out", "page.html"
    yield "compare", other, folder, "--out", "page.html"
    for kind in ("csv", "json", "parquet"):
        yield "export", folder, "--to", kind, "--inputs"
    yield "gate", folder, "--criterion", "robust >= 0.1"
    yield "gate", other, "--criterion", rule
    yield "merge", folder, other, "--out", "merged"
    yield "merge", other, folder, "--out", "merged2"
    yield "repair", folder


def plant(folder, mark):
    """A payload beside everything, under every name that Python would look for."""
    for name in ("payload.py", "sitecustomize.py", "conftest.py", "__init__.py", "net.py"):
        (folder / name).write_text(PAYLOAD.format(mark=str(mark)))
    for name in ("payload.pkl", "payload.joblib", "round-000.joblib", "model.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    points = folder / "evil-1.0.dist-info"
    points.mkdir(exist_ok=True)
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (points / "entry_points.txt").write_text("[durometer.spaces]\nevil = payload:X\n")


@pytest.mark.parametrize("what", CONFIGS)
@pytest.mark.parametrize("kind", ["whole", "part1"])
def test_no_code_that_a_config_names_is_run(runs, what, kind):
    folder, mark = runs / kind, runs / "mark"
    plant(folder, mark)
    old, new = CONFIGS[what]
    assert old in CONFIG
    text = f'folder = "."\n{CONFIG.replace(old, new)}'
    (folder / "config.toml").write_text(text)
    shutil.copy(runs.parent / "d.npz", folder / "d.npz")
    reads = ("verify", "merge") if kind != "whole" else COMMANDS  # who looks at a config.toml
    for words in every_command(folder, runs / "part2"):
        if words[0] not in reads:
            continue
        result = call(*words)
        assert not mark.exists(), words
        broken = result.exception
        assert broken is None or isinstance(broken, SystemExit), (words, broken)


def _objects(array):
    return np.array([array], dtype=object)


@pytest.mark.parametrize("kind", ["whole", "part1", "half"])
def test_no_pickle_in_an_array_file_is_loaded(runs, kind):
    folder, mark = runs / kind, runs / "mark"
    for file in [*folder.glob("*.npz"), *folder.glob("chunks/*.npz")]:
        with np.load(file) as known:
            arrays = dict(known)
        np.savez(file, **(arrays | {name: _objects(Bomb(mark)) for name in arrays}))
    for words in every_command(folder, runs / "part2"):
        result = call(*words)
        assert not mark.exists(), words
        assert result.exception is None or isinstance(result.exception, SystemExit), words
    shutil.rmtree(mark, ignore_errors=True)
    pickle.loads(pickle.dumps(Bomb(mark)))  # or the test could not fail
    assert mark.exists()


@pytest.mark.parametrize("name", ["payload.py:X", "payload:X", "evil"])
def test_no_name_in_a_spec_is_looked_up(runs, name, monkeypatch):
    """Spaces, goals, attacks and games of a spec are words, also with the folder on the path."""
    folder, mark = runs / "whole", runs / "mark"
    plant(folder, mark)
    spec = json.loads((folder / "spec.json").read_text())
    for key in ("space", "goal", "attack", "game"):
        spec[key] = {**(spec.get(key) or {}), "type": name}
    spec["attacks"] = [name]
    (folder / "spec.json").write_text(json.dumps(spec))
    for words in every_command(folder, runs / "part2"):
        call(*words)
        assert not mark.exists(), words


def test_what_the_user_names_is_run_and_the_refusal_says_how(runs):
    folder, mark = runs / "whole", runs / "mark"
    plant(folder, mark)
    text = CONFIG.replace(*CONFIGS["data python"])
    (folder / "config.toml").write_text(f'folder = "."\n{text}')
    said = " ".join(call("verify", folder, "--model", "net.py:net").output.split())
    assert "payload.py:data" in said and "--data" in said and "--config" in said, said
    assert not mark.exists()
    call("verify", folder, "--model", "net.py:net", "--config", folder / "config.toml")
    assert mark.exists()  # a file that was named on the command line is trusted


def test_merged_shards_keep_their_configuration_unread(runs):
    assert call("merge", runs / "part1", runs / "part2", "--out", runs / "both").exit_code == 0
    again = call("run", runs / "both" / "config.toml", "-q", "--out", runs / "again")
    assert again.exit_code == 0, again.output
    same = du.Report.load(runs / "again").metric("robust")
    assert du.Report.load(runs / "both").metric("robust") == same


def test_rounds_of_another_hardening_are_refused_before_they_are_loaded(tmp_path):
    mark, folder = tmp_path / "mark", tmp_path / "rounds"
    x = np.random.default_rng(0).random((60, 3))
    data = du.Dataset(x, (x[:, 0] > 0.5).astype(int))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, data.y.numpy())
    ask = {"rounds": 1, "progress": False, "folder": folder}
    du.training.harden(tree, data, du.Linf(0.05), **ask)
    kept = sorted(folder.glob("round-*.joblib"))
    assert kept
    du.training.harden(tree, data, du.Linf(0.05), **ask)  # one's own rounds are read again
    for content in (pickle.dumps(Bomb(mark)), pickle.dumps({"question": Bomb(mark)}), b""):
        for file in kept:
            file.write_bytes(content)
        with pytest.raises(du.DurometerError, match="another hardening"):
            du.training.harden(tree, data, du.Linf(0.05), **ask)
        assert not mark.exists()


def test_a_payload_is_a_valid_zip_too(runs):
    """A folder may hold a file that is both: nothing is imported from an archive either."""
    folder, mark = runs / "whole", runs / "mark"
    with zipfile.ZipFile(folder / "examples.npz", "a") as file:
        file.writestr("__main__.py", PAYLOAD.format(mark=str(mark)))
    for words in every_command(folder, runs / "part2"):
        call(*words)
    assert not mark.exists()
