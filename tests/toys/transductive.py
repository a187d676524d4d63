"""Small players for the tests: a plane, two classes, defenders whose moves can be worked out."""

from dataclasses import dataclass, field

import torch
from torch import nn

from durometer.data.dataset import Dataset
from durometer.model.classifier import Classifier, wrap


def linear(weight, bias=0.0):
    """Class 1 where weight . x + bias > 0."""
    net = nn.Linear(len(weight), 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-w / 2 for w in weight], [w / 2 for w in weight]]))
        net.bias.copy_(torch.tensor([-bias / 2, bias / 2]))
    return net.eval()


def plane(n=24, seed=0, gap=0.15):
    """Points in [0, 1]^2, the class told by which side of x0 = 0.5 they are on."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=g)
    y = torch.arange(n) % 2
    x[:, 0] = torch.where(y == 1, 0.5 + gap + 0.3 * x[:, 0], 0.5 - gap - 0.3 * x[:, 0])
    return Dataset(x, y)


@dataclass(frozen=True, eq=False)
class Fixed:
    """Never moves."""

    model: nn.Module = field(default_factory=lambda: linear([10.0, 0.0], -5.0))
    stateful: bool = False

    def start(self):
        return None

    def base(self, state):
        return wrap(self.model)

    def adapt(self, state, x, seed):
        return wrap(self.model), None


@dataclass(frozen=True, eq=False)
class Dice:
    """Puts the border at a random place between 0.5 - spread and 0.5 + spread."""

    spread: float = 0.3
    stateful: bool = False

    def start(self):
        return None

    def base(self, state):
        return wrap(linear([10.0, 0.0], -5.0))

    def adapt(self, state, x, seed):
        at = torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()
        return wrap(linear([10.0, 0.0], -5.0 - 10 * self.spread * (2 * at - 1))), None


@dataclass(frozen=True, eq=False)
class Drift:
    """Moves its border by a fixed amount every round: the state is the number of rounds seen."""

    step: float = 0.05
    stateful: bool = True

    def start(self):
        return 0

    def base(self, state):
        return wrap(linear([10.0, 0.0], -5.0 + 10 * self.step * state))

    def adapt(self, state, x, seed):
        return self.base(state + 1), state + 1


@dataclass(frozen=True, eq=False)
class Median:
    """Puts its border at the median of the batch: all rows decide about each."""

    stateful: bool = False

    def start(self):
        return None

    def base(self, state):
        return wrap(linear([10.0, 0.0], -5.0))

    def adapt(self, state, x, seed):
        return wrap(linear([10.0, 0.0], -10 * float(x[:, 0].median()))), None


@dataclass(frozen=True, eq=False)
class Bound:
    """Row i's border is put just beyond row i, on the side it was on: bound to its batch."""

    stateful: bool = False

    def start(self):
        return None

    def base(self, state):
        return wrap(linear([10.0, 0.0], -5.0))

    def adapt(self, state, x, seed):
        at = torch.where(x[:, 0] > 0.5, x[:, 0] - 0.01, x[:, 0] + 0.01).detach()

        def call(x, rows):
            z = 10 * (x[:, 0] - at[rows])
            return torch.stack([-z / 2, z / 2], dim=1)

        return Classifier(call, "bound", True, bound=True), None


@dataclass(frozen=True, eq=False)
class Picky:
    """Rejects (class 2) what is higher than `limit`."""

    limit: float = 0.7
    stateful: bool = False

    def start(self):
        return None

    def base(self, state):
        return self._made(9.0)

    def adapt(self, state, x, seed):
        return self._made(self.limit), None

    def _made(self, limit):
        net = linear([10.0, 0.0], -5.0)

        def call(x):
            logits = net(x)
            return torch.cat([logits, logits.amax(1, True) + 5 * (x[:, 1:] - limit)], dim=1)

        return Classifier(call, "picky", True, reject=2)


class Sloppy(nn.Module):
    """Test-time adaptation as it is found: forward() shifts the bias in place and adds noise."""

    def __init__(self):
        super().__init__()
        self.model = linear([10.0, 0.0], -5.0)
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        with torch.no_grad():
            self.model.bias += 0.01 * self.seen * torch.tensor([1.0, -1.0])
            self.model.bias += 0.1 * torch.randn(2)
        return self.model(x)
