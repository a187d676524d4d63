"""What `evaluate` asks of a game, and what it must not cost."""

import ast
from pathlib import Path

import pytest
import torch

import durometer as du
from durometer import _evaluate
from durometer.games.game import Game
from durometer.model.classifier import Classifier

DATA = du.Dataset(torch.rand(8, 2, dtype=torch.float64), [0, 1] * 4)
SPACE = du.Linf(0.1)


@pytest.fixture
def hashes(monkeypatch):
    """How often weights are digested."""
    seen = []
    digest = Classifier.hash.fget
    monkeypatch.setattr(Classifier, "hash", property(lambda m: seen.append(m) or digest(m)))
    return seen


def net():
    return torch.nn.Linear(2, 2).double()


def test_looking_at_a_game_hashes_no_model(hashes):
    for game in (du.Static(net()), du.Nature(net(), du.Normal(sd=0.1))):
        assert isinstance(game, Game)
    assert not isinstance(net(), Game)
    assert hashes == []


@pytest.mark.parametrize("target", [net(), du.Static(net())], ids=["model", "game"])
def test_an_evaluation_hashes_its_model_once(target, hashes):
    du.evaluate(target, DATA, space=SPACE, attack=du.FGSM(), progress=False)
    assert len(hashes) == 1


def test_an_error_inside_a_description_is_said(monkeypatch):
    def broken(self):
        raise AttributeError("no weights")

    monkeypatch.setattr(du.Static, "describe", broken)
    assert isinstance(du.Static(net()), Game)
    with pytest.raises(AttributeError, match="no weights"):
        du.evaluate(net(), DATA, space=SPACE, attack=du.FGSM(), progress=False)


def test_evaluate_asks_for_no_particular_game_goal_space_or_attack():
    tree = ast.parse(Path(_evaluate.__file__).read_text())
    asked = {
        ast.unparse(kind)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        for kind in [node.args[1]]
    }
    plain = {
        "type",
        "str",
        "int",
        "Dataset",
        "list | tuple",
        "int | np.integer",
        "kind",
        "Parquet",
        "Dataset | Parquet",
        "Gathered",  # records, in memory or counted as they come
        "Tally",
    }
    assert asked - plain == {"Expandable", "Levelled", "Until"}  # protocols


def test_a_fixed_model_that_nobody_attacks_is_no_question():
    with pytest.raises(du.DurometerError, match="leave attack= out"):
        du.evaluate(net(), DATA, space=SPACE, attack=None, progress=False)


def test_a_name_that_is_no_attack_is_refused():
    with pytest.raises(du.DurometerError, match="attack='strongest'"):
        du.evaluate(net(), DATA, space=SPACE, attack="strongest", progress=False)


def test_a_foreign_game_is_played_by_its_hooks():
    class Untouched(du.Static):
        """A fixed model of which one row at a time is looked at, by one attack."""

        batch, divisible = 3, True

        def default_attack(self, space):
            return du.FGSM()

        def refuses(self, goal, run):
            return None if isinstance(goal, du.Untargeted) else "only untargeted here"

        def prepare(self, data, space, goal, attack):
            ready, facts = super().prepare(data, space, goal, attack)
            return Untouched(ready.model), facts

    report = du.evaluate(Untouched(net()), DATA, space=SPACE, progress=False)
    assert report.spec.batch == 3 and report.spec.chunks == 3
    with pytest.raises(du.Unsupported, match="only untargeted"):
        du.evaluate(Untouched(net()), DATA, space=SPACE, goal=du.Targeted(1), progress=False)


def test_a_job_holds_its_game_and_every_door_hands_it_to_play():
    package = Path(_evaluate.__file__).parent
    calls = {
        (file.relative_to(package).as_posix(), node.func.id)
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("as_game", "play")
    }
    assert {file for file, name in calls if name == "as_game"} == {"run/job.py"}
    doors = {"_evaluate.py", "_gate.py", "_sweep.py", "cli/run.py", "config/config.py"}
    assert {file for file, name in calls if name == "play"} == doors
