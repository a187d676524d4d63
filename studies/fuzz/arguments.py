"""Arguments of the Python API, made odd."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from texts import ODD, Rng

import durometer as du


def argument(rng: Rng) -> dict[str, Any]:
    return {"seed": rng.randrange(2**32)}


def play_argument(what: dict[str, Any]) -> None:
    rng = random.Random(what["seed"])
    g = torch.Generator().manual_seed(0)
    x = torch.rand(6, 4, generator=g)
    y = torch.arange(6) % 2
    odd = [*ODD, x, y, x.numpy(), x.double(), x.bfloat16(), np.float32(0.5), np.int64(2), du.Linf]
    odd += [x.to_sparse(), x[:0], x[0], x * np.nan, x.to("meta"), np.ma.masked_less(x.numpy(), 0.5)]
    odd += [du.Linf(0.1), du.FGSM(), du.Untargeted(), lambda z: z, object(), torch.nn.Linear(4, 2)]

    def pick(usual: Any, chance: float = 0.12) -> Any:
        return rng.choice(odd) if rng.random() < chance else usual

    data = du.Dataset(
        pick(x), pick(y), ids=pick(None), classes=pick(None), name=pick(""), schema=pick(None, 0.03)
    )
    space = rng.choice((du.Linf, du.L2, du.L1, du.L0))(pick(1 if rng.random() < 0.2 else 0.1))
    attack = rng.choice(
        (
            lambda: du.FGSM(),
            lambda: du.PGD(pick(2)),
            lambda: du.APGD(pick(2), loss=pick("ce")),
            lambda: du.Square(pick(3)),
            lambda: du.Restarts(pick(du.PGD(1)), pick(2)),
        )
    )()
    goal = rng.choice(
        (du.Untargeted, lambda: du.Targeted(pick(0)), lambda: du.Group(pick({0: [1]})))
    )
    report = du.evaluate(
        pick(torch.nn.Linear(4, 2).to(data.x.dtype), 0.05),
        pick(data, 0.03),
        space=pick(space, 0.05),
        goal=pick(goal(), 0.05),
        attack=pick(attack, 0.05),
        seed=pick(0, 0.05),
        batch=pick(3, 0.05),
        budget=pick(None, 0.05),
        also=pick((), 0.05),
        progress=False,
    )
    str(report)
    report.metric(pick("robust"), by=pick(None))
    data.take(pick([0, 1])).sample(pick(1)).where(y=pick(0))
