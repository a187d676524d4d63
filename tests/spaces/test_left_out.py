"""Candidates that a space leaves out are named; sentences come back as sentences, by id."""

import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer.spaces import token_ids

TEXTS = ["Good film", "dull film", "not good", "a bad one", "good one", "bad plot"]
Y = [1, 0, 0, 0, 1, 0]


def model():
    return make_pipeline(CountVectorizer(), LogisticRegression(C=100)).fit(TEXTS, Y)


def report(table, texts=TEXTS, **more):
    data = du.Dataset(texts, model().predict(list(texts)))
    space = du.Text(du.Synonyms(table, **more), most=0.5)
    return du.evaluate(model(), data, space=space, progress=False)


def inside(table, text, now, **more):
    region = du.Text(du.Synonyms(table, **more), most=0.5).around(token_ids.encode([text]))
    return bool(region.contains(token_ids.encode([now])))


def test_keys_count_in_any_case():
    assert inside({"GOOD": ("bad",), "film": ("x",)}, "Good film", "Good x")
    assert inside({"Film": ("x",)}, "good film", "good x")
    assert inside({"good": ("McFine",)}, "Good film", "McFine film")


def test_a_table_of_your_own_is_not_cut():
    nine = tuple(f"w{i}" for i in range(9))
    assert inside({"film": nine}, "good film", "good w8")
    assert not inside({"film": nine}, "good film", "good w8", at_most=7)


@pytest.mark.parametrize(
    ("table", "more", "name"),
    [
        ({"film": ("motion picture",)}, {}, "of several words, e.g. 'motion picture' for 'film'"),
        ({"not": ("never",)}, {}, "for a word in keep="),
        ({"film": ("a1", "a2", "a3")}, {"at_most": 2}, "beyond at_most="),
        ({"good film": ("x",)}, {}, "for a key that is no single word"),
    ],
)
def test_what_is_left_out_is_said(table, more, name):
    flags = {f.id: f.text for f in report(table, **more).flags}
    assert name in flags["left-out-candidates"]


def test_nothing_is_said_where_nothing_is_left_out():
    assert "left-out-candidates" not in {f.id for f in report({"film": ("movie",)}).flags}


def test_where_nothing_can_move_a_proof_is_vacuous():
    table = report({"xyz": ("abc",)}).table
    assert (table["verdict"] == "proven").all() and table["vacuous"].all()


@pytest.mark.parametrize("attack", [du.Enumerate(), du.Linear()])
def test_each_proof_of_texts_says_so(attack):
    data = du.Dataset(TEXTS, model().predict(TEXTS))
    space = du.Text(du.Synonyms({"film": ("movie",)}), most=0.5)
    found = du.evaluate(model(), data, space=space, attack=attack, progress=False).table
    fixed = ["film" not in t for t in TEXTS]
    proven = (found["verdict"] == "proven").to_numpy()
    assert (found["vacuous"].to_numpy() == (proven & fixed)).all() and proven.any()


def test_typos_are_all_there_on_request():
    assert len(du.Typos()(["wonderfully"])[0]) == 16
    assert len(du.Typos(at_most=None)(["wonderfully"])[0]) > 25


def test_sentences_come_back_with_the_ids_of_their_series():
    series = pd.Series(TEXTS, index=[f"review {i}" for i in range(6)])
    data = du.Dataset(series, model().predict(TEXTS))
    space = du.Text(du.Synonyms({"good": ("bad", "dull"), "bad": ("good",)}), most=0.5,
                    antonyms=True)  # fmt: skip
    found = du.evaluate(model(), data, space=space, progress=False)
    assert found.table["id"].tolist() == series.index.tolist()
    won = found.table["success"].to_numpy()
    assert won.any() and not won.all()
    for text, now, success in zip(TEXTS, found.adversarial, won, strict=True):
        assert isinstance(now, str) and (now != text) == success
    frame = found.adversarial_frame()
    assert frame.index.tolist() == series.index[won].tolist()
    assert frame["text"].tolist() == series[won].tolist()
    assert frame["adversarial"].tolist() == found.adversarial[won].tolist()
    assert " -> " in frame["changed"].iloc[0]
