"""Data and models from files: every format gives the same examples, every mistake a sentence."""

import pickle
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
from sklearn.linear_model import LogisticRegression

import durometer as du
from durometer.config.models import Model
from durometer.config.sources import Data
from durometer.core.errors import DurometerError

X = np.random.default_rng(0).random((12, 3))
Y = np.arange(12) % 2


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=Y, ids=np.arange(12) + 100, classes=["no", "yes"])
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.array(["no", "yes"])[Y])
    frame.assign(row=np.arange(12) + 100).to_csv(tmp_path / "d.csv", index=False)
    frame.assign(row=np.arange(12) + 100).to_parquet(tmp_path / "d.parquet")
    return tmp_path


def test_npz_csv_and_parquet_give_the_same_data(folder):
    first = Data(path="d.npz").load(folder)
    for name in ("d.csv", "d.parquet"):
        other = Data(path=name, label="kind", ids="row").load(folder)
        assert torch.allclose(other.x, first.x)
        assert other.y.tolist() == first.y.tolist()
        assert other.ids.tolist() == first.ids.tolist()
        assert other.classes == ("no", "yes") == first.classes


def test_a_table_with_a_schema_file(folder):
    schema = du.Schema([du.Feature(n, low=0, high=1) for n in "abc"], ["a <= 2"])
    (folder / "s.toml").write_text(schema.toml())
    source = Data(path="d.csv", label="kind", ids="row", schema="s.toml", rows=5)
    source.check(folder)
    data = source.load(folder)
    assert data.schema.names == ("a", "b", "c") and len(data) == 5
    for wrong in (replace(source, schema="t.toml"), Data(name="url", schema="s.toml")):
        with pytest.raises(DurometerError, match=r"t\.toml|its own schema"):
            wrong.check(folder)


def test_where_comes_before_rows(folder):
    data = Data(path="d.npz", where={"y": "yes"}, rows=4).load(folder)
    assert len(data) == 4 and set(data.y.tolist()) == {1}


def test_bytes_keep_their_units_unless_a_scale_is_given(folder):
    np.savez(folder / "bytes.npz", x=np.full((2, 4), 255, np.uint8), y=[0, 1])
    assert Data(path="bytes.npz").load(folder).x.tolist() == [[255.0] * 4] * 2
    assert Data(path="bytes.npz", scale=1 / 255).load(folder).x.tolist() == [[1.0] * 4] * 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Data(), "either a name .* or a path"),
        (Data(path="e.npz"), "'e.npz': no such file"),
        (Data(path="odd.txt"), "expected a file of .npz"),
        (Data(name="mnits"), "did you mean 'mnist'"),
    ],
)
def test_refused_before_opening(folder, source, said):
    (folder / "odd.txt").write_text("x")
    with pytest.raises(DurometerError, match=said):
        source.check(folder)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Data(path="d.csv", label="kin"), "no column 'kin'; did you mean 'kind'"),
        (Data(path="d.csv", label="kind", ids="rw"), "no column 'rw'"),
        (Data(path="d.csv", label="kind", scale=2.0, ids="row", where={"d": 1}), "no column 'd'"),
        (Data(path="d.npz", label="z"), "no array 'z'"),
        (Data(path="broken.npz"), "cannot be read as an .npz"),
        (Data(path="broken.parquet"), "cannot be read as a table"),
        (Data(path="d.npz", rows=99), "a sample of 99 rows"),
        (Data(path="d.npz", where={"y": "maybe"}), "no class 'maybe'"),
        (Data(name="mnist", split="val"), "has no such part"),
    ],
)
def test_refused_when_opened(folder, source, said):
    for name in ("broken.npz", "broken.parquet"):
        (folder / name).write_bytes(b"nothing of the kind")
    with pytest.raises(DurometerError, match=said):
        source.load(folder)


PYTHON = """
import torch
from neighbour import CLASSES
net = torch.nn.Linear(3, CLASSES)
def make(): return net
def logits(x): return net(x)
class Own(torch.nn.Linear):
    def __init__(self): super().__init__(3, 2)
"""


def test_models_from_python_files(folder):
    (folder / "net.py").write_text(PYTHON)
    (folder / "neighbour.py").write_text("CLASSES = 2")
    x = torch.tensor(X).float()
    for name, differentiable in (("net", True), ("make", True), ("logits", True), ("Own", True)):
        model = Model(python=f"net.py:{name}").load(folder)
        assert model.logits(x).shape == (12, 2), name
        assert model.differentiable is differentiable
    with pytest.raises(DurometerError, match="has no 'mak'; did you mean 'make'"):
        Model(python="net.py:mak").load(folder)
    (folder / "bad.py").write_text("import nothing_like_it")
    with pytest.raises(DurometerError, match="cannot be imported: ModuleNotFoundError"):
        Model(python="bad.py:x").load(folder)


