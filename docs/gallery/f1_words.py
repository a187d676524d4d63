"""Swapping words for synonyms

A sentiment pipeline as many deploy it. Which reviews can be turned by at most a quarter of their
words? Every sentence ends broken, proven or open.
"""

# %%
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import assay as ay
from assay.spaces.words import sentences

reviews = ay.datasets.sst5()
model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=3, max_iter=200))
model.fit(sentences(reviews.train.x), reviews.train.y.numpy())
report = ay.evaluate(
    model, reviews.test.sample(40), space=ay.Text(ay.Synonyms(), most=0.25),
    goal=reviews.goal("more negative"),
    attack=ay.Then(ay.Linear(), ay.Greedy(), ay.Enumerate(5000)),
    progress=False,
)  # fmt: skip
print(report)
