"""Every noun can be pickled, copied and compared, and its repr says the same afterwards."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch

import durometer as du
from durometer import noise
from durometer.config.registry import names
from durometer.core import serialization

FEATURES = [
    du.Feature("a", low=0, high=9, cost=2.0),
    du.Feature("b", "integer", 0, 9, missing=True, cost=1.0),
    du.Feature("c", "category", values=("x", "y"), cost=1.0),
]
SCHEMA = du.Schema(FEATURES, ["a <= b + 3", "if a > 1 then b >= 1", "a + b <= 15"], name="abc")
PARTS = [noise.normal(0, 1), noise.exponential(3)]
DATA = du.Dataset({"a": [1.0, 2], "t": ["u", "v"], "y": ["no", "yes"]}, target="y")
NOUNS = [
    *FEATURES, SCHEMA, SCHEMA.freeze("a"), *SCHEMA.relations, DATA,
    SCHEMA.space(eps=0.5), SCHEMA.space(cost=3.0), SCHEMA.space(eps=0.3, cost=3.0),
    du.Linf([0.1, 0.2, 0.0]), du.L2([[0.1], [0.2]]), du.Schema.suggest({"a": [1, 2], "b": [2, 3]}),
    du.Linf(0.1), du.L0(3), du.L1(2.0), du.L2(1.0, low=[0, 0], high=[1, 1]),
    du.Linf(0.1, low=np.zeros(3), high=torch.ones(3)),
    du.Patch(torch.ones(4, 4)), du.Patch(du.masks.eyeglasses(32, 32)), du.Rectangle(3, 3),
    du.Quantised(du.Linf(0.1)), du.Text(), du.Text(du.Typos(), most=0.5),
    du.Symbols(3, last=5, without=[1, 2]),
    du.Synonyms({"a": ("b",)}), du.Typos(), du.Neighbours(), du.Masked("a folder"),
    du.Untargeted(), du.Targeted(2), du.Group({"a": ["b"]}), du.RandomTarget(), du.LeastLikely(),
    du.Quota(k=2, sources=(0,), targets=(1, 2)),
    du.Normal(sd=0.1), du.Normal(sd={"a": 1.0, "b": 2.0}), *PARTS, du.Independent(PARTS),
    du.Copula(PARTS, rank_correlation=np.eye(2)),
    du.Budget(forwards=3), du.Criterion("robust", 0.5),
]  # fmt: skip
ATTACKS = [
    kind() if not any(p.default is p.empty and p.kind is not p.VAR_POSITIONAL
                      for p in inspect.signature(kind).parameters.values()) else kind(du.PGD(2))
    for name, kind in names("attacks").items()
    if inspect.isclass(kind) and name not in ("Then", "Worst")
] + [du.Then(du.PGD(2), du.Square(3)), du.Worst(du.PGD(2), du.Square(3))]  # fmt: skip


@pytest.mark.parametrize("noun", [*NOUNS, *ATTACKS], ids=lambda n: type(n).__name__)
def test_a_noun_survives_pickle_and_copy_and_equals_itself(noun):
    for again in (pickle.loads(pickle.dumps(noun)), copy.deepcopy(noun), copy.copy(noun)):
        assert (again == noun) is True
        assert repr(again) == repr(noun)
        if not isinstance(noun, du.Dataset | du.Group | du.Feature):
            assert hash(again) == hash(noun)


def test_other_nouns_are_not_equal():
    for i, one in enumerate(NOUNS):
        for other in NOUNS[i + 1 :]:
            if type(one) is type(other) or isinstance(one, du.Linf(0.1).__class__):
                assert (one == other) is False, (one, other)
    assert du.Linf(0.1) != du.Linf(0.2) and du.Linf(0.1) != du.L2(0.1)
    assert du.Patch(torch.ones(4, 4)) != du.Patch(torch.ones(2, 8))
    assert du.Linf(0.1, low=[0.0, 0.5]) != du.Linf(0.1, low=[0.0, 0.6])


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

    assert du.Static(model) == du.Static(model) != du.Static(lambda x: x)
    one, two = (du.Nature(model, du.Normal(sd=s)) for s in (0.1, 0.2))
    assert one == du.Nature(model, du.Normal(sd=0.1)) != two and one != du.Static(model)
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    defender = du.defenses.TENT(net)
    assert du.Transductive(defender, 8) == du.Transductive(defender, 8) != du.Transductive(defender)


@pytest.mark.parametrize("many", [[], [1, 2], ("a", 3), [True, 1], [0.5, 1], [[1], ["it's"]]])
def test_lists_are_said_element_by_element(many):
    """Classes by the million are said at once; it must read the same."""
    assert serialization.format_spec(many) == f"[{', '.join(map(serialization.format_spec, many))}]"
