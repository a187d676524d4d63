"""Every noun checks its fields when it is made, by one mechanism."""

import dataclasses
import inspect
import math
import types
from typing import Literal, get_origin

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du
from durometer.config import registry
from durometer.core.validation import declared, noun
from durometer.spaces.lp import Lp

# What durometer hands out: nobody configures it.
ANSWERS = {
    "Aims", "Batch", "Boxes", "Case", "ConformalSets", "Epoch", "Estimate", "GateSpec",
    "GlobalAnswer", "Hardened", "Job", "Outcome", "Play", "Problem", "PropertyReport", "Provenance",
    "QuotaRule", "Records", "Repeatability", "Report", "SetSummary", "Spec", "Splits",
    "SubstitutionRegion", "Unflipped",
}  # fmt: skip
# For required fields: the first that fits what the field declares.
EXAMPLES = (
    du.PGD(), du.Linf(0.1), du.Untargeted(), du.Normal(sd=1.0), nn.Linear(2, 2), lambda: None,
    du.Dataset(np.zeros((2, 2)), [0, 1]),
    du.Schema([du.Feature("a", low=0, high=1)]), du.orders.ByChance(),
    du.defenses.TENT(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))),
    "flip", "text", 3, 0.5, True, (), {},
)  # fmt: skip


def public():
    modules = [m for n in dir(du) if isinstance(m := getattr(du, n), types.ModuleType)]
    listed = [getattr(m, n) for m in (du, *modules) for n in getattr(m, "__all__", ())]
    listed += [made for kind in registry.KINDS for made in registry.names(kind).values()] + [Lp]
    found = {made for made in listed if inspect.isclass(made) and dataclasses.is_dataclass(made)}
    return sorted(
        (c for c in found if c.__name__ not in ANSWERS and c.__module__.startswith("durometer")),
        key=lambda c: (c.__module__, c.__name__),
    )


NOUNS = public()


def make(cls, **given):
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.init and f.default is f.default_factory is dataclasses.MISSING
    }
    for name in required - set(given):
        for example in EXAMPLES:
            try:
                return_type_fits = fits(cls, name, example)
            except du.DurometerError:
                continue
            if return_type_fits:
                given[name] = example
                break
    return cls(**given)


def fits(cls, name, value):
    """Whether a noun of this field alone takes the value."""
    field = cls.__dataclass_fields__[name]
    space = {"__annotations__": {name: field.type}, "__module__": cls.__module__}
    return noun(type("One", (), space))(value) is not None


def refused(cls, name, value):
    with pytest.raises(du.DurometerError, match=rf"\b{name}=.*expected"):
        make(cls, **{name: value})


def fields_of(wanted):
    return [
        pytest.param(cls, name, id=f"{cls.__module__.split('.', 1)[1]}.{cls.__name__}.{name}")
        for cls in NOUNS
        for name, kinds in declared(cls).items()
        if wanted(kinds)
    ]


def test_every_public_noun_is_frozen_and_checked():
    assert len(NOUNS) > 80
    for cls in NOUNS:
        assert cls.__dataclass_params__.frozen, cls
        own = "__init__" in vars(cls) and cls.__name__ in ("Then", "Worst", "Schema")
        assert own or cls.__post_init__.__module__ == "durometer.core.validation", cls


@pytest.mark.parametrize(
    ("cls", "name"), fields_of(lambda kinds: any(get_origin(k) is Literal for k in kinds))
)
def test_a_choice_that_is_none(cls, name):
    refused(cls, name, "x")


@pytest.mark.parametrize(("cls", "name"), fields_of(lambda k: int in k and float not in k))
def test_a_count_that_counts_nothing(cls, name):
    least = cls.__dataclass_fields__[name].metadata.get("least", 0 if name == "seed" else 1)
    for value in [v for v in (0, -1) if v < least] + [2.5, math.nan, math.inf, True]:
        refused(cls, name, value)
    if name != "seed":
        refused(cls, name, 10**13)


@pytest.mark.parametrize(("cls", "name"), fields_of(lambda k: float in k))
def test_a_size_that_is_no_number(cls, name):
    refused(cls, name, math.nan)
    refused(cls, name, True)