def test_models_from_pickles_and_torchscript(folder):
    fitted = LogisticRegression().fit(X, Y)
    joblib.dump(fitted, folder / "m.joblib")
    (folder / "m.pkl").write_bytes(pickle.dumps(fitted))
    net = torch.nn.Linear(3, 2)
    torch.jit.trace(net, torch.zeros(1, 3)).save(str(folder / "m.pt"))
    x = torch.tensor(X)
    for name in ("m.joblib", "m.pkl"):
        model = Model(pickle=name).load(folder)
        assert model.logits(x).argmax(1).tolist() == fitted.predict(X).tolist()
    script = Model(torchscript="m.pt").load(folder)
    assert torch.allclose(script.logits(x.float()), net(x.float()))
    assert script.differentiable
    (folder / "broken.pt").write_bytes(b"nothing")
    for model in (Model(torchscript="broken.pt"), Model(pickle="broken.pt")):
        with pytest.raises(DurometerError, match=r"broken\.pt"):
            model.load(folder)


def test_outputs_are_passed_on(folder):
    (folder / "net.py").write_text("def half(x): return x[:, :2] * 0 + 0.5")
    model = Model(python="net.py:half", answers="probabilities").load(folder)
    assert torch.allclose(model.logits(torch.ones(1, 3)), torch.tensor(0.5).log())


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Model(), "exactly one of path, python, onnx, .*demo; got none"),
        (Model(onnx="a", pickle="b"), "got onnx and pickle"),
        (Model(python="net.py"), "expected 'file.py:name'"),
        (Model(python="nt.py:net"), "no such file"),
        (Model(onnx="m.onnx"), "no such file"),
        (Model(demo="mnst"), "did you mean 'mnist'"),
    ],
)
def test_models_refused_before_opening(folder, model, said):
    with pytest.raises(DurometerError, match=said):
        model.check(folder)


def test_a_class_in_a_file_is_made_and_one_that_needs_more_is_told_of(tmp_path):
    (tmp_path / "nets.py").write_text(
        "import torch\n"
        "class Plain(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x\n"
        "class Wide(Plain):\n"
        "    def __init__(self, width, depth=2):\n"
        "        super().__init__()\n"
    )
    assert Model(python="nets.py:Plain").load(tmp_path).kind == "torch Plain"
    with pytest.raises(DurometerError, match="a class that needs width; name an object"):
        Model(python="nets.py:Wide").load(tmp_path)


# --- a pipeline and boosters from files, on a table with text


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """A CSV with text and missing cells, its schema, and a model file of each kind."""
    import catboost
    import lightgbm
    import xgboost
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    folder, rng = tmp_path_factory.mktemp("loans"), np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "amount": rng.integers(1, 100, 200),
            "purpose": rng.choice(["car", "house", "boat"], 200),
            "income": np.where(rng.random(200) < 0.1, np.nan, rng.normal(50, 9, 200)),
        }
    )
    y = ((frame["purpose"] == "boat") ^ (frame["amount"] > 60)).astype(int)
    frame.assign(paid=y).to_csv(folder / "loans.csv", index=False)
    schema = du.Schema(
        [
            du.Feature("purpose", "category", values=("house", "car", "boat")),
            du.Feature("income", low=0, high=100, missing=True),
            du.Feature("amount", "integer", 0, 200),
        ]
    )
    (folder / "loans.toml").write_text(schema.toml())
    text = make_pipeline(SimpleImputer(strategy="most_frequent"),
                         OneHotEncoder(handle_unknown="ignore"))  # fmt: skip
    parts = [("t", text, ["purpose"]), ("n", SimpleImputer(), ["amount", "income"])]
    pipe = make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=1000))
    joblib.dump(pipe.fit(frame, y), folder / "pipe.joblib")
    skops.io.dump(pipe, folder / "pipe.skops")
    native = frame.assign(purpose=frame["purpose"].astype("category"))
    models = dict.fromkeys(("pipe.joblib", "pipe.skops"), pipe.predict(frame))
    booster = xgboost.XGBClassifier(n_estimators=8, enable_categorical=True).fit(native, y)
    for name in ("x.json", "x.ubj"):
        booster.save_model(folder / name)
        models[name] = booster.predict(native)
    light = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(native, y)
    light.booster_.save_model(folder / "l.txt")
    cat = catboost.CatBoostClassifier(iterations=8, verbose=0, cat_features=["purpose"],
                                      allow_writing_files=False).fit(frame, y)  # fmt: skip
    cat.save_model(str(folder / "c.cbm"))
    return folder, models | {"l.txt": light.predict(native), "c.cbm": cat.predict(frame)}


