"""What a copy finds just short of the goal is asked of the model itself: the two may differ."""

from types import SimpleNamespace

import torch

from durometer.model.inference_copy import AGREE
from durometer.problem.referee import Answers, in_doubt


def test_an_answer_as_near_the_goal_as_the_two_may_differ_is_a_hit():
    size = 10.0
    margin = torch.tensor([1.0, 1e-9, -1.5 * AGREE * size, -2.5 * AGREE * size, -1.0])
    logits = torch.tensor([[size, 0.0]]).repeat(5, 1)
    no = torch.zeros(5, dtype=torch.bool)
    referee = SimpleNamespace(slack=0.0, scale=torch.full((5,), size))
    found = in_doubt(referee, torch.arange(5), logits, Answers(margin, no, ~no, no))
    assert found.hit.tolist() == [True, True, True, False, False]
    assert found.matters.tolist() == found.hit.tolist()


def test_where_both_logits_vanish_the_clean_ones_are_the_measure():
    no = torch.zeros(1, dtype=torch.bool)
    referee = SimpleNamespace(slack=0.0, scale=torch.tensor([100.0]))
    read = Answers(torch.tensor([-1e-3]), no, ~no, no)
    assert bool(in_doubt(referee, torch.tensor([0]), torch.zeros(1, 2), read).hit)


def test_an_answer_that_is_no_number_is_never_one():
    no = torch.zeros(1, dtype=torch.bool)
    referee = SimpleNamespace(slack=0.0, scale=torch.ones(1))
    read = Answers(torch.tensor([1.0]), no, no, no)
    assert not bool(in_doubt(referee, torch.tensor([0]), torch.ones(1, 2), read).hit)
