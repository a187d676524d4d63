"""An untouched run is verified; whatever is changed in a copy is found, and the rows are named."""

import json
import shutil

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core import durable_files
from durometer.report.report import Report


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10))
    return net, data, report.save(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made[2], tmp_path / "copy")


def kinds(folder, made):
    return {f.kind for f in du.verify(folder, *made[:2]).findings}


def test_an_untouched_run_is_verified(made):
    found = du.verify(made[2], *made[:2])
    assert found, str(found)
    assert found.checked["adversarial examples"] == 11 and found.checked["rows"] == 16


@pytest.mark.parametrize("name", [
    "spec.json", "records.parquet", "adversarial.npz", "examples.npz", "report.html",
    "evidence.html", "evidence.json",
])  # fmt: skip
@pytest.mark.parametrize("where", [0.13, 0.5, 0.97])
def test_one_byte_is_found(made, copy, name, where):
    path = copy / name
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    assert not du.verify(copy)


def resaved(made, copy, **changed):
    """A run whose maker lies consistently: all digests and figures fit the changed records."""
    report = Report.load(copy)
    columns = {k: v.copy() for k, v in report.records.columns.items()}
    x = report.adversarial.copy()
    for name, change in changed.items():
        if name == "x":
            x = change(x, columns)
        else:
            columns[name] = change(columns[name], columns)
    records = type(report.records)(columns, x)
    Report(report.spec, records, report.flags, examples=report.examples).save(copy)
    return kinds(copy, made)


def first(columns, held=False):
    return int(np.flatnonzero(columns["success"] != held)[0])


def test_lies_that_fit_their_digests_are_found_by_asking_again(made, copy):
    def too_far(x, c):
        x[first(c)] = np.clip(x[first(c)] + 0.3, 0, 1)
        return x

    def clean(x, c):
        x[first(c)] = made[1].x.numpy()[first(c)]
        return x

    def other(values, c):
        values[first(c)] = (values[first(c)] + 1) % 3
        return values

    def broken(values, c):
        values[first(c, held=True)] = True
        return values

    assert "space" in resaved(made, copy, x=too_far)
    for change, kind in (
        ({"x": clean}, "answer"), ({"y": other}, "label"), ({"final": other}, "answer"),
        ({"clean": other}, "answer"), ({"success": broken}, "record"),
    ):  # fmt: skip
        shutil.rmtree(copy)
        shutil.copytree(made[2], copy)
        assert kind in resaved(made, copy, **change), change


def test_another_model_and_other_data_are_found(made):
    net, data, folder = made
    other = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(data.x[0].numel(), 3))
    assert {"model", "answer"} <= {f.kind for f in du.verify(folder, other, data).findings}
    moved = du.Dataset(data.x * 0.99, data.y)
    assert "input" in {f.kind for f in du.verify(folder, net, moved).findings}


def test_a_figure_that_was_written_by_hand_is_found(made, copy):
    from durometer.report.evidence import digest

    path = copy / "evidence.json"
    content = json.loads(path.read_text())
    robust = next(f for f in content["figures"] if f["name"] == "robust")
    robust["value"] = 0.99
    content["digest"] = digest(content)
    durable_files.write(path, json.dumps(content, indent=1, ensure_ascii=False))
    found = du.verify(copy)
    assert {f.kind for f in found.findings} == {"figure"} and "robust" in str(found)


def test_rows_that_fail_are_named(made, copy):
    resaved(made, copy, y=lambda y, c: np.where(np.arange(16) == 5, (y + 1) % 3, y))
    labels = next(f for f in du.verify(copy, *made[:2]).findings if f.kind == "label")
    assert labels.rows == (made[1].ids[5],)


def test_the_second_judge_of_tables_agrees_with_the_first():
    from durometer.verification.judge import allowed

    data = du.datasets.url().test.sample(40)
    space = data.schema.space(eps=0.5)
    region = space.around(data.x)
    rng = np.random.default_rng(0)
    x = data.x.numpy().copy()
    for i in range(40):  # some moves are allowed, most break a rule
        j = rng.integers(x.shape[1])
        x[i, j] += rng.choice([0, 1, -1, 0.5])
    mine = allowed({"type": "TableSpace", "eps": 0.5, "p": 2.0}, data.x.numpy(), x, data.schema)
    theirs = region.contains(torch.from_numpy(x)).numpy()
    assert (mine == theirs).all() and 0 < theirs.sum() < 40


def agree(space, x0, x):
    from durometer.core.serialization import to_dict
    from durometer.verification.judge import allowed

    region = space.around(torch.as_tensor(x0))
    theirs = region.contains(torch.as_tensor(x)).numpy()
    maker = getattr(space, "candidates", None)
    mine = allowed(to_dict(space, whole=True), np.asarray(x0), np.asarray(x), None, maker)
    assert (mine == theirs).all(), (space, np.flatnonzero(mine != theirs))
    assert 0 < theirs.sum() < len(theirs)


