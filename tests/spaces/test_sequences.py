"""A space of somebody else's: point mutations of DNA. What works on words works on letters."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import assay as ay
from assay.extend import ChoiceRegion, Chosen
from assay.testing import check_space

LETTERS = 4  # A C G T are 1 2 3 4
CODON = (1, 4, 3)  # ATG may not be touched


@dataclass(frozen=True)
class Mutations:
    """At most `most` letters of a strand, none of them in a start codon."""

    most: int = 2
    norm = None

    def check(self, x):
        if not bool(((x >= 1) & (x <= LETTERS) & (x == x.round())).all()):
            raise ay.AssayError("expected letters 1 to 4")

    def around(self, x):
        letters = torch.arange(1, LETTERS + 1).to(x)
        others = torch.stack([letters[letters != v] for v in x.flatten()])
        options = torch.cat([x[..., None], others.reshape(*x.shape, LETTERS - 1)], dim=2)
        options[..., 1:] = options[..., 1:].masked_fill(codons(x)[..., None], torch.nan)
        return ChoiceRegion(x, options, torch.full((len(x),), self.most))


def codons(x):
    held = torch.zeros(x.shape, dtype=torch.bool)
    for i in range(x.shape[1] - 2):
        here = (x[:, i : i + 3] == torch.tensor(CODON).to(x)).all(1)
        held[:, i : i + 3] |= here[:, None]
    return held


class Reader(torch.nn.Module):
    """A network on letters that knows what a chosen letter was chosen from."""

    reads_words = True

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(LETTERS + 1, 6)
        self.conv = torch.nn.Conv1d(6, 8, 3)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        found = self.embedding(x.long())
        if isinstance(x, Chosen):
            table = self.embedding(x.options.nan_to_num(0).long())
            mixed = (x.weights[..., None].to(table.dtype) * table).sum(2)
            found = found + mixed - mixed.detach()
        return self.last(torch.relu(self.conv(found.transpose(1, 2))).amax(2))


def strands(n=24, length=9):
    x = np.random.default_rng(0).integers(1, LETTERS + 1, (n, length)).astype(float)
    x[::4, 2:5] = CODON
    return torch.from_numpy(x)


def breakable(net, x, y):
    """By looking at all strands with at most two letters changed, in plain loops."""
    free = [i for i in range(len(x)) if not any(
        tuple(x[s : s + 3]) == CODON for s in range(max(0, i - 2), i + 1))]  # fmt: skip
    tried = []
    for places in itertools.chain([()], *(itertools.combinations(free, k) for k in (1, 2))):
        for letters in itertools.product(range(1, LETTERS + 1), repeat=len(places)):
            new = list(x)
            for place, letter in zip(places, letters, strict=True):
                new[place] = letter
            tried.append(new)
    with torch.no_grad():
        return bool((net(torch.tensor(tried)).argmax(1) != y).any())


def test_the_contract_of_a_space():
    check_space(Mutations(), strands())


@pytest.mark.parametrize(
    "attack, misses",
    [
        (ay.Enumerate(), 0),
        (ay.Beam(4), 1),
        (ay.Greedy(), 3),
        (ay.Graft(400), 1),
        (ay.MOEVA(generations=20, population=20, offspring=20), 3),
        (ay.PGD(20), 6),
        (ay.APGD(20), 4),
    ],
)
def test_attacks_find_what_a_plain_loop_finds(attack, misses):
    net, x = Reader().eval(), strands()
    y = net(x).argmax(1)
    truth = np.array([breakable(net, row, int(c)) for row, c in zip(x.tolist(), y, strict=True)])
    assert 3 < truth.sum() < len(x) - 3
    report = ay.evaluate(
        net, ay.Dataset(x, y.numpy()), space=Mutations(), attack=attack, progress=False
    )
    found = report.table["success"].to_numpy()
    assert not (found & ~truth).any() and (truth & ~found).sum() <= misses
    after = torch.tensor(report.adversarial[found])
    with torch.no_grad():
        assert bool((net(after).argmax(1) != y[found]).all())
    changed = after != x[found]
    assert bool((changed.sum(1) <= 2).all()) and not bool((changed & codons(x[found])).any())
    if isinstance(attack, ay.Enumerate):
        assert (report.table["verdict"] == "proven").tolist() == (~truth).tolist()
