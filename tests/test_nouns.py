"""Every noun can be pickled, copied and compared, and its repr says the same afterwards."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch

import assay as ay
from assay import noise, nouns
from assay.config.registry import names

FEATURES = [
    ay.Feature("a", low=0, high=9, cost=2.0),
    ay.Feature("b", "integer", 0, 9, missing=True, cost=1.0),
    ay.Feature("c", "category", values=("x", "y"), cost=1.0),
]
SCHEMA = ay.Schema(FEATURES, ["a <= b + 3", "if a > 1 then b >= 1", "a + b <= 15"], name="abc")
PARTS = [noise.normal(0, 1), noise.exponential(3)]
DATA = ay.Dataset({"a": [1.0, 2], "t": ["u", "v"], "y": ["no", "yes"]}, target="y")
NOUNS = [
    *FEATURES, SCHEMA, SCHEMA.freeze("a"), *SCHEMA.relations, DATA,
    SCHEMA.space(eps=0.5), SCHEMA.space(cost=3.0), SCHEMA.space(eps=0.3, cost=3.0),
    ay.Linf([0.1, 0.2, 0.0]), ay.L2([[0.1], [0.2]]), ay.Schema.suggest({"a": [1, 2], "b": [2, 3]}),
    ay.Linf(0.1), ay.L0(3), ay.L1(2.0), ay.L2(1.0, low=[0, 0], high=[1, 1]),
    ay.Linf(0.1, low=np.zeros(3), high=torch.ones(3)),
    ay.Patch(torch.ones(4, 4)), ay.Patch(ay.masks.eyeglasses(32, 32)), ay.Rectangle(3, 3),
    ay.Quantised(ay.Linf(0.1)), ay.Text(), ay.Text(ay.Typos(), most=0.5),
    ay.Symbols(3, last=5, without=[1, 2]),
    ay.Synonyms({"a": ("b",)}), ay.Typos(), ay.Neighbours(), ay.Masked("a folder"),
    ay.Untargeted(), ay.Targeted(2), ay.Group({"a": ["b"]}), ay.RandomTarget(), ay.LeastLikely(),
    ay.Quota(k=2, sources=(0,), targets=(1, 2)),
    ay.Normal(sd=0.1), ay.Normal(sd={"a": 1.0, "b": 2.0}), *PARTS, ay.Independent(PARTS),
    ay.Copula(PARTS, rank_correlation=np.eye(2)),
    ay.Budget(forwards=3), ay.Criterion("robust", 0.5),
]  # fmt: skip
ATTACKS = [
    kind() if not any(p.default is p.empty and p.kind is not p.VAR_POSITIONAL
                      for p in inspect.signature(kind).parameters.values()) else kind(ay.PGD(2))
    for name, kind in names("attacks").items()
    if inspect.isclass(kind) and name not in ("Then", "Worst")
] + [ay.Then(ay.PGD(2), ay.Square(3)), ay.Worst(ay.PGD(2), ay.Square(3))]  # fmt: skip


@pytest.mark.parametrize("noun", [*NOUNS, *ATTACKS], ids=lambda n: type(n).__name__)
def test_a_noun_survives_pickle_and_copy_and_equals_itself(noun):
    for again in (pickle.loads(pickle.dumps(noun)), copy.deepcopy(noun), copy.copy(noun)):
        assert (again == noun) is True
        assert repr(again) == repr(noun)
        if not isinstance(noun, ay.Dataset | ay.Group | ay.Feature):
            assert hash(again) == hash(noun)


def test_other_nouns_are_not_equal():
    for i, one in enumerate(NOUNS):
        for other in NOUNS[i + 1 :]:
            if type(one) is type(other) or isinstance(one, ay.Linf(0.1).__class__):
                assert (one == other) is False, (one, other)
    assert ay.Linf(0.1) != ay.Linf(0.2) and ay.Linf(0.1) != ay.L2(0.1)
    assert ay.Patch(torch.ones(4, 4)) != ay.Patch(torch.ones(2, 8))
    assert ay.Linf(0.1, low=[0.0, 0.5]) != ay.Linf(0.1, low=[0.0, 0.6])


def test_a_schema_still_works_after_a_pickle():
    again = pickle.loads(pickle.dumps(SCHEMA.space(eps=0.3, cost=3.0)))
    x = torch.tensor([[1.0, 2.0, 0.0], [2.0, 1.0, 1.0]]).double()
    moved = x + torch.tensor([0.5, 0.0, 0.0])
    region, own = again.around(x), SCHEMA.space(eps=0.3, cost=3.0).around(x)
    assert region.contains(moved).tolist() == own.contains(moved).tolist()
    assert torch.equal(region.distance(moved), own.distance(moved))


def test_games_on_one_model_are_equal():
    def model(x):
        return x

    assert ay.Static(model) == ay.Static(model) != ay.Static(lambda x: x)
    one, two = (ay.Nature(model, ay.Normal(sd=s)) for s in (0.1, 0.2))
    assert one == ay.Nature(model, ay.Normal(sd=0.1)) != two and one != ay.Static(model)
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    defender = ay.defenses.TENT(net)
    assert ay.Transductive(defender, 8) == ay.Transductive(defender, 8) != ay.Transductive(defender)


@pytest.mark.parametrize("many", [[], [1, 2], ("a", 3), [True, 1], [0.5, 1], [[1], ["it's"]]])
def test_lists_are_said_element_by_element(many):
    """Classes by the million are said at once; it must read the same."""
    assert nouns.said(many) == f"[{', '.join(map(nouns.said, many))}]"