def pictures(n=60, size=24, seed=0):
    rng = np.random.default_rng(seed)
    return rng, (rng.integers(0, 256, (n, 1, size, size)) / 255).astype(np.float32)


@pytest.mark.parametrize("mask", ["eyeglasses", np.pad(np.ones((4, 5)), ((3, 17), (10, 9)))])
def test_the_second_judge_of_patches_agrees_with_the_first(mask):
    rng, x0 = pictures()
    held = du.masks.eyeglasses(24, 24) if isinstance(mask, str) else mask.astype(bool)
    x = np.where(held, rng.random(x0.shape), x0).astype(np.float32)
    x[:20, 0, 23, 23] += 0.01  # a pixel outside
    x[20:30, 0, held] = 1.2  # a colour that cannot be shown
    agree(du.Patch(mask), x0, np.clip(x, 0, 2))


def test_the_second_judge_of_windows_agrees_with_the_first():
    rng, x0 = pictures(seed=1)
    x = x0.copy()
    for i in range(len(x)):
        h, w = rng.integers(1, 8, 2)
        r, c = rng.integers(0, 16, 2)
        x[i, 0, r : r + h, c : c + w] = rng.random((h, w))
    agree(du.Rectangle(5, 4), x0, x)


def test_the_second_judge_of_levels_agrees_with_the_first():
    rng, x0 = pictures(seed=2)
    steps = rng.integers(-6, 7, x0.shape) * (rng.random((60, 1, 1, 1)) < 0.5)
    x = np.clip(np.round(x0 * 255) + steps, 0, 255) / 255
    x[::3, 0, 0, 0] += 0.3 / 255  # between two levels
    agree(du.Quantised(du.Linf(6 / 255)), x0, np.clip(x, 0, 1).astype(np.float32))


def test_the_second_judge_of_sentences_agrees_with_the_first():
    from durometer.spaces import token_ids

    rng = np.random.default_rng(3)
    texts = ["a good film, with a happy end and a bad start", "the worst day of a long week",
             "he likes the old house on the hill"] * 12  # fmt: skip
    offer = {"good": ("fine", "bad"), "bad": ("good", "poor"), "happy": ("sad", "glad"),
             "old": ("new", "aged"), "long": ("short", "lengthy"), "likes": ("loves",),
             "day": ("night", "date"), "the": ("a",), "worst": ("best", "poorest")}  # fmt: skip
    space = du.Text(du.Synonyms(offer), most=0.25)
    rows = [t.split(" ") for t in texts]
    made = []
    for row in rows:
        now, offered = list(row), space.candidates(row)
        for place in rng.permutation(len(row))[: rng.integers(0, 4)]:
            other = ["house", *offered[place]]
            now[place] = str(rng.choice(other)) if rng.random() < 0.8 else "the"
        made.append(" ".join(now))
    agree(space, token_ids.encode(texts).numpy(), token_ids.encode(made).numpy())


def test_a_patch_run_is_verified_and_a_pixel_beside_the_frame_is_found(tmp_path):
    _, x0 = pictures(12, seed=4)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 2))
    y = net(torch.from_numpy(x0)).argmax(1).detach()
    data = du.Dataset(x0, y)
    space = du.Quantised(du.Patch("eyeglasses"))
    report = du.evaluate(net, data, space=space, attack=du.PGD(20))
    folder = report.save(tmp_path / "run")
    found = du.verify(folder, net, data, space)
    assert found and found.checked["adversarial examples"] > 0, str(found)
    assert not any("own word" in note for note in found.notes)
    x = report.adversarial.copy()
    row = first(report.records.columns)
    x[row, 0, 23, 23] = 1 - x[row, 0, 23, 23]
    Report(report.spec, type(report.records)(report.records.columns, x), report.flags).save(folder)
    wrong = du.verify(folder, net, data, space).findings
    assert "space" in {f.kind for f in wrong}


def test_a_pipeline_with_text_columns_is_asked_as_it_was_in_the_run(tmp_path):
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": rng.choice(["a", "b", "c"], 200), "size": rng.random(200)})
    frame["y"] = np.where((frame["kind"] == "a") ^ (frame["size"] > 0.5), "yes", "no")
    text = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    pipe = make_pipeline(text, RandomForestClassifier(5, max_depth=2, random_state=0))
    pipe.fit(frame[["kind", "size"]], frame["y"])
    schema = du.Schema.suggest(frame[["kind", "size"]])
    data = du.Dataset(frame, target="y", schema=schema).head(30)
    space = data.schema.space(eps=0.3)
    report = du.evaluate(pipe, data, space=space, attack=du.Graft(20), progress=False)
    made = du.verify(report.save(tmp_path), pipe, data, space)
    assert made and made.checked["adversarial examples"] > 0, str(made)
