"""Modules on words: where a word stands in a vocabulary, and the gradient of what it might be."""

import torch

from durometer.model.vocabulary import Places, straight_through
from durometer.spaces.token_ids import encode


def test_words_that_share_a_line_of_the_table_keep_their_own_places(monkeypatch):
    monkeypatch.setattr(Places, "_LINE", 3)  # eight lines for a hundred words
    vocabulary = ["<pad>", "<unk>", *(f"w{i}" for i in range(100))]
    places = Places(vocabulary, lower=True)
    text = "w7 W93 unheard w0 w99 w7"
    rows = encode([" ".join(vocabulary[2:]), text, " ".join(vocabulary[:1:-1])])
    expected = [*range(2, 102)], [9, 95, 1, 2, 101, 9, *[0] * 94], [*range(101, 1, -1)]
    for _ in range(2):  # the second time they have been met
        assert places(rows).tolist() == list(expected)


def test_no_option_is_padding():
    places = Places(["<pad>", "<unk>", "good"], lower=False)
    options = torch.cat([encode(["good Good"]), torch.full((1, 1), torch.nan)], dim=1)
    assert places(options).tolist() == [[2, 1, 0]]


def test_the_gradient_is_that_of_the_weighted_mean_and_the_value_stays():
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    options = torch.randint(1, 9, (3, 5, 4), generator=generator)
    options[0, 2:, 1:] = 0  # places without a choice
    options[1, 0, 3] = 0
    weights = torch.rand(3, 5, 4, generator=generator, dtype=torch.float64).requires_grad_()
    embedded = table[options[..., 0]]
    up = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)

    made = straight_through(embedded, table, options, weights)
    (found,) = torch.autograd.grad((made * up).sum(), weights)
    mean = torch.einsum("nlk,nlkd->nld", weights, table[options])
    (expected,) = torch.autograd.grad((mean * up).sum(), weights)

    there = options != 0
    assert torch.equal(made, embedded)
    assert torch.allclose(found[there], expected[there])
