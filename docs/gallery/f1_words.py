"""Swapping words for synonyms

A sentiment pipeline as many deploy it. Which reviews can be turned by at most a quarter of their
words? Every sentence ends broken, proven or open.
"""

# %%
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer.spaces.token_ids import sentences

reviews = du.datasets.sst5()
model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=3, max_iter=200))
model.fit(sentences(reviews.train.x), reviews.train.y.numpy())
report = du.evaluate(
    model, reviews.test.sample(40), space=du.Text(du.Synonyms(), most=0.25),
    goal=reviews.goal("more negative"),
    attack=du.Then(du.Linear(), du.Greedy(), du.Enumerate(5000)),
    progress=False,
)  # fmt: skip
print(report)
