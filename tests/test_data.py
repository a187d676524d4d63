"""Dataset: a frame goes in as it is, and comes back as it was."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

import durometer as du
from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset

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
    return du.Dataset(FRAME, target="paid", ids="number", extra=["segment"], **more)


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
        du.Dataset(frame, [0, 1, 0]).frame(), frame, check_index_type=False
    )
    if kind not in ("float32", "int16"):
        frame.loc[1, "c"] = pd.NA
        again = du.Dataset(frame, [0, 1, 0]).frame()
        pd.testing.assert_frame_equal(again, frame, check_index_type=False)


def test_tables_of_other_libraries():
    import polars as pl
    import pyarrow as pa

    plain = FRAME.drop(columns="grade")
    ours = pl.from_pandas(plain)
    for table in (plain, pa.Table.from_pandas(plain), plain.to_dict("list"), ours, ours.lazy()):
        data = du.Dataset(table, target="paid", ids="number", extra=["segment"])
        assert data.columns.names == ("amount", "rate", "purpose", "owner", "since")
        assert np.allclose(data.x.numpy()[:, :2], plain[["amount", "rate"]], equal_nan=True)
    named = du.Dataset(np.zeros((3, 2)), [0, 1, 0], names=["a", "b"])
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
        (lambda d: du.Dataset(FRAME, target="payed"), "no column 'payed'.*did you mean 'paid'"),
        (lambda d: du.Dataset(FRAME), "y is missing"),
        (lambda d: du.Dataset(FRAME, FRAME["paid"], target="paid"), "both given"),
        (lambda d: du.Dataset(FRAME, [None, *"abcde"]), "missing labels"),
        (lambda d: du.Dataset(np.zeros((2, 3)), [0, 1], names=["a"]), "1 names for x"),
        (lambda d: du.Dataset(np.zeros((2, 3)), [0, 1], target="a"), "x is none"),
    ],
)
def test_what_is_not_there_is_refused(ask, said):
    with pytest.raises(DurometerError, match=said):
        ask(dataset())


def test_it_is_shown_copied_and_compared():
    data = dataset(name="loans")
    assert repr(data).startswith("Dataset(loans: 6 x 6, classes no, yes, 3 missing cells")
    assert "<table" in data._repr_html_() and "house" in data._repr_html_()
    assert pickle.loads(pickle.dumps(data)) == data == copy.deepcopy(data)
    assert data != data[:3]


def test_string_labels_take_the_order_that_is_given():
    data = du.Dataset(np.zeros((3, 2)), ["b", "a", "b"], classes=("b", "a"))
    assert data.y.tolist() == [0, 1, 0]
    with pytest.raises(DurometerError, match="y holds 'c'"):
        du.Dataset(np.zeros((1, 2)), ["c"], classes=("b", "a"))


def test_a_mask_that_is_a_series_names_its_rows():
    """pandas aligns masks by their index; a shuffled one means the rows it names."""
    frame = pd.DataFrame({"a": range(8), "kind": list("xyxyxyxy")}, index=list("hgfedcba"))
    data = du.Dataset(frame, [0, 1] * 4, ids=list("stuvwxyz"))
    wanted = frame["a"] > 4
    for mask in (wanted, wanted.sort_index(), wanted.sample(frac=1, random_state=3)):
        assert data[mask].column("a").tolist() == [5, 6, 7]
        assert data.where(mask).column("a").tolist() == [5, 6, 7]
        assert data.where(lambda d, m=mask: m).column("a").tolist() == [5, 6, 7]
    some = data[[7, 1, 5]]
    assert some.where(wanted).column("a").tolist() == [7, 5]  # a mask of the whole table
    by_id = pd.Series(wanted.to_numpy(), index=data.ids).sample(frac=1, random_state=1)
    assert data[by_id].column("a").tolist() == [5, 6, 7]
    assert data[wanted.reset_index(drop=True)].column("a").tolist() == [5, 6, 7]
    with pytest.raises(DurometerError, match="index names other rows"):
        data[pd.Series([True] * 8, index=range(10, 18))]


def test_labels_in_another_order_than_their_table_are_refused():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[5, 6, 7])
    y = pd.Series(["no", "yes", "yes"], index=[5, 6, 7])
    assert du.Dataset(frame, y).y.tolist() == [0, 1, 1]
    assert du.Dataset(frame, y.reset_index(drop=True)).y.tolist() == [0, 1, 1]
    with pytest.raises(DurometerError, match=r"y.loc\[frame.index\]"):
        du.Dataset(frame, y.sort_index(ascending=False))
    with pytest.raises(DurometerError, match=r"y.loc\[frame.index\]"):
        du.Dataset(frame.reset_index(drop=True), y.reset_index(drop=True).iloc[::-1])


def test_missing_cells_booleans_and_typing_errors_in_where():
    frame = pd.DataFrame({"kind": ["a", None, "b", "a"], "n": [1.0, float("nan"), 3.0, 1.0]})
    for table in (frame, frame.convert_dtypes()):
        data = du.Dataset(table, [True, False, True, False])
        assert data.where(kind=None).ids.tolist() == [1]
        assert data.where(n=float("nan")).ids.tolist() == [1]
        assert data.where(kind=["a", None]).ids.tolist() == [0, 1, 3]
        assert data.where(y=True).ids.tolist() == [0, 2]
        with pytest.raises(DurometerError, match="no row has kind='c'"):
            data.where(kind=["a", "c"])


def test_columns_without_names_and_columns_with_one_name():
    from sklearn.ensemble import RandomForestClassifier

    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3)).round(3)
    y = (x[:, 0] + 0.2 * rng.normal(size=80) > 0).astype(int)
    frame = pd.DataFrame(x)  # columns 0, 1, 2
    for model in (
        RandomForestClassifier(5, random_state=0).fit(frame, y),
        RandomForestClassifier(5, random_state=0).fit(x, y),
        xgboost.XGBClassifier(n_estimators=5, booster="gblinear").fit(frame.add_prefix("c"), y),
        xgboost.XGBClassifier(n_estimators=5).fit(frame, y),
    ):
        known = frame.add_prefix("c") if "gblinear" in str(model) else frame
        report = du.evaluate(
            model, du.Dataset(known, y), space=du.Linf(0.01, -9, 9), attack=du.Square(3)
        )
        assert report.metric("clean").value == model.score(known, y)
    turned = du.evaluate(  # the last is one by name: it knows 2, 1, 0 from 0, 1, 2
        model, du.Dataset(frame[[2, 1, 0]], y), space=du.Linf(0.01, -9, 9), attack=du.Square(3)
    )
    assert turned.metric("clean").value == report.metric("clean").value
    assert du.Schema.suggest(frame).names == ("0", "1", "2")
    twice = pd.DataFrame(x, columns=["a", "a", "b"])
    for make in (lambda: du.Dataset(twice, y), lambda: du.Schema.suggest(twice)):
        with pytest.raises(DurometerError, match="2 columns 'a'"):
            make()
    with pytest.raises(DurometerError, match="2 levels"):
        du.Dataset(pd.concat({"x": frame}, axis=1), y)


def test_whole_numbers_that_doubles_cannot_tell_apart_are_refused():
    frame = pd.DataFrame({"account": [2**60 + 1, 2**60 + 2, 7], "b": [1, 2, 3]})
    for make in (lambda: du.Dataset(frame, [0, 1, 0]), lambda: du.Schema.suggest(frame)):
        with pytest.raises(DurometerError, match="'account'.*beyond 2..53"):
            make()
    assert len(du.Dataset(frame, [0, 1, 0], ids="account")) == 3
    assert len(du.Dataset(frame, [0, 1, 0], extra="account")) == 3


def test_data_of_some_of_the_models_classes_are_counted_as_the_model_counts():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[(x[:, 0] > 0).astype(int) + (x[:, 1] > 0)]
    model = LogisticRegression(C=0.1).fit(x, y)
    some = y != "a"
    asked = {"space": du.Linf(0.05, -9, 9), "attack": du.Square(5)}
    ids = np.flatnonzero(some)
    part = du.evaluate(model, du.Dataset(x[some], y[some], ids), **asked)
    whole = du.evaluate(model, du.Dataset(x, y)[some], **asked)
    assert part.metric("clean").value == model.score(x[some], y[some]) < 1
    assert part.table["final"].tolist() == whole.table["final"].tolist()
    assert list(part.metric("clean", by="y")) == ["b", "c"]
    other = LogisticRegression().fit(x[some], y[some])
    with pytest.raises(DurometerError, match="'a' is in only one of them; leave out rows"):
        du.evaluate(other, du.Dataset(x, y), **asked)


def test_rows_go_by_the_names_their_table_has():
    """`frame.loc[report.adversarial_frame().index]` is the same row, also of a shuffled frame."""
    frame = pd.DataFrame({"a": [0.1, 0.9, 0.4, 0.6]}, index=[30, 10, 20, 0])
    data = du.Dataset(frame, [0, 1, 0, 1])
    assert data.ids.tolist() == [30, 10, 20, 0]
    report = du.evaluate(
        lambda x: x[:, 0] - 0.5, data, space=du.Linf(0.2), attack=du.Square(20, start="best")
    )
    assert sorted(report.adversarial_frame().index) == [0, 20]
    assert du.Dataset(frame.set_axis(list("wxyz")), [0, 1, 0, 1]).ids.tolist() == list("wxyz")
    for odd in ([1, 1, 2, 3], [0.5, 1, 2, 3], pd.date_range("2020-01-01", periods=4)):
        assert du.Dataset(frame.set_axis(odd), [0, 1, 0, 1]).ids.tolist() == [0, 1, 2, 3]


def test_torch_data_are_read_in_their_own_order():
    from torch.utils.data import DataLoader, TensorDataset

    x, y = torch.rand(10, 3), torch.arange(10) % 2
    pairs = TensorDataset(x, y)
    for source in (pairs, DataLoader(pairs, batch_size=3, shuffle=True, drop_last=True)):
        data = Dataset(source)
        assert torch.equal(data.x, x) and torch.equal(data.y, y)
        assert data.ids.tolist() == list(range(10))
    with pytest.raises(DurometerError, match="expected pairs"):
        Dataset(TensorDataset(x))
    with pytest.raises(DurometerError, match="has the classes itself"):
        Dataset(pairs, y)


def test_images_of_bytes_keep_their_units():

    x = torch.randint(0, 256, (20, 1, 4, 4), dtype=torch.uint8)
    data = Dataset(x, (x.float().mean((1, 2, 3)) > 127).long())
    assert data.x.dtype == torch.float32 and float(data.x.max()) > 1

    def mean(z):
        s = z.mean((1, 2, 3)) - 127
        return torch.stack([-s, s], 1)

    report = du.evaluate(mean, data, space=du.Linf(8, 0, 255), attack=du.PGD(5), progress=False)
    change = torch.from_numpy(report.adversarial) - data.x
    assert 1 < float(change.abs().max()) <= 8.001
    with pytest.raises(DurometerError, match="outside the box .0.0, 1.0."):
        du.evaluate(mean, data, space=du.Linf(8 / 255), attack=du.PGD(5), progress=False)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.array([-1, 1] * 5), r"holds -1 and 1, which are labels.*\[str\(v\)"),
        (np.eye(2)[[0, 1] * 5], r"one-hot, y.argmax\(1\)"),
        (np.ones((10, 3), int), r"several labels a row.*y\[:, j\]"),
    ],
)
def test_labels_that_are_no_classes(y, said):
    with pytest.raises(DurometerError, match=said):
        Dataset(np.random.default_rng(0).uniform(size=(10, 3)), y)