@pytest.mark.parametrize("file", ["pipe.joblib", "pipe.skops", "x.json", "x.ubj", "l.txt", "c.cbm"])
def test_a_model_file_of_each_kind_answers_as_it_does_by_itself(loans, file):
    from durometer.model.agreement import agree
    from durometer.model.frames import align_columns
    from durometer.model.probe import probe

    folder, own = loans
    source = Model(path=file, name="mine", score=0.9)
    source.check(folder)
    model = source.load(folder)
    assert model.title == "mine" and model.score == 0.9
    for schema in (None, "loans.toml"):
        data = Data(path="loans.csv", label="paid", schema=schema, name="loans").load(folder)
        made = probe(align_columns(model, data), data.x[:32])
        assert made.logits(data.x).argmax(1).tolist() == np.ravel(own[file]).tolist()
        assert agree(made, data) == 200


def exported(file):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5)).eval()
    net[0].bias.data = -net[0].weight.sum(1) / 2  # the boundary goes through the middle
    rows = {0: torch.export.Dim("rows")}
    torch.export.save(torch.export.export(net, (torch.rand(4, 3),), dynamic_shapes=(rows,)), file)
    return net


def test_an_exported_program_is_attacked_with_its_gradients(tmp_path):
    net = exported(tmp_path / "net.pt2")
    source = Model(path="net.pt2", name="mine")
    source.check(tmp_path)
    model = source.load(tmp_path)
    x = torch.rand(40, 3)
    assert torch.allclose(model.logits(x), net(x))
    data = du.Dataset(x, net(x).argmax(1))
    asked = {"space": du.Linf(0.2), "attack": du.PGD(10), "progress": False}
    found = du.evaluate(model, data, **asked).table["success"]
    assert found.tolist() == du.evaluate(net, data, **asked).table["success"].tolist()
    assert found.any()


def test_a_skops_file_with_a_type_of_ones_own_says_what_to_do(tmp_path):
    skops.io.dump(du.Budget(3), tmp_path / "own.skops")
    with pytest.raises(DurometerError, match=r"durometer\.problem\.budget\.Budget.*trusted = \["):
        Model(skops="own.skops").load(tmp_path)
    with pytest.raises(DurometerError, match=r"cannot wrap a Budget"):  # it was read
        Model(skops="own.skops", trusted=["durometer.problem.budget.Budget"]).load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "file", "said"),
    [
        ("pickle", "x.json", "cannot be read as pickle; it looks like xgboost"),
        ("xgboost", "pipe.joblib", "cannot be read as xgboost"),
        ("exported", "pipe.skops", "cannot be read as exported; it looks like skops"),
        ("skops", "net.pt2", "cannot be read as skops; it looks like exported"),
        ("xgboost", "l.txt", "cannot be read as xgboost; it looks like lightgbm"),
        ("lightgbm", "c.cbm", "cannot be read as lightgbm; it looks like catboost"),
        ("torchscript", "saved.pt", "cannot be read as torchscript; it looks like .*torch.save"),
        ("onnx", "l.txt", "only .onnx files|cannot be read as an ONNX"),
    ],
)
def test_a_model_file_of_another_kind_is_said_to_be(loans, kind, file, said):
    folder, _ = loans
    torch.save(torch.nn.Linear(2, 2), folder / "saved.pt")
    if "pt2" in file:
        exported(folder / "net.pt2")
    with pytest.raises(DurometerError, match=said):
        Model(**{kind: file}).load(folder)


def test_the_command_line_gives_a_pipeline_its_own_accuracy(loans, monkeypatch):
    from typer.testing import CliRunner

    from durometer.cli import app

    folder, own = loans
    monkeypatch.chdir(folder)
    (folder / "text.toml").write_text(
        """
        [data]
        path = "loans.csv"
        label = "paid"
        schema = "loans.toml"
        rows = 40
        [model]
        path = "pipe.joblib"
        [space]
        type = "TableSpace"
        eps = 0.5
        [attack]
        type = "Graft"
        evaluations = 60
        """
    )
    done = CliRunner().invoke(app, ["run", "text.toml", "--out", "out", "--quiet"])
    assert done.exit_code == 0, done.output
    report = du.Report.load(folder / "out")
    y = pd.read_csv("loans.csv")["paid"].to_numpy()
    ids = report.table["id"].to_numpy(int)
    assert report.metric("clean").value == pytest.approx((own["pipe.joblib"] == y)[ids].mean())


