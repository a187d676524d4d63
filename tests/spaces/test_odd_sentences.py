"""Sentences as people have them: columns with holes, emoji, no words at all, makers gone wrong."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer.architectures.text import TextCNN, TextLSTM, TextTransformer
from durometer.spaces import token_ids

GOOD = ["a good clever film", "an excellent funny movie", "great fun and a fine story"]
BAD = ["a dull film", "a bad boring movie", "terrible and awful plot"]
NO_CHOICE = ["", "a", "xyzzy plugh", "😀"]  # nothing in them has a synonym


@pytest.fixture(scope="module")
def pipeline():
    made = make_pipeline(TfidfVectorizer(), LogisticRegression())
    return made.fit(GOOD + BAD, ["nice"] * 3 + ["poor"] * 3)


def evaluated(model, texts, space=None, attack=None):
    data = du.Dataset(texts, du.wrap(model).logits(token_ids.encode(texts)).argmax(1))
    rest = {} if attack is None else {"attack": attack}
    return du.evaluate(model, data, space=space or du.Text(), progress=False, **rest)


@pytest.mark.parametrize("kind", [TextCNN, TextLSTM, TextTransformer])
@pytest.mark.parametrize(
    "attack",
    [None, du.Greedy(), du.Greedy("importance"), du.Beam(2), du.HotFlip(3), du.Graft(50),
     du.MOEVA(generations=2, population=6, offspring=4), du.PGD(2), du.APGD(2)],
    ids=lambda a: "default" if a is None else type(a).__name__,
)  # fmt: skip
def test_where_nothing_can_change_no_attack_succeeds_or_fails_to_end(kind, attack):
    net = du.training.fresh(lambda: kind(classes=2), 0).eval()
    report = evaluated(net, NO_CHOICE, attack=attack)
    assert not report.table["success"].any()
    if attack is None:
        assert set(report.table["verdict"]) == {"proven"}


def test_odd_strings_are_judged_like_any_other(pipeline):
    odd = [
        "",
        "  ",
        "good  film",
        "😀 good 😀",
        "Good, film!",
        "\u200b",
        "a\tgood\nfilm",
        "ＧＯＯＤ",
    ]
    report = evaluated(pipeline, odd)
    after = report.adversarial.tolist()
    said, was = pipeline.predict(after), pipeline.predict(odd)
    assert set(report.table["verdict"]) <= {"broken", "proven"}
    assert report.table["success"].any()
    assert (report.table["success"] == (said != was)).all()


def test_signs_around_a_word_do_not_hide_its_vector():
    from durometer.architectures.text.words import WordInput

    vectors, _ = WordInput()(token_ids.encode(['"Good, film!', "good film"]))
    assert torch.equal(vectors[0], vectors[1])
    assert bool(vectors[0].any(1).all())


def test_a_column_of_a_frame_is_a_list_of_sentences(pipeline):
    frame = pd.DataFrame({"review": ["a good film", "a dull film"], "y": ["nice", "poor"]}, [7, 3])
    for x in (frame["review"], frame["review"].to_numpy(), tuple(frame["review"]),
              np.array(["a good film", "a dull film"])):  # fmt: skip
        data = du.Dataset(x, frame["y"])
        assert token_ids.sentences(data.x) == ["a good film", "a dull film"]
        assert list(data.classes) == ["nice", "poor"]


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: du.Dataset(["good", float("nan")], [0, 1]), "row 1 is nan"),
        (lambda: du.Dataset(pd.Series(["good", None, "bad"]), [0, 1, 1]), "row 1 is (None|nan)"),
        (lambda: du.Dataset("a good film", [0]), "one string"),
        (lambda: du.Dataset(["a \ud800 film"], [0]), "no Unicode"),
        (lambda: du.Text(keep=None), r"keep=None\): expected"),
        (lambda: du.Text(keep="the"), r"keep='the'\): expected a list of words"),
        (lambda: du.Text(most="0.25"), r"most='0.25'\): expected a number"),
        (lambda: du.Text(most=True), r"most=True\): expected a number"),
        (lambda: du.Text(similarity="USE"), r"similarity='USE'\): expected a Similarity"),
        (lambda: du.Text(least="high"), r"least='high'\): expected a number"),
        (lambda: du.Synonyms({"good": "fine"}), "'good' has 'fine'; expected a list of words"),
        (lambda: du.Synonyms({"good": (1, 2)}), "'good' has 1"),
        (lambda: du.Synonyms(["good"]), "expected a table"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_given(make, said):
    with pytest.raises(du.DurometerError, match=said):
        make()


@pytest.mark.parametrize(
    "space, said",
    [
        (du.Text(lambda found: [("x",)]), "1 lists of candidates for 4 words"),
        (du.Text(lambda found: None), "gave None"),
        (du.Text(lambda found: ["bad"] * len(found)), "'bad' for the word 'a'"),
        (du.Text(lambda found: [(1,)] * len(found)), "1 for the word 'a'"),
        (du.Text(similarity=lambda a, b: 0.9), r"shape \(\) for 2 pairs"),
        (du.Text(similarity=lambda a, b: [0.9]), r"shape \(1,\) for 2 pairs"),
        (du.Text(similarity=lambda a, b: [float("nan")] * len(a)), "nan for 'a good clever film'"),
        (du.Linf(0.1), "sentences"),
    ],
)
def test_makers_and_measures_that_answer_something_else_are_refused(pipeline, space, said):
    if isinstance(space, du.Text) and space.similarity is None:
        object.__setattr__(space, "keep", ())
    with pytest.raises(du.DurometerError, match=said):
        evaluated(pipeline, ["a good clever film", "a dull film"], space=space)


def test_what_is_no_sentence_and_what_is_not_fitted_is_refused(pipeline):
    with pytest.raises(du.DurometerError, match="sentences"):
        du.evaluate(pipeline, du.Dataset(np.zeros((2, 3)), [0, 1]), space=du.Text())
    unfitted = make_pipeline(TfidfVectorizer(), LogisticRegression())
    with pytest.raises(du.DurometerError, match="not fitted"):
        du.evaluate(unfitted, du.Dataset(GOOD, [0, 1, 1]), space=du.Text())


def test_without_gradients_the_searches_for_words_are_named(pipeline):
    with pytest.raises(du.Unsupported, match="Greedy or Beam"):
        evaluated(pipeline, ["a good film"], attack=du.PGD(2))


def test_a_long_text_does_not_cost_a_query_for_every_pair_of_words():
    space = du.Text(du.Synonyms({"good": ("fine", "great")}), keep=())
    never = du.wrap(lambda texts: np.array([[1.0, 0.0]] * len(texts)), inputs="text")
    texts = [" ".join(["good"] * 400), "good film"]
    report = du.evaluate(never, du.Dataset(texts, [0, 0]), space=space, progress=False)
    assert report.table["verdict"].tolist() == ["open", "proven"]
    assert report.table["forwards"].max() < 5_000


@pytest.mark.parametrize(
    "x", [None, 3.0, np.float64(3), np.array("text"), torch.tensor(1.0), iter(["a"])]
)
def test_what_is_no_list_at_all_is_refused_like_before(x):
    with pytest.raises(du.DurometerError):
        du.Dataset(x, [0])


def test_sparse_tables_are_not_taken_for_sentences():
    from scipy.sparse import csr_matrix

    with pytest.raises(du.DurometerError):
        du.Dataset(csr_matrix(np.eye(3)), [0, 1, 1])
