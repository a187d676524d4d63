"""One case of a network on a table: drawn weights, schema and space, `Bounds` with all its parts
(slopes, cuts, the mixed-integer program of network and relations), and then every record."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from prosecution.judged import Count, verdicts
from prosecution.package import du
from prosecution.tables import drawn, rows
from torch import Tensor, nn


def _plain(bend: Callable[[], nn.Module], kind: torch.dtype = torch.float64) -> Callable[..., Any]:
    def made(schema: Any, classes: int, r: random.Random) -> nn.Module:
        net: Any = nn.Sequential(nn.Linear(5, 8), bend(), nn.Linear(8, 8), bend(),
                            nn.Linear(8, classes))  # fmt: skip
        with torch.no_grad():
            net[0].weight /= 3
            for layer in (net[2], net[4]):
                layer.weight *= r.choice([1.0, 2.0])
        found: nn.Module = net.to(kind)
        return found

    return made


def _own(name: str, **given: Any) -> Callable[..., Any]:
    return lambda schema, classes, r: getattr(du.architectures, name)(
        schema, classes, seed=r.randrange(1000), **given
    )


class _Before(nn.Module):
    """Something in front of a plain network."""

    def __init__(self, net: nn.Module, way: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.way = net, way

    def forward(self, x: Tensor) -> Any:
        return self.net(self.way(x))


NETWORKS: dict[str, Callable[..., Any]] = {
    "records, ReLU": _plain(nn.ReLU),
    "records, ReLU in place": _plain(lambda: nn.ReLU(inplace=True)),
    "records, single precision": _plain(nn.ReLU, torch.float32),
    "records, steep LeakyReLU": _plain(lambda: nn.LeakyReLU(1.7)),
    "records, tanh": _plain(nn.Tanh),
    "records, cut to whole numbers": lambda s, c, r: _Before(
        _plain(nn.ReLU)(s, c, r), lambda x: x.int().to(x.dtype)
    ),
    "records, MLP": _own("MLP"),
    "records, STG": _own("STG"),
    "records, RLN": _own("RLN"),
    "records, VIME": _own("VIME"),
    "records, TabTransformer": _own("TabTransformer", width=4, depth=1, heads=1, head=4),
}


def play(name: str, seed: int, count: int = 80, near: int = 250) -> Count:
    r = random.Random(f"{name} {seed}")
    torch.manual_seed(r.randrange(2**31))
    table, classes = drawn(r, gaps=False), r.choice([2, 3])
    schema = table.schema()
    net = NETWORKS[name](schema, classes, r).eval()
    kind = next(net.parameters()).dtype
    frame, _ = rows(table, count, seed, classes)
    x = torch.tensor(frame.to_numpy())

    def labels(points: Tensor) -> Tensor:
        with torch.no_grad():
            out: Tensor = net(points.to(kind))
        return out.argmax(1)

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        last: Any = [m for m in net.modules() if isinstance(m, nn.Linear)][-1]
        last.bias -= net(x.to(kind)).mean(0)
        y = labels(x)
    attack = du.Bounds(
        alpha=r.choice([0, 3]), splits=r.choice([0, 16]), seconds=r.choice([0.0, 0.2])
    )
    space = schema.space(eps=table.eps, p=table.p)
    sure, why = verdicts(net, du.Dataset(x, y, schema=schema), space=space, attack=attack)
    found = Count(rows=len(x), cases=1, refused=bool(why), said=why, proven=int(sure.sum()))
    held = frame.to_numpy()[sure]
    tried = [table.near(tuple(row), r, near) for row in held]
    if not tried or not sum(map(len, tried)):
        return found
    points, whose = np.concatenate(tried), np.repeat(np.arange(len(tried)), [len(t) for t in tried])
    found.points = len(points)
    hit = (labels(torch.from_numpy(points)) != y[torch.from_numpy(sure)][whose]).numpy()
    region = space.around(torch.from_numpy(held))
    some = np.flatnonzero(hit)[:400].tolist() + r.sample(range(len(points)), min(20, len(points)))
    inside = region.take(torch.from_numpy(whose[some])).contains(torch.from_numpy(points[some]))
    found.disputed = int((~inside).sum())
    found.wrong = len({int(whose[k]) for k, ok in zip(some, inside.tolist(), strict=True)
                       if ok and hit[k]})  # fmt: skip
    if found.wrong:
        found.fallen = str(seed)
    return found
