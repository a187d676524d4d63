"""L0 counts features: one category, one one-hot group or one value in between can be enough."""

import pytest
import torch

import durometer as du

SCHEMA = du.Schema(
    [
        du.Feature("amount", "real", 0, 1),
        du.Feature("kind", "category", values=("u", "v", "w", "x")),
        du.Feature("number", "integer", 0, 10),
        du.Feature("red", "boolean", group="colour"),
        du.Feature("green", "boolean", group="colour"),
        du.Feature("blue", "boolean", group="colour"),
    ]
)
ROWS = torch.tensor([[0.5, 0, 7, 1, 0, 0]] * 10, dtype=torch.float64)


class Score(torch.nn.Module):
    def __init__(self, score):
        super().__init__()
        self.score = score

    def forward(self, x):
        v = self.score(x.double())
        return torch.stack([-v, v], 1)


MODELS = {
    "kind": lambda x: x[:, 1] - 2.5,
    "kind w": lambda x: (x[:, 1] == 2).double() - 0.5,
    "colour": lambda x: x[:, 5] - 0.5,
    "number 3": lambda x: (x[:, 2] == 3).double() - 0.5,
    "amount": lambda x: ((x[:, 0] > 0.31) & (x[:, 0] < 0.33)).double() - 0.5,
}
CASES = [("kind", du.CAPGD()), ("colour", du.CAPGD()), ("kind", du.MOEVA()), ("kind w", du.MOEVA()),
         ("colour", du.MOEVA()), *((m, du.Graft()) for m in MODELS)]  # fmt: skip


@pytest.mark.parametrize(("model", "attack"), CASES, ids=lambda c: str(c)[:8])
def test_one_change_is_found(model, attack):
    report = du.evaluate(Score(MODELS[model]), du.Dataset(ROWS, [0] * 10),
                         space=SCHEMA.space(eps=1, p=0), attack=attack)  # fmt: skip
    assert report.metric("robust").value == 0
    assert (report.table["distance"] == 1).all() and report.table["valid"].all()


def test_a_projection_keeps_features_not_coordinates():
    region = SCHEMA.space(eps=2, p=0).around(ROWS[:1])
    z = region.origin.clone()
    columns = {f.name: i for i, f in enumerate(SCHEMA.features) if f.kind != "category"}
    z[0, list(columns).index("amount")] += 0.4
    z[0, list(columns).index("number")] += 0.2
    z[0, region.blocks[0][3]] += 1.5  # to the kind x
    x = region.decode(region.project(z))[0]
    assert x[0] == 0.9 and x[1] == 3 and x[2] == 7
    assert region.contains(x[None])[0] and region.distance(x[None])[0] == 2


def test_a_search_that_still_improves_says_so():
    """A score that climbs by one feature after the other, of which few fit into the budget."""
    x = torch.zeros(20, 60, dtype=torch.float64)
    model = Score(lambda x: 10 * x.sum(1) - 77.0)
    kept = {"space": du.L2(1.0), "goal": du.Untargeted(), "progress": False}
    short = du.evaluate(model, du.Dataset(x, [0] * 20), attack=du.Graft(evaluations=300), **kept)
    flags = {f.id for f in short.flags}
    t = short.table
    assert (t["verdict"] == "open").any()
    assert t["improving"].any() and "still-improving" in flags
    flat = Score(lambda x: 0.01 * x[:, 0] - 5.0)
    calm = du.evaluate(flat, du.Dataset(x, [0] * 20), attack=du.Graft(evaluations=300), **kept)
    assert not calm.table["improving"].any() and "still-improving" not in {f.id for f in calm.flags}
