"""Sentences as a space: judged from the strings alone, searched by attacks that know no text."""

import itertools

import numpy as np
import pytest
import torch
from tests.oracles.sentences import KEEP, neighbours

import durometer as du
from durometer.attacks.sequences.substitute import Beam, Greedy
from durometer.core.streams import Stream
from durometer.model.text import strings
from durometer.spaces import token_ids
from durometer.spaces.candidates import Neighbours, Synonyms, Typos
from durometer.spaces.discrete import RelaxedTokens
from durometer.spaces.lexicon import Vectors
from durometer.spaces.similarity import Centroid
from durometer.spaces.text import Text
from durometer.testing import check_space

TABLE = {
    "good": ("fine", "great"),
    "bad": ("poor", "weak"),
    "film": ("movie", "picture", "flick"),
    "dull": ("boring",),
    "clever": ("smart", "witty"),
}
TEXTS = [
    "a good film",
    "the film is not bad",
    "a clever and good film , not a dull picture",
    "dull",
    "a bad , bad film",
    "the good the bad the dull",
]
WEIGHT = {"good": 1, "fine": 0.2, "great": 1.5, "bad": -1, "poor": -0.4, "weak": -1.2, "film": 0.1,
          "movie": -0.1, "picture": 0.3, "flick": -0.6, "dull": -0.9, "boring": -0.3, "clever": 0.8,
          "smart": 0.5, "witty": -0.2, "not": -0.3}  # fmt: skip


def space(most=0.4):
    return Text(Synonyms(TABLE, at_most=9), most=most, keep=KEEP)


def score(texts):
    """Not linear: two words next to each other count twice."""
    values = []
    for text in texts:
        w = [WEIGHT.get(word, 0.0) for word in text.split(" ")]
        values.append(sum(w) + sum(a * b for a, b in itertools.pairwise(w)))
    return torch.tensor(values)[:, None] * torch.tensor([[-0.5, 0.5]])


def data():
    x = token_ids.encode(TEXTS)
    return du.Dataset(x, score(TEXTS).argmax(1).numpy())


def broken_by_hand(most):
    truth = []
    for text in TEXTS:
        label = int(score([text]).argmax())
        truth.append(any(int(score([t]).argmax()) != label for t in neighbours(text, TABLE, most)))
    return np.array(truth)


def test_any_string_survives():
    odd = ["", " ", "two  blanks", "tab\tand\nline", "naïve — “quoted”,", "a"]
    assert token_ids.sentences(token_ids.encode(odd)) == odd


def test_the_region_holds_exactly_the_sentences_that_may_be_written():
    region = space().around(token_ids.encode(TEXTS))
    for i, text in enumerate(TEXTS):
        allowed = set(neighbours(text, TABLE, 0.4))
        tried = allowed | set(neighbours(text, TABLE, 1.0)) | {text.replace("film", "song")}
        width = region.x0.shape[1]
        for other in sorted(tried):
            x = torch.zeros(1, width, dtype=torch.float64)
            ids = token_ids.encode([other])
            x[:, : ids.shape[1]] = ids
            assert bool(region.take(torch.tensor([i])).contains(x)) == (other in allowed), other


def test_the_contract_of_a_space():
    check_space(space(), token_ids.encode(TEXTS))


@pytest.mark.parametrize(
    "attack",
    [Greedy(), Greedy("importance"), Beam(3), du.Graft(400), du.Worst(Greedy(), Beam(2)),
     du.MOEVA(generations=10, population=12, offspring=10)],
)  # fmt: skip
def test_searches_claim_only_what_may_be_written_and_flips_the_answer(attack):
    model = strings(score, "callable score")
    report = du.evaluate(model, data(), space=space(), attack=attack, progress=False)
    found = report.adversarial.tolist()
    truth = broken_by_hand(0.4)
    for text, other, won in zip(TEXTS, found, report.table["success"], strict=True):
        if won:
            assert other in set(neighbours(text, TABLE, 0.4))
            assert int(score([other]).argmax()) != int(score([text]).argmax())
    assert not (report.table["success"].to_numpy() & ~truth).any()
    if isinstance(attack, Beam):
        assert (report.table["success"].to_numpy() == truth).all()


def in_pairs(texts):
    """ "a" is worth most by itself, "b" and "c" only together."""
    worth = {"a": 0.6, "b": 0.3}
    values = []
    for text in texts:
        found = set(text.split(" "))
        values.append(sum(worth.get(w, 0.0) for w in found) + 0.8 * ({"b", "c"} <= found) - 1.0)
    return torch.tensor(values)[:, None] * torch.tensor([[-0.5, 0.5]])


