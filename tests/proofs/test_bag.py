"""Linear text models: the sorted gains give what looking at every sentence gives."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from tests.oracles.sentences import KEEP, neighbours

import durometer as du
from durometer.proofs.linear import Linear

TABLE = {"good": ("fine", "great"), "bad": ("poor", "weak"), "film": ("movie", "flick"),
         "dull": ("boring",), "clever": ("smart", "witty"), "plot": ("story", "xyz")}  # fmt: skip
WORDS = ["good", "bad", "film", "dull", "clever", "plot", "the", "a", "is", "not", "fine", "great",
         "poor", "weak", "movie", "flick", "boring", "smart", "witty", "story"]  # fmt: skip


def texts(n, seed, long=7):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, long))) for _ in range(n)]


def fitted(steps, classes):
    train = texts(150, 0)
    score = [sum(WORDS.index(w) % 7 for w in t.split()) for t in train]
    cut = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return make_pipeline(*steps).fit(train, np.digitize(score, cut))


MODELS = [
    (CountVectorizer(), LogisticRegression()),
    (TfidfVectorizer(norm=None), LinearSVC()),
    (TfidfVectorizer(), LogisticRegression(C=10)),
    (CountVectorizer(), TfidfTransformer(), RidgeClassifier()),
]


@pytest.mark.parametrize("steps", MODELS, ids=lambda s: "-".join(type(t).__name__ for t in s))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("targeted", [False, True])
def test_broken_and_proven_are_what_all_sentences_say(steps, classes, targeted):
    model = fitted(steps, classes)
    sentences = texts(60, 1)
    y = model.predict(sentences)
    goal = du.Targeted(0) if targeted else du.Untargeted()
    report = du.evaluate(
        model, du.Dataset(sentences, y), space=du.Text(du.Synonyms(TABLE), most=0.4, keep=KEEP),
        goal=goal, attack=Linear(), progress=False,
    )  # fmt: skip
    exact = (steps[0].__class__ is CountVectorizer and len(steps) == 2) or (
        getattr(steps[0], "norm", "l2") is None
    )
    decided = played = 0
    for text, label, verdict, skipped in zip(
        sentences, y, report.table["verdict"], report.table["skipped"], strict=True
    ):
        if skipped:
            continue
        said = model.predict(sorted(neighbours(text, TABLE, 0.4)))
        truth = bool((said == 0).any()) if targeted else bool((said != label).any())
        assert verdict in (("broken", "open") if truth else ("proven", "open")), text
        if exact and (classes == 2 or not targeted):
            assert verdict != "open", text
        played, decided = played + 1, decided + (verdict != "open")
    assert decided > (0.5 if exact else 0.2) * played


@pytest.mark.parametrize(
    "steps",
    [
        (CountVectorizer(ngram_range=(1, 2)), LogisticRegression()),
        (CountVectorizer(binary=True), LogisticRegression()),
        (TfidfVectorizer(sublinear_tf=True), LogisticRegression()),
        (TfidfVectorizer(analyzer="char"), LogisticRegression()),
    ],
)
def test_what_is_no_sum_over_words_is_refused(steps):
    model = fitted(steps, 2)
    data = du.Dataset(texts(5, 1), model.predict(texts(5, 1)))
    with pytest.raises(du.Unsupported, match="counts single words"):
        du.evaluate(model, data, space=du.Text(du.Synonyms(TABLE)), attack=Linear(), progress=False)
