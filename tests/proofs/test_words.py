"""Bounds over sets of sentences: what is proven is listed, and bounds hold for every sentence."""

import pytest
import torch
from tests.oracles.sentences import KEEP, neighbours

import durometer as du
from durometer.architectures.text import TextCNN, TextLSTM, TextTransformer
from durometer.proofs.text.search import read
from durometer.spaces import token_ids
from durometer.training import fresh

TABLE = {
    "good": ("fine", "great", "solid"),
    "bad": ("poor", "weak"),
    "film": ("movie", "picture", "flick"),
    "dull": ("boring",),
    "clever": ("smart", "witty", "bright"),
}
TEXTS = [
    "a good film",
    "the film is not bad",
    "a clever and good film , not a dull picture",
    "dull",
    "a bad , bad film",
    "the good the bad the dull",
    "nothing can change here",
]
SPACE = du.Text(du.Synonyms(TABLE, at_most=9), most=0.5, keep=KEEP)


def network(kind, seed):
    """Random weights that are large enough for answers to change."""
    small = {"filters": 6} if kind is TextCNN else {"hidden": 5}
    net = fresh(lambda: kind(classes=4, **small), seed).double().eval()
    with torch.no_grad():
        for name, p in net.named_parameters():
            if "embedding" not in name:
                p.mul_(3.0 if kind is TextCNN else 1.5)
    return net


def answers(net, texts):
    with torch.no_grad():
        return net(token_ids.encode(list(texts)))


@pytest.mark.parametrize("kind", [TextCNN, TextLSTM])
@pytest.mark.parametrize("seed", range(3))
def test_every_sentence_of_a_set_stays_below_its_bound(kind, seed):
    net = network(kind, seed)
    region = SPACE.around(token_ids.encode(TEXTS))
    spec = torch.randn(len(TEXTS), 5, 4, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(seed))  # fmt: skip
    with torch.no_grad():
        held = read(net, region)
        whole = held.whole()
        slots, free = whole.slots, whole.free
        every = torch.arange(len(TEXTS))
        found = net.highest(held.hull(every, slots, free, region.most), spec)
        alone = net.highest(held.hull(every, slots, free & False, region.most), spec)
    own = torch.einsum("nmc,nc->nm", spec, answers(net, TEXTS))
    assert torch.allclose(alone.lead, own)  # a single sentence: no bound, its value
    for i, text in enumerate(TEXTS):
        said = answers(net, neighbours(text, TABLE, 0.5)) @ spec[i].T
        assert bool((said <= found.lead[i] + 1e-9).all())
    assert bool((found.lead[:3] > own[:3]).any())


@pytest.mark.parametrize("kind", [TextCNN, TextLSTM])
@pytest.mark.parametrize(
    "goal", [du.Untargeted(), du.Group({0: [1, 2], 1: [2, 3], 2: [3], 3: [0]})]
)
def test_cutting_decides_every_sentence_as_listing_does(kind, goal):
    proven = broken = 0
    for seed in range(4):
        net = network(kind, seed)
        y = answers(net, TEXTS).argmax(1)
        data = du.Dataset(TEXTS, y.numpy())
        report = du.evaluate(
            net, data, space=SPACE, goal=goal, attack=du.Bounds(splits=5000), progress=False
        )
        targets = goal.targets(y, torch.zeros(len(y), 4), torch.arange(len(y)))
        for text, verdict, allowed in zip(TEXTS, report.table["verdict"], targets, strict=True):
            hit = allowed[answers(net, neighbours(text, TABLE, 0.5)).argmax(1)].any()
            assert verdict == ("broken" if bool(hit) else "proven"), text
            broken, proven = broken + bool(hit), proven + (not hit)
    assert broken > 3 and proven > 3


def test_without_cuts_nothing_false_is_proven_and_something_true_is():
    proven = 0
    for seed in range(4):
        net = network(TextCNN, seed)
        y = answers(net, TEXTS).argmax(1)
        report = du.evaluate(net, du.Dataset(TEXTS, y.numpy()), space=SPACE,
                             attack=du.Bounds(splits=0), progress=False)  # fmt: skip
        for text, verdict, label in zip(TEXTS, report.table["verdict"], y, strict=True):
            if verdict == "proven":
                proven += 1
                said = answers(net, neighbours(text, TABLE, 0.5)).argmax(1)
                assert bool((said == label).all())
    assert proven > 4


def test_the_budget_tightens_the_bound():
    net = network(TextLSTM, 0)
    x = token_ids.encode([TEXTS[2]])
    spec = torch.eye(4, dtype=torch.float64)[None]
    leads = []
    for most in (0.1, 0.2, 0.3):
        region = du.Text(du.Synonyms(TABLE, at_most=9), most=most, keep=KEEP).around(x)
        with torch.no_grad():
            held = read(net, region)
            leads.append(float(net.highest(held.whole(), spec).lead.max()))
    assert leads[0] < leads[1] < leads[2]


def test_a_word_that_the_network_takes_for_padding_is_not_proven_about():
    table = {"good": ("<pad>",)}
    space = du.Text(du.Synonyms(table), most=0.5, keep=())
    net = network(TextCNN, 0)
    x = token_ids.encode(["a good film"])
    region = space.around(x)
    assert read(net, region).known.tolist() == [False]


def test_what_cannot_be_bounded_says_so():
    net = fresh(lambda: TextTransformer(classes=2), 0).eval()
    y = answers(net, TEXTS).argmax(1).numpy()
    with pytest.raises(du.Unsupported, match="TextTransformer"):
        du.evaluate(net, du.Dataset(TEXTS, y), space=SPACE, attack=du.Bounds(), progress=False)
