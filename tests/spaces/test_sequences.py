"""A space of somebody else's: point mutations of DNA. What works on words works on letters."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import durometer as du
from durometer.extend import RelaxedTokens, SubstitutionRegion
from durometer.testing import check_space

LETTERS = 4  # A C G T are 1 2 3 4
CODON = (1, 4, 3)  # ATG may not be touched


@dataclass(frozen=True)
class Mutations:
    """At most `most` letters of a strand, none of them in a start codon."""

    most: int = 2
    norm = None

    def check(self, x):
        if not bool(((x >= 1) & (x <= LETTERS) & (x == x.round())).all()):
            raise du.DurometerError("expected letters 1 to 4")

    def around(self, x):
        letters = torch.arange(1, LETTERS + 1).to(x)
        others = torch.stack([letters[letters != v] for v in x.flatten()])
        options = torch.cat([x[..., None], others.reshape(*x.shape, LETTERS - 1)], dim=2)
        options[..., 1:] = options[..., 1:].masked_fill(codons(x)[..., None], torch.nan)
        return SubstitutionRegion(x, options, torch.full((len(x),), self.most))


def codons(x):
    held = torch.zeros(x.shape, dtype=torch.bool)
    for i in range(x.shape[1] - 2):
        here = (x[:, i : i + 3] == torch.tensor(CODON).to(x)).all(1)
        held[:, i : i + 3] |= here[:, None]
    return held


class Reader(torch.nn.Module):
    """A network on letters that knows what a chosen letter was chosen from."""

    reads_symbols = True

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(LETTERS + 1, 6)
        self.conv = torch.nn.Conv1d(6, 8, 3)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        found = self.embedding(x.long())
        if isinstance(x, RelaxedTokens):
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
    "space",
    [
        du.Symbols(most=2, alphabet=5),
        du.Symbols(most=2, alphabet=(1, 2, 4), last=3),
        du.Symbols(most=9, alphabet=5, first=2, without=(0,)),
        du.Symbols(most=1, alphabet=7, where=(0, -1, 3)),
    ],
    ids=str,
)
def test_symbols_keep_the_contract_and_count_their_sequences(space):
    x = strands(8)
    check_space(space, x)
    region = space.around(x)
    free = {"last": range(6, 9), "first": range(2), "where": (0, 8, 3)}
    places = next((p for k, p in free.items() if getattr(space, k) is not None), range(9))
    listed = range(space.alphabet) if isinstance(space.alphabet, int) else space.alphabet
    allowed = [s for s in listed if s not in space.without]
    for row in range(2):
        made = {tuple(x[row].tolist())}
        for at in itertools.combinations(places, min(space.most, len(places))):
            for symbols in itertools.product(allowed, repeat=len(at)):
                new = x[row].tolist()
                for place, symbol in zip(at, symbols, strict=True):
                    new[place] = symbol
                made.add(tuple(new))
            # a position may also keep a symbol that is not in the alphabet
            for keep in itertools.product((True, False), repeat=len(at)):
                for symbols in itertools.product(allowed, repeat=len(at) - sum(keep)):
                    new, left = x[row].tolist(), iter(symbols)
                    for place, stays in zip(at, keep, strict=True):
                        new[place] = new[place] if stays else next(left)
                    made.add(tuple(new))
        assert {tuple(p) for p in region.points(row).tolist()} == made
        assert region.sizes()[row] == len(made)
        inside = torch.tensor(sorted(made)).double()
        assert bool(region.take(torch.full((len(inside),), row)).contains(inside).all())


def test_what_is_played_unless_told_otherwise_depends_on_the_length():
    class Counts(torch.nn.Module):
        reads_symbols = True

        def forward(self, x):
            return torch.stack([(x == 7).sum(1) - 3.0, torch.zeros(len(x))], dim=1)

    def function(x):
        return Counts()(x)

    x = torch.randint(0, 6, (3, 40)).double()
    asked = {"space": du.Symbols(most=40, last=30), "progress": False}
    assert 30 * 255 > 5000  # too many to try each
    long = du.evaluate(function, du.Dataset(x, [1, 1, 1]), budget=du.Budget(300), **asked)
    assert set(long.table["winner"]) <= {"MOEVA", ""}
    short = du.evaluate(
        function, du.Dataset(x, [1, 1, 1]), space=du.Symbols(most=4, alphabet=9), progress=False
    )
    assert set(short.table["winner"]) == {"Greedy"}


@pytest.mark.parametrize(
    "options, said",
    [
        ({"most": 0}, "at least one position"),
        ({"most": 1, "alphabet": 1}, "at least two symbols"),
        ({"most": 1, "first": 2, "last": 2}, "give one of first, last and where"),
        ({"most": 1, "last": 0}, "at least one position"),
    ],
)
def test_symbols_that_make_no_sense_are_refused(options, said):
    with pytest.raises(du.DurometerError, match=said):
        du.Symbols(**options)
    with pytest.raises(du.DurometerError, match="only 9 positions"):
        du.Symbols(most=1, last=10).check(strands())
    with pytest.raises(du.DurometerError, match="whole"):
        du.Symbols(most=1).check(strands() + 0.5)


@pytest.mark.parametrize(
    "attack, misses",
    [
        (du.Enumerate(), 0),
        (du.Beam(4), 1),
        (du.Greedy(), 3),
        (du.Graft(400), 1),
        (du.MOEVA(generations=20, population=20, offspring=20), 3),
        (du.PGD(20), 6),
        (du.APGD(20), 4),
        (du.HotFlip(10), 6),
    ],
)
def test_attacks_find_what_a_plain_loop_finds(attack, misses):
    net, x = Reader().eval(), strands()
    y = net(x).argmax(1)
    truth = np.array([breakable(net, row, int(c)) for row, c in zip(x.tolist(), y, strict=True)])
    assert 3 < truth.sum() < len(x) - 3
    report = du.evaluate(
        net, du.Dataset(x, y.numpy()), space=Mutations(), attack=attack, progress=False
    )
    found = report.table["success"].to_numpy()
    assert not (found & ~truth).any() and (truth & ~found).sum() <= misses
    after = torch.tensor(report.adversarial[found])
    with torch.no_grad():
        assert bool((net(after).argmax(1) != y[found]).all())
    changed = after != x[found]
    assert bool((changed.sum(1) <= 2).all()) and not bool((changed & codons(x[found])).any())
    if isinstance(attack, du.Enumerate):
        assert (report.table["verdict"] == "proven").tolist() == (~truth).tolist()
