"""Flags: each is raised by what it warns of, not by its neighbour, and has a page."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import durometer as du
from durometer.report.checks import IDS, monotone

SOURCE = Path(du.__file__).parent
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "warnings.md"
X = torch.rand(60, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3


def flags(model, data=None, attack=None, **how):
    data = du.Dataset(X, Y) if data is None else data
    attack = du.PGD(5) if attack is None else attack
    how = {"space": du.Linf(0.05)} | how
    report = du.evaluate(model, data, attack=attack, **how)
    return {f.id: f for f in report.flags}


def net(scale=1.0):
    torch.manual_seed(0)
    made = nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.mul_(scale)
    return made.eval()


def labelled(model):
    """Data on which the model is always right."""
    return du.Dataset(X, model(X).argmax(1))


def test_docs_have_a_paragraph_for_each_id_and_no_other():
    headings = re.findall(r"^## `?([\w-]+)`?$", DOCS.read_text(), re.M)
    assert sorted(headings) == sorted(IDS)
    for part in re.split(r"^## ", DOCS.read_text(), flags=re.M)[1:]:
        assert len(part.split()) > 40, part[:30]


def test_every_flag_that_is_raised_has_its_id_listed():
    source = "".join(f.read_text() for f in SOURCE.rglob("*.py"))
    assert set(re.findall(r'Flag\(\s*"([\w-]+)"', source)) == set(IDS)


def test_a_clean_run_has_no_flags():
    model = net()
    assert flags(model, labelled(model)) == {}


def test_gradients_that_vanish():
    class Stairs(nn.Module):
        def forward(self, x):
            return (x[:, :3] * 8).round() + 0 * x[:, :3]

    model = Stairs().eval()
    assert "vanishing-gradients" in flags(model, labelled(model))


def test_a_loss_that_is_flat_once_the_goal_is_reached_is_no_vanishing_gradient():
    torch.manual_seed(0)
    wide = nn.Linear(4, 6).eval()
    data = du.Dataset(X, wide(X).argmax(1))
    goal = du.Group({s: [t for t in range(6) if t not in (s, (s + 1) % 6)] for s in range(6)})
    found = flags(wide, data, du.PGD(5, loss="mdmax"), goal=goal, space=du.Linf(1.0))
    assert "vanishing-gradients" not in found


def test_search_that_beats_gradients():
    class Masked(nn.Module):
        """The gradient points away from where the answer changes."""

        def forward(self, x):
            score = 6 * (x[:, :1] - 0.5)
            true = torch.cat([score, -score], 1)
            return 2 * true.detach() - true  # the value of `true`, the slope of `-true`

    model = Masked().eval()
    attack = du.Then(du.PGD(5, start="clean"), du.Square(200))
    assert "search-beats-gradient" in flags(model, labelled(model), attack, space=du.Linf(0.2))


def test_a_model_that_is_nan_where_attackers_go():
    class Brittle(nn.Module):
        def forward(self, x):
            known = (x[:, None] == X[None]).all(2).any(1, keepdim=True)
            return torch.where(known, x[:, :3], torch.nan)

    model = Brittle().eval()
    found = flags(model, labelled(model))
    assert "not-finite" in found and "none of them was counted" in found["not-finite"].text


def test_labels_in_another_order():
    model = net()
    data = du.Dataset(X, (model(X).argmax(1) + 1) % 3)
    assert "below-chance" in flags(model, data)


def test_some_labels_in_another_order():
    """Two of three classes swapped: a third is still right, which is no worse than chance."""
    x = torch.rand(300, 3)
    y = x.argmax(1)
    swapped = torch.tensor([0, 2, 1])[y]
    found = flags(nn.Identity().eval(), du.Dataset(x, swapped), du.FGSM())
    assert "other-order" in found and "1.000" in found["other-order"].text
    noisy = torch.where(torch.rand(300) < 0.5, torch.randint(0, 3, (300,)), y)
    for data in (du.Dataset(x, y), du.Dataset(x, noisy), du.Dataset(x[:20], swapped[:20])):
        assert "other-order" not in flags(nn.Identity().eval(), data, du.FGSM())


def test_below_chance_is_more_than_bad_luck():
    """20 % of 40 rows with 4 classes happens to a guesser, 20 % of 1,000 does not."""
    x = torch.zeros(1000, 4)
    x[:, 0] = 1.0
    y = torch.where(torch.arange(1000) % 5 == 0, 0, 1 + torch.arange(1000) % 3)
    for n, raised in ((40, False), (1000, True)):
        found = flags(nn.Identity().eval(), du.Dataset(x[:n], y[:n]), du.FGSM())
        assert ("below-chance" in found) == raised


def test_pairs_of_a_quota_are_one_row_each_for_below_chance():
    x = torch.eye(5)[[1] * 10]
    data = du.Dataset(x, torch.zeros(10, dtype=torch.long), ids=[f"face {i}" for i in range(10)])
    goal = du.Quota(1, sources=(0,), targets=(1, 2, 3, 4))
    found = flags(nn.Identity().eval(), data, du.FGSM(), goal=goal)
    assert "below-chance" not in found  # none of 10 right: 11 % for a guesser, of 40 it is 0.01 %


def test_models_that_do_not_answer_twice_the_same():
    class Noisy(nn.Module):
        def forward(self, x):
            return x[:, :3] + 0.1 * torch.rand(len(x), 3)

    class Centred(nn.Module):
        def forward(self, x):
            return x[:, :3] - x[:, :3].mean(0)

    assert "not-deterministic" in flags(Noisy().eval())
    assert "batch-dependent" in flags(Centred().eval())


def test_robustness_that_rises_with_the_budget():
    model = net()
    data = labelled(model)
    strong = du.evaluate(model, data, space=du.Linf(0.2), attack=du.APGD(20))
    weak = du.evaluate(model, data, space=du.Linf(0.3), attack=du.PGD(1, step=0.001, start="clean"))
    small = du.evaluate(model, data, space=du.Linf(0.01), attack=du.APGD(20))
    assert list(monotone([small, strong])) == []
    (flag,) = monotone([small, strong, weak])
    assert flag.id == "not-monotone" and "Linf(0.2) to Linf(0.3)" in flag.text


@pytest.mark.parametrize("id_", IDS)
def test_ids_are_words(id_):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", id_)
