"""Attacks see a problem and nothing behind it."""

import ast
from pathlib import Path

import torch

import durometer as du
from durometer import attacks
from durometer.extend import Needs

DATA = du.Dataset(torch.full((3, 2), 0.5, dtype=torch.float64), [0, 0, 0])


class Line(torch.nn.Module):
    """Class 1 where the first coordinate is above 0.55."""

    def forward(self, x):
        score = x[:, 0] - 0.55
        return torch.stack([-score, score], dim=1)


def test_no_attack_touches_the_referee_or_private_members_of_others():
    for file in Path(attacks.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr != "referee", (file, node.lineno)
                private = node.attr.startswith("_") and not node.attr.startswith("__")
                mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                assert not private or mine, (file, node.lineno, node.attr)


def play(attack, space=None):
    return du.evaluate(Line(), DATA, space=space or du.Linf(0.1), attack=attack, progress=False)


class Looks:
    """Hands in the upper corner and then looks at what is known of it."""

    needs = Needs()

    def __call__(self, problem):
        rows = problem.open
        self.before = problem.kept(rows)
        self.won = problem.submit(rows, problem.region(rows).origin + 0.1)
        self.after, self.goal, self.shape = problem.kept(rows), problem.goal, problem.shape
        self.solved = problem.solved
        problem.set_priority(torch.tensor([3.0, 1.0, 2.0]))
        problem.give_back(torch.tensor([True, False, False]))


def test_what_is_kept_changes_with_a_success_and_can_be_given_back():
    attack = Looks()
    report = play(attack)
    assert torch.equal(attack.before, DATA.x) and torch.equal(attack.after, DATA.x + 0.1)
    assert attack.won.all() and attack.solved.all() and attack.shape == (2,)
    assert attack.goal.tolist() == [[False, True]] * 3
    assert report.table["score"].tolist() == [3.0, 1.0, 2.0]
    assert report.adversarial[:, 0].tolist() == [0.5, 0.6, 0.6]


def test_another_region_decodes_and_judges():
    class Narrow:
        needs = Needs()

        def __call__(self, problem):
            view = problem.in_region(du.Linf(0.01).around(DATA.x))
            self.won = view.submit(view.open, view.region(view.open).origin + 0.1)

    attack = Narrow()
    assert not play(attack).table["success"].any()
    assert not attack.won.any()
