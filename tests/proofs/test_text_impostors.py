"""Text models that derive from one we can read but answer otherwise: no proof, or predict's own."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC
from tests.oracles.sentences import KEEP, neighbours

import durometer as du
from durometer.architectures.text import TextCNN, TextLSTM
from durometer.proofs.linear import Linear
from durometer.training import fresh

TABLE = {"good": ("fine", "great"), "bad": ("poor", "weak"), "film": ("movie", "flick"),
         "dull": ("boring",), "clever": ("smart", "witty"), "plot": ("story", "xyz")}  # fmt: skip
WORDS = ["good", "bad", "film", "dull", "clever", "plot", "the", "a", "is", "not", "fine", "great",
         "poor", "weak", "movie", "flick", "boring", "smart", "witty", "story"]  # fmt: skip
SPACE = du.Text(du.Synonyms(TABLE), most=0.4, keep=KEEP)


def texts(n, seed, long=7):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, long))) for _ in range(n)]


def train(*steps, pipeline=None, classes=2):
    rows = texts(150, 0)
    score = [sum(WORDS.index(w) % 7 for w in t.split()) for t in rows]
    cut = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    made = (
        make_pipeline(*steps)
        if pipeline is None
        else pipeline(list(zip("abc", steps, strict=False)))
    )
    return made.fit(rows, np.digitize(score, cut))


class Pairs:
    """Also counts pairs of neighbours, which its settings do not say."""

    def build_analyzer(self):
        one = super().build_analyzer()
        return lambda text: [*one(text), *(f"{a}_{b}" for a, b in pairwise(one(text)))]


class PairTfidf(Pairs, TfidfVectorizer):
    pass


class PairCount(Pairs, CountVectorizer):
    pass


class Contrary(LogisticRegression):
    def predict(self, x):
        return np.where(self.predict_proba(x)[:, 1] > 0.9, self.classes_[1], self.classes_[0])


class OwnPipeline(Pipeline):
    def predict(self, x):
        return 1 - super().predict(x)


def shadowed():
    model = train(CountVectorizer(), LogisticRegression())
    model[0].build_analyzer = lambda: str.split
    return model


REFUSED = {
    "TfidfVectorizer subclass": (lambda: train(PairTfidf(), LogisticRegression()), "PairTfidf"),
    "CountVectorizer subclass": (
        lambda: train(PairCount(), TfidfTransformer(), LogisticRegression()), "PairCount"),
    "two Tfidfs": (lambda: train(TfidfVectorizer(), TfidfTransformer(), LogisticRegression()),
                   "TfidfVectorizer"),
    "hashing": (lambda: train(HashingVectorizer(n_features=64), TfidfTransformer(),
                              LogisticRegression()), "HashingVectorizer"),
    "own predict": (lambda: train(CountVectorizer(), Contrary()), "Contrary"),
    "own pipeline": (lambda: train(CountVectorizer(), LogisticRegression(),
                                   pipeline=OwnPipeline), "OwnPipeline"),
    "method replaced": (shadowed, "build_analyzer"),
    "one against one": (lambda: train(CountVectorizer(), SVC(kernel="linear"), classes=3), "SVC"),
    "threshold": (lambda: train(CountVectorizer(), FixedThresholdClassifier(
        LogisticRegression(), threshold=0.1)), "FixedThresholdClassifier"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_only_looks_like_a_sum_over_words_is_refused_by_name(kind):
    make, name = REFUSED[kind]
    model = make()
    rows = texts(5, 1)
    data = du.Dataset(rows, model.predict(rows))
    with pytest.raises(du.Unsupported, match=name):
        du.evaluate(model, data, space=SPACE, attack=Linear(), progress=False)


DECIDED = {
    "threshold": lambda: train(
        CountVectorizer(), FixedThresholdClassifier(LogisticRegression(), threshold=0.1)
    ),
    "tuned": lambda: train(
        CountVectorizer(),
        TunedThresholdClassifierCV(LogisticRegression(), scoring="precision", cv=3),
    ),
    "own predict": lambda: train(CountVectorizer(), Contrary()),
    "own pipeline": lambda: train(CountVectorizer(), LogisticRegression(), pipeline=OwnPipeline),
    "analyzer": lambda: train(PairTfidf(), LogisticRegression()),
    "sparse coefficients": lambda: train(CountVectorizer(), SVC(kernel="linear")),
    "one against one": lambda: train(CountVectorizer(), SVC(kernel="linear"), classes=3),
    "a score for each pair": lambda: train(
        CountVectorizer(), SVC(kernel="linear", decision_function_shape="ovo"), classes=4
    ),
    "hashing": lambda: train(
        HashingVectorizer(n_features=64), TfidfTransformer(), LogisticRegression()
    ),
    "outside": lambda: du.wrap(
        FixedThresholdClassifier(train(CountVectorizer(), LogisticRegression()), threshold=0.1).fit(
            texts(150, 0), train(CountVectorizer(), LogisticRegression()).predict(texts(150, 0))
        ),
        inputs="text",
    ),
}


@pytest.mark.parametrize("kind", DECIDED)
def test_the_default_decides_what_predict_decides(kind):
    model = DECIDED[kind]()
    rows = texts(60, 1)
    own = model.source if kind == "outside" else model
    y = own.predict(rows)
    report = du.evaluate(model, du.Dataset(rows, y), space=SPACE, progress=False)
    told = {"broken": 0, "proven": 0}
    for text, label, verdict in zip(rows, y, report.table["verdict"], strict=True):
        truth = bool((own.predict(sorted(neighbours(text, TABLE, 0.4))) != label).any())
        assert verdict == ("broken" if truth else "proven"), text
        told[verdict] += 1
    assert min(told.values()) > 0


class MaskedNot(TextCNN):
    """Another reading of the same weights."""

    def forward(self, x):
        return -super().forward(x)


class LSTMNot(TextLSTM):
    def forward(self, x):
        return -super().forward(x)


class Nothing(TextCNN):
    """Overrides nothing; what it inherits may still change tomorrow."""


def cnn(kind=TextCNN):
    return fresh(lambda: kind(classes=2, filters=4), 0).eval()


def hooked(before=False):
    net = cnn()
    if before:
        net.last.register_forward_pre_hook(lambda _m, inputs: (-inputs[0],))
    else:
        net.register_forward_hook(lambda _m, _i, out: -out)
    return net


def replaced():
    net = cnn()
    net.forward = lambda x: -TextCNN.forward(net, x)
    return net


def other_part():
    net = cnn()
    net.last = torch.nn.utils.parametrizations.weight_norm(net.last)
    return net


def strided():
    net = cnn()
    net.convs[0].dilation = (2,)
    return net


IMPOSTORS = {
    "own forward": lambda: cnn(MaskedNot),
    "own forward, LSTM": lambda: fresh(lambda: LSTMNot(classes=2, hidden=4), 0).eval(),
    "subclass": lambda: cnn(Nothing),
    "hook": hooked,
    "hook before a part": lambda: hooked(before=True),
    "forward replaced": replaced,
    "a part of another kind": other_part,
    "other convolution": strided,
}


@pytest.mark.parametrize("kind", IMPOSTORS)
def test_a_network_that_only_inherits_its_bounds_is_not_proven_by_them(kind):
    net, rows = IMPOSTORS[kind](), texts(6, 2)
    y = du.wrap(net).logits(du.Dataset(rows, [0] * 6).x).argmax(1).numpy()
    data = du.Dataset(rows, y)
    with pytest.raises(du.Unsupported, match="TextCNN and TextLSTM themselves"):
        du.evaluate(net, data, space=SPACE, attack=du.Bounds(), progress=False)


def test_the_networks_themselves_still_are():
    for net in (cnn(), fresh(lambda: TextLSTM(classes=2, hidden=4), 0).eval()):
        rows = texts(6, 2)
        y = du.wrap(net).logits(du.Dataset(rows, [0] * 6).x).argmax(1).numpy()
        report = du.evaluate(
            net, du.Dataset(rows, y), space=SPACE, attack=du.Bounds(), progress=False
        )
        assert (report.table["verdict"] == "proven").any()


class Unmasked(torch.nn.Module):
    """The mean over all places, padding among them: padded it answers otherwise."""

    vocabulary = ("<pad>", "<unk>", *WORDS, "xyz")

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(len(self.vocabulary), 6)
        self.last = torch.nn.Linear(6, 3)

    def forward(self, ids):
        return self.last(self.embedding(ids).mean(1))


@pytest.mark.parametrize("attack", [du.Greedy(), du.APGD(5), None])
def test_a_network_that_reads_padding_is_judged_on_the_sentence_alone(attack):
    net, rows = Unmasked().eval(), texts(80, 3, long=12)
    place = {w: i for i, w in enumerate(net.vocabulary)}

    def alone(text):
        with torch.no_grad():
            return int(net(torch.tensor([[place.get(w, 1) for w in text.split(" ")]])).argmax())

    y = [alone(t) for t in rows]
    more = {} if attack is None else {"attack": attack}
    report = du.evaluate(net, du.Dataset(rows, y), space=SPACE, progress=False, **more)
    assert report.table["clean"].tolist() == y
    broken = 0
    for text, label, found, row in zip(
        rows, y, report.adversarial, report.table.itertuples(), strict=True
    ):
        if row.success:
            broken += 1
            assert alone(found) == row.final != label
        elif row.verdict == "proven":
            assert all(alone(t) == label for t in neighbours(text, TABLE, 0.4))
    assert broken
