"""What was asked is data: tables of nouns, read by fields."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

import durometer as du
from durometer import report as reports
from durometer.core.spec import Spec
from durometer.report.verdicts import headline, threat

DATA = du.Dataset(torch.linspace(0, 1, 24, dtype=torch.float64).reshape(12, 2), [0, 1, 2] * 4)


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.stack([x[:, 0], x[:, 1], 1 - x[:, 0]], dim=1)


@dataclass(frozen=True)
class UntargetedAmong(du.extend.Goal):
    """Only some classes count, whatever its name begins with."""

    loss: ClassVar[str] = "margin"
    among: tuple[int, ...] = (0, 1)

    def targets(self, y, clean, index, names=None):
        mask = torch.zeros_like(clean, dtype=torch.bool)
        mask[:, list(self.among)] = True
        return mask.scatter_(1, y[:, None], False)


def evaluate(**how):
    how = {"space": du.Linf(0.1), "attack": du.FGSM(), "progress": False} | how
    return du.evaluate(Net(), DATA, **how)


def test_a_spec_holds_the_nouns_as_tables():
    attack = du.Then(du.FGSM(), du.Restarts(du.PGD(3), times=2))
    spec = Spec.from_json(json.loads(json.dumps(evaluate(attack=attack).spec.to_json())))
    assert spec.game == {"type": "Static"}
    assert spec.space == {"type": "Linf", "eps": 0.1}
    assert spec.goal == {"type": "Untargeted"}
    first, second = spec.attack["attacks"]
    assert first["type"] == "FGSM" or first["steps"] == 1
    assert second["times"] == 2 and second["attack"]["steps"] == 3
    assert second["attack"]["start"] == "random"  # whole: defaults of today may not be tomorrow's
    assert spec.budget is None


def test_an_order_is_no_attack():
    vault = du.Quota(k=1, sources=(0, 1), targets=(2,))
    report = evaluate(goal=vault, attack=du.Campaign(du.PGD(2), order=du.orders.ByMD(1)))
    assert report.spec.attacks == ("Campaign", "PGD")
    assert "Attack: Campaign, PGD." in threat(report)


def test_a_foreign_goal_gets_a_sentence_that_is_true_of_any_goal():
    report = evaluate(goal=UntargetedAmong())
    assert report.spec.goal["type"].endswith(":UntargetedAmong")
    assert "gets what it wants" in headline(report)
    assert "UntargetedAmong" in threat(report)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    report = evaluate(goal=UntargetedAmong())
    assert du.Report.load(report.save(tmp_path)).spec == report.spec


def test_nothing_in_a_report_reads_a_noun_back_from_text():
    """No `startswith`, `in str(...)` or pattern on a value of the spec."""
    for file in Path(reports.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            text = ast.unparse(node) if isinstance(node, ast.Call | ast.Compare) else ""
            wrong = ("startswith(", "findall(", "str(report.spec", "str(spec.get('game'")
            about = "spec" in text and ("goal" in text or "game" in text or "'attack'" in text)
            assert not (about and any(w in text for w in wrong)), (file, text)