@pytest.mark.parametrize("order", ["gain", "importance"])
def test_a_swap_finds_the_pair_that_one_pass_walks_past(order):
    table = {"x": ("a",), "y": ("b",), "z": ("c",)}
    data = du.Dataset(["x y z", "x z y"], [0, 0])
    near = Text(Synonyms(table), most=0.7, keep=())
    model = strings(in_pairs, "callable pairs")

    def won(swaps):
        attack = Greedy(order, swaps=swaps)
        return du.evaluate(model, data, space=near, attack=attack, progress=False)

    assert not won(0).table["success"].any()
    assert not won(1).table["success"].any()  # the change that matters less does not help
    report = won(2)
    assert report.adversarial.tolist() == ["x b c", "x c b"]


class Bag(torch.nn.Module):
    """A network on words: the mean of their vectors, and one layer."""

    reads_symbols = True

    def __init__(self):
        super().__init__()
        from durometer.architectures.text.words import WordInput

        table = np.array([[w, abs(w)] for w in WEIGHT.values()], dtype=np.float32)
        self.words = WordInput(Vectors(tuple(WEIGHT), table))
        self.last = torch.nn.Linear(2, 2)
        with torch.no_grad():
            self.last.weight[:] = torch.tensor([[-1.0, 0.1], [1.0, 0.0]])
            self.last.bias.zero_()

    def forward(self, x):
        vectors, there = self.words(x)
        return self.last((vectors * there[..., None]).sum(1) / there.sum(1, keepdim=True))


