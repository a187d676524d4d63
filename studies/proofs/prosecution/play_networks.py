"""One case of a network: drawn weights, rows and spaces, `Bounds`, and then the search."""

from __future__ import annotations

import random
import warnings

import torch
from prosecution.balls import Ball, answers, drawn, label, search
from prosecution.judged import Count, verdicts
from prosecution.networks import CONSTRUCTS
from prosecution.package import du
from torch import Tensor, nn


def play(name: str, seed: int, rows: int = 600, spaces: int = 3, draws: int = 80) -> Count:
    r = random.Random(f"{name} {seed}")
    torch.manual_seed(r.randrange(2**31))
    net, shape = CONSTRUCTS[name](r)
    net = net.eval()
    for parameter in net.parameters():
        if parameter.ndim > 1 and r.random() < 0.5:
            with torch.no_grad():
                parameter.mul_(r.choice([1.0, 1.5, 2.5]))
    count = Count()
    x = torch.rand(rows, *shape)
    probability = name == "one probability"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = next(net.parameters()).dtype
        y = label(answers(net, x[None], first)[0], probability)
    size = _border(net, x, y, probability)
    for _ in range(spaces):
        ball = drawn(r, shape, size * r.uniform(0.15, 0.95))
        light = r.random() < 0.8
        alpha, splits = (r.choice([0, 0, 2]), 0) if light else (4, 16)
        attack = du.Bounds(alpha=alpha, splits=splits, seconds=0.0)
        some = slice(None) if light else slice(0, 30)
        count.add(_one(net, x[some], y[some], ball, attack, seed, draws, probability))
        if count.refused:
            break
    if count.wrong:
        count.fallen = str(seed)
    return count


def _one(
    net: nn.Module, x: Tensor, y: Tensor, ball: Ball, attack: object, seed: int, draws: int,
    probability: bool,
) -> Count:  # fmt: skip
    space = ball.space()
    sure, why = verdicts(net, du.Dataset(x, y), space=space, attack=attack)
    count = Count(rows=len(x), cases=1, refused=bool(why), said=why, proven=int(sure.sum()))
    at = torch.tensor(sure).nonzero()[:, 0]
    if len(at):
        region = space.around(x[at])
        found = search(net, x[at], y[at], ball, seed, draws, 8, probability, region)
        count.wrong, count.points = int(found.broken.sum()), found.points
        count.disputed = found.disputed
    return count


def _border(net: nn.Module, x: Tensor, y: Tensor, probability: bool) -> float:
    """A size at which about a third of the rows fall to a plain search."""
    some, its = x[:60], y[:60]
    for size in (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3):
        ball = Ball(float("inf"), torch.tensor(size))
        found = search(net, some, its, ball, 0, 20, 3, probability)
        if found.broken.float().mean() > 0.3:
            return size
    return 0.4
