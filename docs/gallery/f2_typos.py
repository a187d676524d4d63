"""Typing errors

Candidates may be anything that stands for a word. Here: one letter dropped, doubled or swapped.
"""

# %%
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer.spaces.token_ids import sentences

reviews = du.datasets.sst5()
data = reviews.test.sample(30)
for name, unit in {"words": "word", "pieces of words": "char_wb"}.items():
    vectors = TfidfVectorizer(analyzer=unit, ngram_range=(1, 1) if unit == "word" else (2, 4))
    model = make_pipeline(vectors, LogisticRegression(C=3, max_iter=200))
    model.fit(sentences(reviews.train.x), reviews.train.y.numpy())
    report = du.evaluate(
        model, data, space=du.Text(du.Typos(), most=0.2), attack=du.Greedy(), progress=False
    )
    print(f"{name:16} clean {report.metric('clean').value:.2f}, robust {report.metric('robust')}")
