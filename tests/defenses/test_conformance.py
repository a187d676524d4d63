"""Modules as the field writes them, wrapped unchanged: their own answers, round after round.

The modules are minimal ones written from the papers (`tests/toys/modules.py`); the authors' own
are wrapped by users: see docs/how-to/adaptive.md for which were run.
"""

import numpy as np
import pytest
import torch
from tests.toys.modules import (
    EATA,
    LAME,
    MEMO,
    T3A,
    BatchTent,
    CoTTA,
    RoTTA,
    SharpTent,
    batch_net,
)
from tests.toys.transductive import plane

import durometer as du
from durometer.core.streams import seeded
from durometer.defenses import Adapting, MedBN, Norm
from durometer.testing import check_defender

DATA = plane(48, gap=0.03)
NET = batch_net(DATA)


def fishers():
    return {n: torch.full_like(p, 0.5) for n, p in NET.named_parameters()}


MODULES = {
    "TENT": lambda: BatchTent(NET, rate=0.05),
    "EATA": lambda: EATA(NET, fishers()),
    "SAR": lambda: SharpTent(NET),
    "CoTTA": lambda: CoTTA(NET),
    "MEMO": lambda: MEMO(NET),
    "LAME": lambda: LAME(NET),
    "T3A": lambda: T3A(NET),
    "RoTTA": lambda: RoTTA(NET),
}
NETWORK = {"CoTTA": "teacher", "RoTTA": "teacher"}


def wrapped(name, reset="continual"):
    return Adapting(MODULES[name](), network=NETWORK.get(name, "model"), reset=reset)


@pytest.mark.parametrize("name", list(MODULES))
def test_the_modules_own_answers_round_after_round(name):
    real, defender = MODULES[name](), wrapped(name)
    state = defender.start()
    moved = []
    for draw, x in enumerate(DATA.x.split(16)):
        with seeded(draw):
            expected = real(x).detach()
        adapted, state = defender.adapt(state, x, draw)
        with torch.no_grad():
            assert float((adapted.logits(x) - expected).abs().max()) <= 1e-6
        moved.append(expected)
    if name not in ("LAME", "MEMO"):  # the others carry something from round to round
        with seeded(0):
            again = real(DATA.x[:16]).detach()
        assert not torch.equal(again, moved[0])


@pytest.mark.parametrize("name", list(MODULES))
def test_every_one_is_a_pure_defender_and_can_be_attacked(name):
    check_defender(wrapped(name), DATA.x[:12])
    attacks = {
        "GMSA": du.GMSA(du.PGD(3), iterations=1),
        "refined": du.Then(du.GMSA(du.PGD(3), iterations=1), du.Unrolled(du.PGD(2, start="best"))),
    }
    game = du.Transductive(wrapped(name), batch=16, probe=False, information="seed")
    robust = {
        k: du.evaluate(game, DATA.take(range(16)), space=du.Linf(0.1), attack=a)
        for k, a in attacks.items()
    }
    values = {k: r.metric("robust").value for k, r in robust.items()}
    assert values["refined"] <= values["GMSA"]
    assert robust["GMSA"].table["valid"].all()


def test_norm_is_torchs_own_batch_statistics_and_medbn_its_formula():
    x = DATA.x[:20]
    model, _ = Norm(NET).adapt(None, x, 0)
    train = batch_net(DATA).train()
    with torch.no_grad():
        torch.testing.assert_close(model.logits(x), train(x), atol=1e-6, rtol=1e-5)
        median, _ = MedBN(NET).adapt(None, x, 0)
        z = NET[0](x).numpy()
        eta = np.sort(z, 0)[(len(z) - 1) // 2]  # torch's median: the lower of the two middle ones
        rho = ((z - eta) ** 2).mean(0)
        w, b = NET[1].weight.detach().numpy(), NET[1].bias.detach().numpy()
        h = np.maximum((z - eta) / np.sqrt(rho + NET[1].eps) * w + b, 0)
        by_hand = h @ NET[3].weight.detach().numpy().T + NET[3].bias.detach().numpy()
    np.testing.assert_allclose(median.logits(x).numpy(), by_hand, atol=1e-5)
    half, _ = Norm(NET, share=0.0).adapt(None, x, 0)
    with torch.no_grad():
        torch.testing.assert_close(half.logits(x), NET(x), atol=1e-6, rtol=1e-5)
