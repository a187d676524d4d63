"""Spec: to JSON and back, folders of 0.2, and wrong types refused by the name of the field."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import durometer as du
from durometer.core.spec import GateSpec, Provenance, QuotaRule, Spec

OLD = Path(__file__).parents[1] / "data" / "spec_0_2.json"  # as 0.2 wrote it
# What 0.2 wrote beside that where a run was a shard, had a quota, criteria and a scope.
FURTHER = {
    "aims": [1, 2],
    "quota": {
        "k": 1, "reuse": True, "least": 0, "sources": [0], "targets": [1, 2], "managers": [],
    },
    "shard": [1, 2],
    "gate": {"criteria": ["robust >= 0.5"], "alpha": 0.05},
    "evidence": {"owner": "me"},
    "proves": True,
    "order": "random",
}  # fmt: skip

words, numbers = st.text(max_size=8), st.integers(0, 2**40)
classes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
nouns = st.dictionaries(words, plain, max_size=3).map(lambda rest: {"type": "PGD"} | rest)
pairs = st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)
rules = st.builds(
    QuotaRule, k=numbers, reuse=st.booleans(), least=numbers, sources=classes, targets=classes,
    managers=classes, filled=st.none() | st.lists(pairs, max_size=3).map(tuple), wish=words,
)  # fmt: skip
gates = st.builds(GateSpec, st.lists(words, max_size=3).map(tuple), st.floats(0, 1))
texts = st.dictionaries(words, words, max_size=3)
names = st.lists(words, max_size=3).map(tuple)
specs = st.builds(
    Spec, game=nouns, model=words, model_kind=words, model_hash=words, answers=words,
    answers_part=words, inference_copy=words, data=words, data_hash=words, rows=numbers,
    classes=st.none() | names, id_type=st.sampled_from(["int", "str"]), space=st.none() | nouns,
    goal=st.none() | nouns, aims=st.none() | classes, quota=st.none() | rules,
    attack=st.none() | nouns, attacks=names, proves=st.booleans(), noise=st.none() | nouns,
    under=words, threat=words, budget=st.none() | nouns, seed=st.integers(), batch=numbers,
    chunks=numbers, turn=st.integers(1, 99), shown=st.none() | numbers,
    order=st.sampled_from(["given", "random"]),
    shard=st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)), versions=texts,
    command=words, gate=st.none() | gates, evidence=texts,
)  # fmt: skip


@given(specs)
def test_to_json_and_back_it_is_the_same(spec):
    assert Spec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@given(specs, specs)
def test_differences_are_the_fields_that_differ(one, other):
    found = one.differences(other)
    assert (found == []) == (one == other)
    assert set(found) <= {f.name for f in fields(Spec)}


def test_a_spec_of_version_0_2_is_read():
    stored = json.loads(OLD.read_text()) | FURTHER
    spec = Spec.from_json(stored)
    assert spec.game_type == "Static" and spec.space == {"type": "Linf", "eps": 0.05}
    assert spec.quota == QuotaRule(1, True, 0, (0,), (1, 2)) and spec.aims == (1, 2)
    assert spec.attacks == ("APGD",) and spec.shard == (1, 2) and spec.turn == 1
    assert spec.gate == GateSpec(("robust >= 0.5",), 0.05) and spec.evidence == {"owner": "me"}
    assert spec.proves and spec.order == "random" and spec.classes is None


def test_what_version_0_2_wrote_is_written_again():
    stored = json.loads(OLD.read_text()) | FURTHER
    written = json.loads(json.dumps(Spec.from_json(stored).to_json()))
    own = {k: v for k, v in stored.items() if k not in ("flags", "also", "saved")}
    usual = {"id_type": "int", "wish": ""}
    written["quota"] = {k: v for k, v in written["quota"].items() if k not in usual}
    assert {k: v for k, v in (usual | written).items() if k in own and v is not None} == {
        k: v for k, v in own.items() if v is not None
    }


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("rows", "3", "a whole number"),
        ("rows", True, "a whole number"),
        ("seed", 0.5, "a whole number"),
        ("model", ["a"], "text"),
        ("classes", "ab", "a list"),
        ("classes", [1], "text"),
        ("aims", ["a"], "a whole number"),
        ("space", ["Linf"], "a table"),
        ("proves", 1, "true or false"),
        ("order", "any", "one of"),
        ("shard", [1], "two whole numbers"),
        ("shard", [0, 2], "at least 1"),
        ("turn", 0, "at least 1"),
        ("versions", {"torch": 2}, "text"),
        ("quota", {"k": "1", "reuse": True}, "a whole number"),
        ("gate", {"criteria": "robust", "alpha": 0.1}, "a list"),
    ],
)
def test_a_wrong_type_is_refused_by_the_name_of_its_field(field, value, expected):
    with pytest.raises(
        du.DurometerError, match=rf"^{field}.*expected {expected}|{expected}"
    ) as got:
        Spec.from_json({"game": {"type": "Static"}, field: value})
    assert str(got.value).startswith(field)


def test_version_0_1_is_refused_by_its_name():
    with pytest.raises(du.DurometerError, match=r"version 0\.1"):
        Spec.from_json({"game": "Static"})


def test_a_damaged_folder_is_named(tmp_path):
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(2), progress=False)
    file = report.save(tmp_path / "run") / "spec.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rows": "many"}))
    with pytest.raises(du.DurometerError, match=r"spec\.json' is damaged \(rows='many'"):
        du.Report.load(tmp_path / "run")


def test_what_is_said_later_replaces_what_was_said():
    before = Provenance("durometer run", evidence={"owner": "me"})
    assert before.updated(Provenance("durometer gate")) == Provenance(
        "durometer gate", evidence={"owner": "me"}
    )


def test_clean_accuracy_of_the_rows_played_stands_beside_robust_accuracy():
    """Rows without a target are not played: clean and robust accuracy are over the same rows."""
    net, data = du.testing.toy()
    goal = du.Targeted(1)
    report = du.evaluate(net, data, space=du.Linf(0.1), goal=goal, attack=du.PGD(2), progress=False)
    shown = report.shown
    assert shown["clean"][1].n == len(data) > shown["robust"][1].n
    assert shown["clean_played"][1].n == shown["robust"][1].n
