"""One case of a text: a model that counts words, `Linear`, and then every sentence near each."""

from __future__ import annotations

import itertools
import random
import sys
import warnings
from pathlib import Path

import numpy as np
from prosecution.judged import Count, verdicts
from prosecution.package import du
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.oracles.sentences import KEEP, neighbours

WORDS = ["good", "bad", "film", "dull", "clever", "plot", "the", "a", "is", "not", "fine", "great",
         "poor", "weak", "movie", "flick", "boring", "smart", "witty", "story"]  # fmt: skip
SYNONYMS = {"good": ("fine", "great"), "bad": ("poor", "weak"), "film": ("movie", "flick"),
            "dull": ("boring",), "clever": ("smart", "witty"), "plot": ("story", "xyz"),
}  # fmt: skip


class _Pairs(CountVectorizer):
    def build_analyzer(self):  # type: ignore[no-untyped-def]
        one = super().build_analyzer()
        return lambda d: one(d) + [f"{a}_{b}" for a, b in itertools.pairwise(one(d))]


class _Turned(LogisticRegression):
    def predict(self, x):  # type: ignore[no-untyped-def]
        return (self.predict_proba(x)[:, -1] > 0.3).astype(int)


TEXTS = {
    "counts, logistic": lambda: (CountVectorizer(), LogisticRegression()),
    "counts, binary, SVM": lambda: (CountVectorizer(binary=True), LinearSVC()),
    "tf-idf, SVM": lambda: (TfidfVectorizer(norm=None), LinearSVC()),
    "tf-idf L2, logistic": lambda: (TfidfVectorizer(), LogisticRegression(C=10)),
    "sublinear tf-idf, ridge": lambda: (TfidfVectorizer(sublinear_tf=True), RidgeClassifier()),
    "counts, tf-idf, ridge": lambda: (CountVectorizer(), TfidfTransformer(), RidgeClassifier()),
    "bigrams, logistic": lambda: (CountVectorizer(ngram_range=(1, 2)), LogisticRegression()),
    "overridden analyzer": lambda: (_Pairs(), LogisticRegression()),
    "overridden predict": lambda: (CountVectorizer(), _Turned()),
    "stop words": lambda: (CountVectorizer(stop_words=["the", "fine"]), LogisticRegression()),
}


def play(name: str, seed: int, count: int = 60) -> Count:
    r = random.Random(f"{name} {seed}")

    def texts(n: int) -> list[str]:
        return [" ".join(r.choice(WORDS) for _ in range(r.randint(2, 6))) for _ in range(n)]

    train, sentences = texts(200), texts(count)
    weight = {w: r.gauss(0, 1) for w in WORDS}
    y = [int(sum(weight[w] for w in t.split()) > 0) for t in train]
    most = r.choice([0.25, 0.4, 0.6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(*TEXTS[name]()).fit(train, y)
        answer = model.predict(sentences)
    space = du.Text(du.Synonyms(SYNONYMS), most=most, keep=KEEP)
    sure, why = verdicts(model, du.Dataset(sentences, answer), space=space, attack=du.Linear())
    found = Count(rows=count, cases=1, refused=bool(why), said=why, proven=int(sure.sum()))
    for k in np.flatnonzero(sure):
        near = list(neighbours(sentences[k], SYNONYMS, most))
        found.points += len(near)
        found.wrong += bool((model.predict(near) != answer[k]).any())
    if found.wrong:
        found.fallen = str(seed)
    return found
