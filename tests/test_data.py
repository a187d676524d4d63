"""Dataset: a frame goes in as it is, and comes back as it was."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import assay as ay
from assay.errors import AssayError

FRAME = pd.DataFrame(
    {
        "amount": [100, 250, 300, 80, 120, 999],
        "rate": np.array([0.1, 0.2, np.nan, 0.4, 0.5, 0.6], dtype=np.float32),
        "purpose": ["car", "house", "car", None, "boat", "car"],
        "grade": pd.Categorical(list("BACBAC"), categories=list("CBAZ"), ordered=True),
        "owner": [True, False, True, True, False, False],
        "since": pd.to_datetime(["2020-01-02", "2021-05-06", None, "1999-12-31", "2000-01-01",
                                 "2024-02-29"]),
        "number": list("uvwxyz"),
        "segment": ["north", "south", "north", "south", "north", "north"],
        "paid": ["yes", "no", "yes", "no", "no", "yes"],
    }
)  # fmt: skip
FEATURES = ["amount", "rate", "purpose", "grade", "owner", "since"]


def dataset(**more):
    return ay.Dataset(FRAME, target="paid", ids="number", extra=["segment"], **more)


def test_a_frame_comes_back_cell_by_cell_in_its_own_types():
    data = dataset()
    assert data.columns.names == tuple(FEATURES)
    again = data.frame().reset_index(drop=True)
    pd.testing.assert_frame_equal(again, FRAME[FEATURES])
    assert data.classes == ("no", "yes") and data.y.tolist() == [1, 0, 1, 0, 0, 1]
    assert data.ids.tolist() == list("uvwxyz")
    assert data.x.isnan().nonzero().tolist() == [[2, 1], [2, 5], [3, 2]]


@pytest.mark.parametrize("kind", ["Int64", "Int8", "float32", "boolean", "string", "int16"])
def test_columns_of_other_dtypes_come_back(kind):
    values = ["a", "b", "a"] if kind == "string" else [1, 0, 1]
    column = pd.Series(values).astype(kind)
    frame = pd.DataFrame({"c": column, "d": [1.0, 2.0, 3.0]})
    pd.testing.assert_frame_equal(
        ay.Dataset(frame, [0, 1, 0]).frame(), frame, check_index_type=False
    )
    if kind not in ("float32", "int16"):
        frame.loc[1, "c"] = pd.NA
        again = ay.Dataset(frame, [0, 1, 0]).frame()
        pd.testing.assert_frame_equal(again, frame, check_index_type=False)


def test_tables_of_other_libraries():
    import polars as pl
    import pyarrow as pa

    plain = FRAME.drop(columns="grade")
    ours = pl.from_pandas(plain)
    for table in (plain, pa.Table.from_pandas(plain), plain.to_dict("list"), ours, ours.lazy()):
        data = ay.Dataset(table, target="paid", ids="number", extra=["segment"])
        assert data.columns.names == ("amount", "rate", "purpose", "owner", "since")
        assert np.allclose(data.x.numpy()[:, :2], plain[["amount", "rate"]], equal_nan=True)
    named = ay.Dataset(np.zeros((3, 2)), [0, 1, 0], names=["a", "b"])
    assert named.columns.names == ("a", "b")


def test_rows_by_mask_slice_place_value_and_function():
    data = dataset()
    mask = FRAME["paid"] == "no"
    assert data[mask].ids.tolist() == data.where(mask).ids.tolist() == list("vxy")
    assert data.where(mask.to_numpy()).ids.tolist() == list("vxy")
    assert data[1:3].ids.tolist() == list("vw") and data[-1].ids.tolist() == ["z"]
    assert data.where(segment="south").ids.tolist() == list("vx")
    assert data.where(y="yes", purpose=["car", "boat"]).ids.tolist() == list("uwz")
    assert data.where(lambda d: d.column("amount") > 200).ids.tolist() == list("vwz")
    part = data[mask]
    pd.testing.assert_frame_equal(part.frame().reset_index(drop=True),
                                  FRAME[mask][FEATURES].reset_index(drop=True))  # fmt: skip
    assert part.head(2).ids.tolist() == list("vx")
    one, two = data.split(0.5)
    assert sorted([*one.ids, *two.ids]) == list("uvwxyz")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda d: d.where(y=FRAME["paid"] == "no"), "expected classes; a mask goes without y="),
        (lambda d: d.where([1, 2]), "expected a mask of 6 booleans"),
        (lambda d: d.where([True, False]), "expected a mask of 6 booleans"),
        (lambda d: d[[True, False]], "a mask of shape"),
        (lambda d: d["paid"], "expected rows"),
        (lambda d: d.where(segmnt="north"), "no column 'segmnt'.*did you mean 'segment'"),
        (lambda d: d.where(segment="west"), "no row has"),
        (lambda d: ay.Dataset(FRAME, target="payed"), "no column 'payed'.*did you mean 'paid'"),
        (lambda d: ay.Dataset(FRAME), "y is missing"),
        (lambda d: ay.Dataset(FRAME, FRAME["paid"], target="paid"), "both given"),
        (lambda d: ay.Dataset(FRAME, [None, *"abcde"]), "missing labels"),
        (lambda d: ay.Dataset(np.zeros((2, 3)), [0, 1], names=["a"]), "1 names for x"),
        (lambda d: ay.Dataset(np.zeros((2, 3)), [0, 1], target="a"), "x is none"),
    ],
)
def test_what_is_not_there_is_refused(ask, said):
    with pytest.raises(AssayError, match=said):
        ask(dataset())


def test_it_is_shown_copied_and_compared():
    data = dataset(name="loans")
    assert repr(data).startswith("Dataset(loans: 6 x 6, classes no, yes, 3 missing cells")
    assert "<table" in data._repr_html_() and "house" in data._repr_html_()
    assert pickle.loads(pickle.dumps(data)) == data == copy.deepcopy(data)
    assert data != data[:3]


def test_string_labels_take_the_order_that_is_given():
    data = ay.Dataset(np.zeros((3, 2)), ["b", "a", "b"], classes=("b", "a"))
    assert data.y.tolist() == [0, 1, 0]
    with pytest.raises(AssayError, match="y holds 'c'"):
        ay.Dataset(np.zeros((1, 2)), ["c"], classes=("b", "a"))
