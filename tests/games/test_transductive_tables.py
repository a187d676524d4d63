"""The same game on a constrained table: CAPGD or MOEVA inside, every handed-in record valid."""

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du
from durometer.architectures.domain import Shift, domain_mlp
from durometer.defenses import DANN, RMC, TADV, Control

PARTS = du.datasets.url()
TRAIN, TEST = PARTS.train.sample(400), PARTS.test.sample(16)
MEAN, DEVIATION = TRAIN.x.mean(0).float(), TRAIN.x.std(0).clamp_min(1e-3).float()
PHISH = (TEST.y == 1).numpy()


def net():
    return nn.Sequential(
        Shift(MEAN, DEVIATION),
        nn.Linear(len(MEAN), 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Linear(16, 2),
    )


def defender(name, space):
    data = du.Dataset(TRAIN.x.float(), TRAIN.y)
    if name == "RMC":
        return RMC(Control(net, data, epochs=5).train(0).module, TRAIN, k=32, epochs=3)
    if name == "DANN":
        return DANN(lambda: domain_mlp(MEAN, DEVIATION, width=16), data, epochs=3, iterations=20)
    return TADV(net, TRAIN, space, du.APGD(2), epochs=1)


@pytest.mark.parametrize("name", ["RMC", "DANN", "TADV"])
@pytest.mark.parametrize("inner", [du.CAPGD(3), du.MOEVA(generations=3, population=8, offspring=4)])
def test_games_on_tables_hand_in_valid_records(name, inner):
    space = TEST.schema.space(eps=0.5, p=2)
    game = du.Transductive(defender(name, space), batch=16, controlled=PHISH, scored=PHISH)
    report = du.evaluate(game, TEST, space=space, attack=du.GMSA(inner, "avg", 1))
    sane = report.table["skipped"] != "invalid"
    assert report.table.loc[sane, "valid"].all()
    region = space.around(TEST.x)
    assert region.contains(torch.tensor(report.adversarial))[torch.tensor(sane.tolist())].all()
    moved = (report.adversarial != TEST.x.numpy()).any(1)
    assert not moved[~PHISH].any()
    assert report.metric("robust").n == int((PHISH & sane.to_numpy()).sum())
    assert np.isfinite(report.table["margin"]).all()
