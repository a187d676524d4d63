"""Networks that no attack was tuned on: their layers, recipes and data, for `lp_networks.py`.

Where a layer has no useful gradient (JPEG, thermometer) it hands the gradient through, as an
attacker who knows the defence would (BPDA).

    python benchmarks/untuned.py [--smoke]      which there are, and that each answers
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

import durometer as du
from durometer.architectures.images.resnet import ResNet
from durometer.training import CraftBy


class Winners(nn.Module):
    """The largest 15 % of a layer; the others are 0 (k-winners-take-all)."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        least = flat.topk(max(1, int(0.15 * flat.shape[1])), dim=1).values[:, -1:]
        return (flat * (flat >= least)).reshape(x.shape)


class Sharp(nn.Module):
    """softmax(30 z) given as logits."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.softmax(30 * z, 1)


class JPEG(nn.Module):
    """Blocks of 8 x 8 through a rounded cosine transform, as JPEG at low quality."""

    def __init__(self, step: float = 0.25) -> None:
        super().__init__()
        k = torch.arange(8.0)
        basis = torch.cos(math.pi * (2 * k[None] + 1) * k[:, None] / 16) / 2
        basis[0] /= math.sqrt(2)
        self.basis, self.step = basis, step * (1 + 0.25 * (k[:, None] + k[None]))

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2:]
        wide = functional.pad(x, (0, -w % 8, 0, -h % 8))
        blocks = wide.unfold(2, 8, 8).unfold(3, 8, 8)  # (n, c, rows, columns, 8, 8)
        found = self.basis @ blocks @ self.basis.T
        back = self.basis.T @ ((found / self.step).round() * self.step) @ self.basis
        whole = back.permute(0, 1, 2, 4, 3, 5).reshape(wide.shape)[:, :, :h, :w].clamp(0, 1)
        return x + (whole - x).detach()


class Thermometer(nn.Module):
    """Ten thresholds of each pixel, then a small CNN; gradients as of a smooth threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(10, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        levels = torch.arange(0.05, 1.0, 0.1)[:, None, None]
        soft = torch.sigmoid(10 * (x - levels))
        answer: Tensor = self.net(soft + ((x > levels).float() - soft).detach())
        return answer


class Distilled(nn.Module):
    """Trained at temperature 20, asked at 1: answers that saturate (defensive distillation)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.net(x)
        return answer if self.training else 20 * answer


class ViT(nn.Module):
    """A small vision transformer: patches of 7 x 7, two blocks of four heads."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 7, stride=7)
        self.places = nn.Parameter(0.02 * torch.randn(1, 16, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        answer: Tensor = self.head(self.blocks(tokens).mean(1))
        return answer


class Mixing(nn.Module):
    """One block of an MLP-mixer."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(places, 32), nn.GELU(), nn.Linear(32, places))
        self.within = nn.Sequential(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.first(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.within(self.second(x))
        return mixed


class Mixer(nn.Module):
    """A small MLP-mixer: patches of 7 x 7, two blocks."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 7, stride=7)
        self.blocks = nn.Sequential(Mixing(16, width), Mixing(16, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))
        return answer


@dataclass(frozen=True)
class Pairing:
    """Clean logit pairing beside FGSM training (Kannan et al., 2018)."""

    craft: CraftBy
    weight: float = 0.5

    def losses(self, net: nn.Module, batch: du.training.Batch) -> Iterator[Tensor]:
        draw = int(torch.randint(2**62, (1,), generator=batch.generator))
        found = self.craft(net, batch.x, batch.y, draw)
        net.train()
        clean, moved = net(batch.x), net(found)
        apart = (clean - moved).square().mean()
        yield functional.cross_entropy(moved, batch.y) + self.weight * apart


def groupnorm() -> nn.Module:
    """A ResNet whose batch normalisation is group normalisation."""
    net = ResNet((1, 1, 1), width=16)
    for module in list(net.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.BatchNorm2d):
                setattr(module, name, nn.GroupNorm(4, part.num_features))
    return net


def signs() -> nn.Module:
    """A CNN for 43 traffic signs."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 8 * 8, 100), nn.ReLU(), nn.Linear(100, 43),
    )  # fmt: skip


def wide() -> nn.Module:
    """A CNN for two digits side by side: a hundred classes."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 14, 100), nn.ReLU(), nn.Linear(100, 100),
    )  # fmt: skip


def wrap(name: str, net: nn.Module) -> nn.Module:
    """The network behind or before what spoils its gradient."""
    layers = list(net.children())
    if name == "kwta":
        return nn.Sequential(*(Winners() if isinstance(m, nn.ReLU) else m for m in layers))
    return nn.Sequential(JPEG(), *layers) if name == "jpeg" else nn.Sequential(*layers, Sharp())


def halves() -> tuple[du.Dataset, du.Dataset]:
    """MNIST with two classes: 0-4 and 5-9."""
    both = du.datasets.mnist()
    train, test = (du.Dataset(d.x, (d.y >= 5).long()) for d in (both.train, both.test))
    return train, test


def pairs() -> tuple[du.Dataset, du.Dataset]:
    """Two digits of MNIST side by side: a hundred classes."""

    def beside(d: du.Dataset) -> du.Dataset:
        after = torch.arange(len(d)).roll(1)
        return du.Dataset(torch.cat([d.x, d.x[after]], 3), 10 * d.y + d.y[after])

    both = du.datasets.mnist()
    return beside(both.train), beside(both.test)


DATA = {"halves": halves, "pairs": pairs}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--smoke", action="store_true", help="the same")
    options.parse_args()
    from lp_networks import UNTUNED

    for name, subject in UNTUNED.items():
        torch.manual_seed(0)
        net = subject.make()
        net = wrap(name, net) if subject.base else net
        shape = {"pairs": (1, 28, 56), "gtsrb": (3, 32, 32), "cifar10": (3, 32, 32)}
        x = torch.rand(4, *shape.get(subject.data, (1, 28, 28)))
        answer = net.eval()(x)
        parameters = sum(p.numel() for p in net.parameters())
        print(f"{name:12s} {subject.data:8s} {answer.shape[1]:4d} classes, {parameters} parameters")


if __name__ == "__main__":
    main()