def test_what_is_declared_as_text_has_no_fixed_choices():
    free = {
        "name", "group", "unit", "target", "ids", "ray", "column", "value", "baseline", "kind",
        "part", "takes", "figure", "url", "label",
    }  # fmt: skip
    for cls in NOUNS:
        for name, kinds in declared(cls).items():
            alone = set(kinds) <= {str, None, type(None)}
            assert not alone or name in free, f"{cls.__name__}.{name}: {kinds}"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: du.Guess(du.PGD(), mode="x"), "Guess(mode='x'): expected one of 'best', 'worst'"),
        (lambda: du.PGD(steps=0), "PGD(steps=0): expected a whole number of at least 1"),
        (lambda: du.PGD(steps=math.nan), "PGD(steps=nan): expected a whole number"),
        (lambda: du.Exact(minimise="x"), "Exact(minimise='x'): expected one of 'distance', 'cost'"),
        (lambda: du.GMSA(combine="x"), "GMSA(combine='x'): expected one of 'avg', 'min', 'last'"),
        (lambda: du.PGD(start="rando"), "did you mean 'random'?"),
        (lambda: du.PGD(loss="cee"), "did you mean 'ce'?"),
        (lambda: du.Guess(du.PGD), "Guess(attack=PGD): not the class but PGD()"),
        (lambda: du.Then(du.FGSM(), du.PGD), "not the class but PGD()"),
        (lambda: du.Restarts(3), "Restarts(attack=3): expected an Attack"),
        (lambda: du.PGD(10**400), "a number of 1329 bits"),
        (lambda: du.Feature("age", cost=-1), "Feature('age', cost=-1): expected a number of at"),
        (lambda: du.Run(resume=1), "Run(resume=1): expected True or False"),
        (lambda: dataclasses.replace(du.PGD(), steps=0), "PGD(steps=0)"),
    ],
)
def test_the_sentence_names_field_value_and_what_was_expected(make, said):
    with pytest.raises(du.DurometerError) as told:
        make()
    assert said in str(told.value)


def test_numbers_of_numpy_are_stored_as_pythons():
    made = du.PGD(steps=np.int64(7), step=np.float32(0.5))
    assert repr(made) == repr(du.PGD(steps=7, step=0.5))
    assert type(made.steps) is int


def test_own_checks_come_after_the_fields():
    @noun
    class Pair:
        low: float = 0.0
        high: float = 1.0

        def __post_init__(self):
            if self.low > self.high:
                raise du.DurometerError("low above high")

    with pytest.raises(du.DurometerError, match="low='x'"):
        Pair("x")
    with pytest.raises(du.DurometerError, match="low above high"):
        Pair(2, 1)
    assert Pair(0, 1).high == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"atack": du.PGD()}, "evaluate(atack=...): no such argument; did you mean 'attack'?"),
        ({"eps": 0.1}, "belongs to the space, e.g. space=du.Linf(0.1)"),
        ({"attack": du.PGD}, "attack=PGD: this is a class; give an object made by it"),
        ({"goal": du.Untargeted}, "goal=Untargeted: this is a class"),
        ({"space": du.Rectangle}, "space=Rectangle: this is a class"),
    ],
)
def test_evaluate_answers_a_misspelling_and_a_class_in_a_sentence(given, said):
    net, data = du.testing.toy()
    with pytest.raises(du.DurometerError) as told:
        du.evaluate(net, data, **{"space": du.Linf(0.1)} | given)
    assert said in str(told.value)


def test_data_without_a_schema_asked_for_their_space():
    _, data = du.testing.toy()
    assert data.schema is None
    with pytest.raises(du.DurometerError, match="have no schema.*du.Linf"):
        data.space(eps=0.1)
    schema = du.Schema([du.Feature("a", low=0, high=1), du.Feature("b", low=0, high=1)])
    known = du.Dataset(np.zeros((2, 2)), [0, 1], schema=schema)
    assert known.space(eps=0.1) == schema.space(eps=0.1)


@noun
class Dies:
    wanted: int = 7

    @property
    def needs(self):
        return du.extend.Needs(gradient=True)

    def __call__(self, problem):
        z = problem.region(problem.open).origin
        _, grad = problem.value_and_grad(problem.open, z)
        problem.submit(problem.open, z + grad @ torch.ones(self.wanted, 5))


def test_check_attack_fails_an_attack_that_dies_of_a_shape():
    with pytest.raises(AssertionError, match=r"Dies\(wanted=7\) dies of RuntimeError: .*shapes"):
        du.testing.check_attack(Dies())
