"""What search attacks are measured on: `pair(name)` gives model, rows and space.

url/mlp, url/forest, url/xgboost   trained here on URL's training part, always the same
url/tabtransformer, url/stg        the same, with `durometer.architectures`
lcld/published, ctu13/published    MOEVA's published networks (`models`: moeva_published_models.npz)
lcld/forest, lcld/xgboost          trained here on half of the bundled loans

Rows are valid records of the critical class (phishing, charged off, botnet) that the model
classifies correctly. L2, eps 0.5, relations as meant. Loans count as bad from a probability of 0.25
on: at 0.5 the published network recognises 27 of 216.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import durometer as du

PAIRS = (
    *("url/mlp", "url/forest", "url/xgboost", "lcld/published", "ctu13/published"),
    *("url/tabtransformer", "url/stg", "lcld/forest", "lcld/xgboost"),
)
NETS = {"tabtransformer": du.architectures.TabTransformer, "stg": du.architectures.STG}
THRESHOLD = 0.25  # of the probability that a loan is charged off


@dataclass(frozen=True, eq=False)
class Pair:
    """One model with the rows to attack."""

    name: str
    model: Any
    data: du.Dataset
    space: Any

    @property
    def targets(self) -> Tensor:
        """(n, 2): anything but the true class."""
        return nn.functional.one_hot(1 - self.data.y, 2).bool()


class Scaled(nn.Module):
    """Layers of relu on inputs in raw units; the bias of class 1 moves the decision threshold."""

    def __init__(self, scale: Tensor, shift: Tensor, layers: nn.Module, odds: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("scale", scale.double())
        self.register_buffer("shift", shift.double())
        self.register_buffer("bias", torch.tensor([0.0, odds]))
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        return self.layers((x * self.scale + self.shift).float()) + self.bias


class Threshold:
    """A scikit-learn classifier of two classes that says 1 from another probability than 1/2 on."""

    def __init__(self, model: Any, threshold: float) -> None:
        self.model, self.threshold, self.classes_ = model, threshold, model.classes_

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        p = self.model.predict_proba(x) * [self.threshold, 1 - self.threshold]
        return p / p.sum(1, keepdims=True)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.predict_proba(x).argmax(1)


def mlp(train: Any, epochs: int, widths: tuple[int, ...] = (64, 32, 16)) -> Scaled:
    """A plain network on min-max scaled features, the same for everybody."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        low, high = train.x.amin(0), train.x.amax(0)
        scale = 1 / torch.where(high > low, high - low, 1.0)
        sizes, layers = (train.x.shape[1], *widths, 2), []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        net = Scaled(scale, -low * scale, nn.Sequential(*layers[:-1]))
        optimiser = torch.optim.AdamW(net.parameters(), 1e-3)
        for _ in range(epochs):
            for i in torch.randperm(len(train.x)).split(128):
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(train.x[i]), train.y[i]).backward()
                optimiser.step()
    return net.eval()


def published(path: str, name: str, odds: float = 0.0) -> Scaled:
    """One of MOEVA's published networks."""
    stored = np.load(path)
    layers: list[nn.Module] = []
    for i in range(4):
        weight = torch.tensor(stored[f"{name}/nn/W{i}"]).float()
        layers.append(nn.Linear(*weight.shape))
        layers[-1].weight.data = weight.t().contiguous()
        layers[-1].bias.data = torch.tensor(stored[f"{name}/nn/b{i}"]).float()
        layers.append(nn.ReLU())
    scaler = (torch.tensor(stored[f"{name}/scaler/{part}"]) for part in ("scale_", "min_"))
    return Scaled(*scaler, nn.Sequential(*layers[:-1]), odds).eval()


def trees(kind: str, x: Tensor, y: Tensor) -> Any:
    """A forest or boosted trees of 100."""
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(100, random_state=0).fit(x.numpy(), y.numpy())
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, random_state=0, n_jobs=1).fit(x.numpy(), y.numpy())


def pair(name: str, rows: int = 100, models: str | None = None, epochs: int = 60) -> Pair:
    """The pair of that name, with at most `rows` rows."""
    table, kind = name.split("/")
    odds = float(np.log((1 - THRESHOLD) / THRESHOLD))
    if table == "url":
        splits = du.datasets.url()
        data, train = splits.test, splits.train
        if kind in NETS:
            model = NETS[kind](data.schema).fit(train.x, train.y, epochs=min(epochs, 30)).eval()
        else:
            model = mlp(train, epochs) if kind == "mlp" else trees(kind, train.x, train.y)
    else:
        data = (du.datasets.ctu13() if table == "ctu13" else du.datasets.lcld(47)).test
        if kind == "published":
            if models is None:
                raise SystemExit(f"{name} needs --models, a path to moeva_published_models.npz")
            key = "botnet" if table == "ctu13" else "lcld"
            model = published(models, key, 0.0 if table == "ctu13" else odds)
        else:
            half = torch.arange(len(data.x)) % 2 == 0
            model = Threshold(trees(kind, data.x[half], data.y[half]), THRESHOLD)
            data = data.take((~half).nonzero()[:, 0].numpy())
    space = data.schema.space(eps=0.5, p=2)
    with torch.no_grad():
        said = du.wrap(model).logits(data.x).argmax(1)
    good = (said == data.y) & (data.y == 1) & space.around(data.x).contains(data.x)
    return Pair(name, model, data.take(good.nonzero()[:rows, 0].numpy()), space)