def test_data_of_a_python_file_come_as_they_are(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import durometer as du\n"
        "def rows(): return du.Dataset([[0.0], [1.0]], [0, 1], name='mine')\n"
        "numbers = [1, 2]\n"
    )
    assert Data(python="mine.py:rows").load(tmp_path).name == "mine"
    renamed = Data(python="mine.py:rows", name="yours", where={"y": [1]}).load(tmp_path)
    assert renamed.name == "yours" and renamed.x.tolist() == [[1.0]]
    for wrong, said in {
        "mine.py:numbers": "gives a list; expected an du.Dataset",
        "mine.py:row": "did you mean 'rows'",
    }.items():
        with pytest.raises(DurometerError, match=said):
            Data(python=wrong).load(tmp_path)
    for given, said in (
        ({"python": "other.py:rows"}, "no such file"),
        ({"python": "mine.py"}, "expected 'file.py:name'"),
        ({"python": "mine.py:rows", "path": "a.csv"}, "not from both"),
    ):
        with pytest.raises(DurometerError, match=said):
            Data(**given).check(tmp_path)


def test_an_exported_program_is_played(tmp_path):
    net = torch.nn.Linear(4, 2).eval()
    size = torch.export.Dim("n", min=2, max=4096)
    x = torch.rand(8, 4)
    made = torch.export.export(net, (x,), dynamic_shapes=({0: size},))
    torch.export.save(made, tmp_path / "m.pt2")
    data = du.Dataset(x, net(x).argmax(1))
    report = du.evaluate(
        Model(path="m.pt2").load(tmp_path), data, space=du.Linf(0.01), attack=du.FGSM()
    )
    assert report.metric("clean").value == 1.0


TREE = "Tree=0\nnum_leaves=3\nnum_cat=0\nsplit_feature=0 1\nthreshold=0.5 0.5\ndecision_type=2 2\n"
TREE += "left_child=1 -1\nright_child=-3 -2\nleaf_value=0 1 2\nis_linear=0\nshrinkage=1\n\n\n"


def light(tree: str = TREE, size: int | None = None, names: str = "a b") -> str:
    head = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
    head += f"max_feature_idx=1\nobjective=binary sigmoid:1\nfeature_names={names}\n"
    head += f"feature_infos=[0:1] [0:1]\ntree_sizes={size or len(tree)}\n\n"
    return head + tree + "end of trees\n\nparameters:\n[seed: 0]\n\nend of parameters\n\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (light(TREE.replace("left_child=1", "left_child=0")), "child of none or of two"),
        (light(TREE.replace("right_child=-3", "right_child=-9")), "child of none or of two"),
        (light(TREE.replace("split_feature=0 1", "split_feature=0 7")), "split on no feature"),
        (light(TREE.replace("num_leaves=3", "num_leaves=30")), "3 leaf values for 30 leaves"),
        (light(size=20), "tree 0"),
        (light(names="a"), "feature_names are not 2"),
        (light().replace("[seed: 0]", "[seed 0]"), "a parameter"),
        (light().replace("end of parameters", ""), "parameters do not end"),
        (light().replace("seed", "se\0d"), "no text"),
    ],
)
def test_a_damaged_lightgbm_file_does_not_reach_lightgbm(tmp_path, text, said):
    """Each of these ends the process or never comes back, if LightGBM is given it."""
    (tmp_path / "m.txt").write_text(light())
    Model(path="m.txt").load(tmp_path)
    (tmp_path / "m.txt").write_text(text)
    with pytest.raises(du.DurometerError, match=said):
        Model(path="m.txt").load(tmp_path)


def test_a_damaged_xgboost_file_does_not_reach_xgboost(tmp_path):
    import json

    import xgboost

    x = np.random.default_rng(0).random((40, 3))
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2).fit(x, x[:, 0] > 0.5)
    for name in ("m.ubj", "m.json"):
        model.save_model(tmp_path / name)
        Model(path=name).load(tmp_path)
    content = (tmp_path / "m.ubj").read_bytes()
    (tmp_path / "m.ubj").write_bytes(content[: len(content) // 2])
    with pytest.raises(du.DurometerError, match="damaged"):
        Model(path="m.ubj").load(tmp_path)
    made = json.loads((tmp_path / "m.json").read_text())
    trees = made["learner"]["gradient_booster"]["model"]["trees"]
    for column, value, said in (
        ("split_indices", 77, "no such feature"),
        ("left_children", 5000, "a child that is not"),
    ):
        kept, trees[0][column][0] = trees[0][column][0], value
        (tmp_path / "m.json").write_text(json.dumps(made))
        with pytest.raises(du.DurometerError, match=said):
            Model(path="m.json").load(tmp_path)
        trees[0][column][0] = kept


def test_a_model_that_has_a_name_keeps_it(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import durometer as du\n"
        "def named(): return du.wrap(lambda x: x, name='credit, March')\n"
        "def plain(): return lambda x: x\n"
    )
    assert Model(python="mine.py:named").load(tmp_path).title == "credit, March"
    assert Model(python="mine.py:named", name="other").load(tmp_path).title == "other"
    assert Model(python="mine.py:plain").load(tmp_path).title == "plain"
