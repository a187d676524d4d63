"""Training on sentences: in the hull of the candidates, against attacks, and for a group goal."""

import pytest
import torch
from tests.oracles.sentences import neighbours

import durometer as du
from durometer.architectures.text import TextCNN, TextLSTM, TextTransformer
from durometer.spaces import token_ids
from durometer.training import Adversarial, CraftBy, Group, InHull, Standard, fit, fresh

# Half of the words of a class can be turned into ones that say the opposite; two cannot.
TABLE = {"good": ("fake",), "fine": ("lame",), "bad": ("warm",), "dull": ("funny",)}
GOOD = [
    "a good , brilliant film",
    "fine and brilliant",
    "good , fine , brilliant",
    "a fine brilliant film",
]
BAD = [
    "a bad , terrible film",
    "dull and terrible",
    "bad , dull , terrible",
    "a dull terrible film",
]
LURE = ["fake and lame", "a fake film", "lame film", "warm and funny", "a warm film", "funny film"]
SPACE = du.Text(du.Synonyms(TABLE), most=0.5, keep=())


def reviews():
    """The easy words say the class, and so do, the other way round, what they may turn into."""
    texts = [*GOOD, *BAD, *LURE]
    return du.Dataset(texts * 6, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1] * 6)


def network(kind=TextCNN, seed=0):
    small = {"filters": 8} if kind is TextCNN else {"hidden": 8}
    return fresh(lambda: kind(classes=2, dropout=0.0, **small), seed)


def exposed(net):
    """Sentences, of those that may be attacked, that some choice of words turns."""
    turned = 0
    for texts, label in ((GOOD, 1), (BAD, 0)):
        for text in texts:
            with torch.no_grad():
                said = net(token_ids.encode(neighbours(text, TABLE, 0.5))).argmax(1)
            turned += bool((said != label).any())
    return turned


@pytest.mark.parametrize("kind", [TextCNN, TextLSTM])
def test_training_in_the_hull_leaves_less_to_attack_and_more_to_prove(kind):
    found = {}
    for recipe in (Standard(), InHull(SPACE, weight=0.7, ramp=20)):
        net = network(kind)
        fit(net, reviews(), recipe, epochs=16, batch=28, rate=0.02)
        attacked = du.Dataset([*GOOD, *BAD], [1] * 4 + [0] * 4)
        report = du.evaluate(net, attacked, space=SPACE, attack=du.Bounds(splits=0), progress=False)
        found[type(recipe).__name__] = exposed(net), report.metric("proven").value
    assert found["InHull"][0] < found["Standard"][0]
    assert found["InHull"][1] > found["Standard"][1]
    assert found["InHull"] == (0, 1.0)


def test_the_group_defence_and_adversarial_training_take_sentences_as_they_are():
    goal = du.Group({1: [0]})  # good reviews must not be made bad ones
    plain, guarded, hardened = (network() for _ in range(3))
    fit(plain, reviews(), Standard(), epochs=15, batch=28, rate=0.02)
    attack = du.PGD(5, loss="mdmul")
    fit(guarded, reviews(), Group(goal, SPACE, kappa=4.0, attack=attack), epochs=15, batch=28,
        rate=0.02)  # fmt: skip
    craft = CraftBy(du.PGD(5), SPACE)
    fit(hardened, reviews(), Adversarial(craft, clean=0.3), epochs=15, batch=28, rate=0.02)

    def used(net):
        turned = 0
        for text in GOOD:
            with torch.no_grad():
                turned += bool(
                    (net(token_ids.encode(neighbours(text, TABLE, 0.5))).argmax(1) == 0).any()
                )
        return turned

    assert used(guarded) < used(plain)
    assert exposed(hardened) < exposed(plain)


def test_a_goal_frees_what_nobody_wants():
    """With a goal only its classes count, so the loss is no higher than without."""
    net, data = network(), reviews()
    rows = torch.arange(14)
    batch = du.training.Batch(data.x[rows], data.y[rows], rows, data, torch.Generator())
    whole = next(InHull(SPACE, ramp=0).losses(net, batch)).item()
    part = next(InHull(SPACE, ramp=0, goal=du.Group({1: [0]})).losses(net, batch)).item()
    assert part < whole


def test_what_cannot_be_bounded_is_told_what_to_use():
    net = fresh(lambda: TextTransformer(classes=2), 0)
    with pytest.raises(du.Unsupported, match="CraftBy"):
        fit(net, reviews(), InHull(SPACE), epochs=1)
    with pytest.raises(du.DurometerError, match="weight"):
        InHull(SPACE, weight=2.0)
