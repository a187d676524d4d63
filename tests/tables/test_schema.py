"""Schemas: built four ways, read back as written, and errors before any attack."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from durometer.core.errors import DurometerError
from durometer.relations.language import F, implies
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema

LOANS = Schema(
    [
        Feature("amount", "real", 500, 40_000, unit="$", cost=0.01),
        Feature("term", "integer", 36, 60, mutable=False),
        Feature("purpose", "category", values=("car", "house", "a 'b'")),
        Feature("grade", "category", values=(1, 3, 7)),
        Feature("joint", "boolean"),
        Feature("opened", "integer", "original", 90),
        Feature("total", "integer", 0, 99, scale=(0, 200)),
        Feature("own home", "boolean", group="home"),
        Feature("rents", "boolean", group="home"),
    ],
    [
        "term in {36, 60}",
        F.opened <= F.total,
        implies(F.purpose == "house", F.amount >= 1000),
        F["own home"] + F.joint <= 2,
    ],
    "loans",
)
FRAME = pd.DataFrame(
    {
        "amount": [900.5, 2000.0], "term": [36, 60], "purpose": ["car", "house"], "grade": [7, 1],
        "joint": [0, 1], "opened": [3, 4], "total": [3, 9], "own home": [1, 0], "rents": [0, 1],
    }
)  # fmt: skip


def test_toml_reads_back_as_written(tmp_path):
    path = tmp_path / "loans.toml"
    path.write_text(LOANS.toml(), encoding="utf-8")
    again = Schema.read(path)
    assert (again.features, again.relations, again.name) == (
        LOANS.features,
        LOANS.relations,
        "loans",
    )


def test_frame_and_tensor():
    x = LOANS.tensor(FRAME)
    assert x.dtype == torch.float64
    assert x[:, 2].tolist() == [0, 1] and x[:, 3].tolist() == [7, 1]
    assert LOANS.frame(x).equals(FRAME[list(LOANS.names)])


def test_authors_csv(tmp_path):
    path = tmp_path / "features.csv"
    path.write_text(
        "index,name,type,mutable,min,max,one_hot_group\n0,a,real,True,0.5,2,\n"
        "1,b,int,False,dynamic,9,\n2,c,cat,True,0,2,\n3,d,ohe0,True,0,1,ohe0\n4,e,ohe0,True,0,1,ohe0\n"
    )
    schema = Schema.read(path)
    assert [f.kind for f in schema.features] == [
        "real",
        "integer",
        "category",
        "boolean",
        "boolean",
    ]
    assert schema.features[1].low == "original" and not schema.features[1].mutable
    assert schema.features[2].values == (0, 1, 2) and schema.one_hot_groups == {"ohe0": [3, 4]}


def test_from_frame_finds_kinds_and_bounds():
    schema = Schema.from_frame(FRAME)
    kinds = dict(zip(schema.names, (f.kind for f in schema.features), strict=True))
    assert kinds["amount"] == "real" and kinds["term"] == "integer" and kinds["joint"] == "boolean"
    assert kinds["purpose"] == "category"
    assert schema.validate(FRAME).empty


def test_validate_says_which_rows_break_what():
    bad = FRAME.copy()
    bad.loc[0, "opened"], bad.loc[1, "amount"], bad.loc[1, "term"] = 5, 40_001.0, 48
    bad.loc[0, "rents"] = 1
    found = LOANS.validate(bad)
    assert sorted(zip(found.row, found.rule, strict=True)) == [
        (0, "one-hot group home"),
        (0, "opened <= total"),
        (1, "amount between 500 and 40000"),
        (1, "term in {36, 60}"),
    ]


def test_validate_names_what_is_undefined():
    schema = Schema([Feature("a", "real", 0, 1), Feature("b", "real", -1, 1)], ["a / b <= 1"])
    found = schema.validate(torch.tensor([[0.5, 0.0]]))
    assert found.found.tolist() == ["undefined (division by 0 or log of 0)"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Feature("a", "reel"), "kind='reel'.*did you mean 'real'"),
        (lambda: Feature("a", "real", 2, 1), "low=2 lies above high=1"),
        (lambda: Feature("a", "real", "dynamic", 1), "low='dynamic'"),
        (lambda: Feature("a", "category"), "needs values"),
        (lambda: Schema([Feature("a", "real", 0, 1)] * 2), "occurs twice"),
        (lambda: Schema([Feature("a", "real", 0, 1)], ["b <= 1"]), "no feature 'b'"),
        (lambda: Schema([Feature("a", "real", 0, 1)], ["a >= 2"]), "holds for no record"),
        (lambda: Schema([Feature("a", "real", 0, 1)], ["a <= "]), "expected a number"),
        (lambda: Schema([Feature("a", "category", values=("x",))], ["a == 'y'"]), "no label 'y'"),
        (lambda: Schema([Feature("a", "real", 0, 1)], [True]), "where a relation was expected"),
        (lambda: LOANS.tensor(FRAME.drop(columns="term")), "column 'term' is missing"),
        (lambda: LOANS.tensor(FRAME.assign(purpose=["car", "boat"])), "category 'boat' is not in"),
        (lambda: LOANS.tensor(FRAME.assign(amount=[1.0, None])), "1 of 2 values are missing"),
        (lambda: LOANS.freeze("amont"), "did you mean 'amount'"),
        (lambda: Schema.read("nowhere.toml"), "no schema file"),
        (lambda: Schema([Feature("a", "real", 0, 1)], name={"a": 1}), "name=dict.: expected text"),
    ],
)
def test_bad_input_is_refused_with_the_fix(make, message):
    with pytest.raises(DurometerError, match=message):
        make()


def test_select_keeps_the_relations_it_can():
    part = LOANS.select(["opened", "total"])
    assert part.relations == (LOANS.relations[1],) and part.names == ("opened", "total")


def test_a_schema_without_ranges_is_fitted_and_only_then_used():
    schema = Schema([Feature("a"), Feature("b", low=0)], ["a <= b"])
    with pytest.raises(DurometerError, match="no range to scale by"):
        schema.space(eps=0.1).around(torch.zeros(1, 2, dtype=torch.float64))
    fitted = schema.fit(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 9.0]}))
    x = torch.tensor([[1.0, 3.0]], dtype=torch.float64)
    assert fitted.space(eps=0.1).around(x).contains(x).all()
    with pytest.raises(DurometerError, match="no feature 'c'"):
        Schema([Feature("a")], ["a <= c"]).fit(pd.DataFrame({"a": [1.0, 2.0]}))