def test_gradients_pass_through_the_choice_and_leave_the_answer_alone():
    from durometer.model.text import word_module

    model, x = word_module(Bag()), token_ids.encode(TEXTS)
    region = space().around(x)
    z = region.random(Stream(0, torch.arange(len(x))), torch.arange(len(x))).requires_grad_()
    chosen = region.decode(z)
    assert isinstance(chosen, RelaxedTokens) and type(chosen + 0) is torch.Tensor
    with torch.enable_grad():
        out = model.logits(chosen)
    assert torch.equal(out, model.logits(chosen.detach()))
    (grad,) = torch.autograd.grad(out[:, 1].sum(), z)
    # A linear model: the gradient of an option's weight is what the option would add.
    i, place, slot = 0, 2, 1  # "film" -> "movie"
    k = region.options.shape[2]
    of = grad.reshape(len(x), -1, k)[i, place]
    expected = (WEIGHT["movie"] - WEIGHT["film"]) / 3
    assert float(of[slot] - of[0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("attack", [du.PGD(20), du.APGD(20), du.Escalation(20), du.FGSM()])
def test_gradient_attacks_work_unchanged(attack):
    from durometer.model.text import word_module

    model = word_module(Bag())
    x = token_ids.encode(TEXTS)
    y = model.logits(x).argmax(1)
    report = du.evaluate(
        model, du.Dataset(x, y.detach().numpy()), space=space(), attack=attack, progress=False
    )
    assert report.table["valid"].all()
    if not isinstance(attack, du.FGSM):
        truth = [
            any(int(model.logits(token_ids.encode([t])).argmax()) != label
                for t in neighbours(text, TABLE, 0.4))
            for text, label in zip(TEXTS, y.tolist(), strict=True)
        ]  # fmt: skip
        assert report.table["success"].tolist() == truth


def test_candidates():
    assert Synonyms(TABLE)(["Good,", "xyz"]) == [("Fine,", "Great,"), ()]
    vectors = Vectors(("a", "b", "c"), np.array([[1, 0], [0.9, 0.1], [0, 1]], dtype=np.float32))
    assert Neighbours(vectors, least=0.5)(["a", "c", "?"]) == [("b",), (), ()]
    edits = Typos()(["film", "at"])
    assert "flim" in edits[0] and "fim" in edits[0] and "f1lm" in edits[0] and edits[1] == ()
    assert all(w[0] == "f" and w[-1] == "m" for w in edits[0])


def test_a_word_does_not_turn_into_the_opposite_of_its_neighbours():
    table = {"good": ("bad", "fine")}
    region = Text(Synonyms(table), most=1.0, keep=()).around(token_ids.encode(["good film"]))
    assert not bool(region.contains(token_ids.encode(["bad film"])))
    free = Text(Synonyms(table), most=1.0, keep=(), antonyms=True)
    assert bool(
        free.around(token_ids.encode(["good film"])).contains(token_ids.encode(["bad film"]))
    )


def test_similarity_has_a_floor():
    near = Text(Synonyms(TABLE), most=1.0, keep=KEEP, similarity=Centroid(), least=0.9999)
    region = near.around(token_ids.encode(["a good film"]))
    assert bool(region.contains(token_ids.encode(["a good film"])))
    assert not bool(region.contains(token_ids.encode(["a fine flick"])))


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Text(most=2), "most=2.*at most 1"),
        (lambda: Text(Synonyms), r"Synonyms\(\)"),
        (lambda: Typos(kinds=("swop",)), "kinds=.*swop"),
        (lambda: Greedy("gane"), "expected one of"),
        (lambda: du.datasets.sst5().goal("more posit"), "did you mean"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(du.DurometerError, match=said):
        make()


def test_greedy_wants_sequences():
    net, x = torch.nn.Linear(3, 2), torch.rand(4, 3)
    net.bias.data[:] = torch.tensor([9.0, 0.0])
    with pytest.raises(du.Unsupported, match=r"du\.Text"):
        du.evaluate(
            net, du.Dataset(x, [0] * 4), space=du.Linf(0.1), attack=Greedy(), progress=False,
            goal=du.Targeted(1),
        )  # fmt: skip


def test_sentences_make_a_data_set_and_a_pipeline_reads_them():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    labels = ["nice" if "good" in text else "bad" for text in TEXTS]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, labels)
    report = du.evaluate(
        model, du.Dataset(TEXTS, labels), space=space(), attack=Beam(2), progress=False
    )
    own = model.predict(report.adversarial.tolist())
    flipped = own != np.array(labels)
    right = report.table["clean"].to_numpy() == report.table["y"].to_numpy()
    assert right.all() and report.table["success"].any()
    assert (flipped == report.table["success"].to_numpy()).all()


def test_a_function_of_strings_is_wrapped_by_saying_so():
    model = du.wrap(score, inputs="text", name="toy")
    report = du.evaluate(model, data(), space=space(), attack=Greedy(), progress=False)
    assert report.metric("clean").value == 1.0


@pytest.mark.parametrize("gradients", [False, True])
def test_without_an_attack_every_row_ends_broken_or_proven(gradients):
    from durometer.model.text import word_module

    model = word_module(Bag()) if gradients else strings(score, "callable score")
    y = model.logits(token_ids.encode(TEXTS)).argmax(1).tolist()
    report = du.evaluate(model, du.Dataset(TEXTS, y), space=space(), progress=False)
    truth = [
        any(int(model.logits(token_ids.encode([t])).argmax()) != label
            for t in neighbours(text, TABLE, 0.4))
        for text, label in zip(TEXTS, y, strict=True)
    ]  # fmt: skip
    assert report.table["verdict"].tolist() == ["broken" if b else "proven" for b in truth]


def test_a_file_names_the_similarity(tmp_path):
    from durometer.config.config import parse

    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Letters:\n"
        "    measures = 'shared letters'\n"
        "    weight: float = 1.0\n"
        "    def __call__(self, first, second):\n"
        "        pairs = zip(first, second)\n"
        "        return [self.weight * len(set(a) & set(b)) / len(set(a)) for a, b in pairs]\n"
    )
    start = 'data.name = "sst5"\nmodel.python = "own.py:net"\n[space]\ntype = "Text"\nleast = 0.9\n'
    near = parse(start + 'similarity = {type = "Centroid"}', tmp_path / "run.toml").space
    assert isinstance(near.similarity, Centroid) and near.least == 0.9
    own = parse(
        start + 'similarity = {type = "own.py:Letters", weight = 0.5}', tmp_path / "run.toml"
    )
    region = own.space.around(token_ids.encode(["a good film"]))
    assert not bool(region.contains(token_ids.encode(["a good film"])))  # half of all letters
    with pytest.raises(du.DurometerError, match="did you mean 'Centroid'"):
        parse(start + 'similarity = {type = "Centrod"}', tmp_path / "run.toml")


def test_a_similarity_is_written_to_the_spec_and_read_back():
    from durometer.config.build import build
    from durometer.core.serialization import to_dict

    near = Text(similarity=Centroid(), least=0.7)
    again = build("spaces", to_dict(near))
    assert isinstance(again.similarity, Centroid) and repr(again) == repr(near)
