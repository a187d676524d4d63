"""Every claimed success on SST-5, looked at again as two strings by code that shares nothing."""

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.oracles.reviews import allowed

import durometer as du
from durometer.spaces import token_ids
from durometer.spaces.text import STOPWORDS

ORDER = ["very negative", "negative", "neutral", "positive", "very positive"]
HARM = {
    "less positive": lambda y, said: y >= 3 and said <= 2,
    "less negative": lambda y, said: y <= 1 and said >= 2,
    "more positive": lambda y, said: said > y,
    "more negative": lambda y, said: said < y,
}


@pytest.fixture(scope="module")
def pipeline():
    train = du.datasets.sst5().train.sample(2500)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=3, max_iter=200))
    return model.fit(token_ids.sentences(train.x), train.y.numpy())


@pytest.mark.parametrize("goal", HARM)
def test_what_is_claimed_holds_for_the_strings(pipeline, goal):
    reviews = du.datasets.sst5()
    data = reviews.test.sample(40)
    report = du.evaluate(
        pipeline, data, space=du.Text(), goal=reviews.goal(goal),
        attack=du.Then(du.Linear(), du.Greedy(), du.Beam(2)), progress=False,
    )  # fmt: skip
    before = token_ids.sentences(data.x)
    after = list(report.adversarial)
    said = pipeline.predict(after)
    changed = 0
    for i, row in enumerate(report.table.itertuples()):
        assert allowed(before[i], after[i], STOPWORDS), (before[i], after[i])
        if row.success:
            assert HARM[goal](int(data.y[i]), int(said[i])), (before[i], after[i])
            changed += before[i] != after[i]
        elif row.skipped == "":
            assert before[i] == after[i]
    assert changed > 0


def test_the_oracle_can_say_no():
    text = "a good film with a dull plot"
    assert allowed(text, text.replace("good", "just"), STOPWORDS)
    assert not allowed(text, text.replace("good", "table"), STOPWORDS)
    assert not allowed(text, "the" + text[1:], STOPWORDS)
    assert not allowed(text, text + " indeed", STOPWORDS)
    assert not allowed(text, text.replace("good", "bad"), STOPWORDS)
    assert not allowed("a good, film", "a just film", STOPWORDS)
    assert not allowed("a good film", "a just. film", STOPWORDS)
    assert allowed("a good, film", "a just, film", STOPWORDS)
    assert allowed("it shows us all", "it shows u.s. all", STOPWORDS)
