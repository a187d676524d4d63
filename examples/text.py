"""A sentiment pipeline as many deploy it: which reviews can be turned by swapping synonyms?

    python examples/text.py

Every row ends broken, proven or open: linear text models by sorting, the rest by looking at every
sentence that may be written.
"""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer.spaces.token_ids import sentences

reviews = du.datasets.sst5()
model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=3, max_iter=300))
model.fit(sentences(reviews.train.x), reviews.train.y.numpy())

report = du.evaluate(
    model,
    reviews.test.sample(100),
    space=du.Text(du.Synonyms(), most=0.25),
    goal=reviews.goal("more negative"),
    attack=du.Then(du.Linear(), du.Greedy(), du.Enumerate(20_000)),
)
print(report)  # the sentences before and after stand below the table
