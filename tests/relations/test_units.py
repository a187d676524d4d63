"""Tolerances in the unit of what is compared, and what no relation may say."""

import pytest
import torch

import durometer as du


def test_a_tolerance_is_relative_to_the_range_compared():
    schema = du.Schema(
        [du.Feature("t", "real", 0, 1e-6), du.Feature("r", "real", 0, 1e-6)], ["r <= t"]
    )
    x = torch.tensor([[0, 1e-6], [0, 1e-13], [1e-6, 0], [5e-7, 6e-7]], dtype=torch.float64)
    assert schema.validate(x)["row"].tolist() == [0, 3]


def test_no_success_breaks_a_relation_between_small_numbers():
    schema = du.Schema(
        [du.Feature("t", "real", 0, 1e-6), du.Feature("r", "real", 0, 1e-6)], ["r <= t"]
    )
    net = torch.nn.Linear(2, 2, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0], [-1e6, 1e6]]))
        net.bias.copy_(torch.tensor([0.0, 0.1]))  # class 1 only where r > t - 1e-7
    x = torch.tensor([[6e-7, 2e-7]] * 8, dtype=torch.float64)
    report = du.evaluate(
        net, du.Dataset(x, [0] * 8), space=schema.space(eps=0.5), attack=du.CAPGD()
    )
    t, r = report.adversarial.T
    assert report.table["success"].all() and (r <= t + 1e-12).all()


def refused(relation):
    features = [
        du.Feature("p", "category", values=("x", "y")),
        du.Feature("term", "category", values=(36, 60)),
        du.Feature("a", "real", 0, 9),
    ]
    return du.Schema(features, [relation])


def test_arithmetic_on_the_code_of_a_label_is_refused():
    with pytest.raises(du.DurometerError, match="'p' is a category with labels"):
        refused("p + a >= 0.5")
    assert len(refused("term * a <= 200").relations) == 1  # numbers stand for themselves
    assert len(refused("p == 'x' or a <= 3").relations) == 1


def test_a_number_that_no_computer_has_is_refused():
    with pytest.raises(du.DurometerError, match="larger than any number"):
        refused("a <= 9**9**9**9")
