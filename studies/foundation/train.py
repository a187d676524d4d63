"""Train a NanoPFN on synthetic tables, in minutes of one core.

    python studies/foundation/train.py --out runs/nano.pt --minutes 6
    python studies/foundation/train.py --out /tmp/nano.pt --smoke

Each step draws a batch of tables nobody has seen before: a random network whose units are columns
and whose last unit, cut at quantiles, is the class; mixtures of Gaussians; random trees. Columns
are stretched, rounded and made rare at random. The context of a table and its queries come from the
same draw. What is learnt is how to read a table, not any table.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from durometer.architectures import NanoPFN

CLASSES = 4


def network(g: torch.Generator, b: int, rows: int, d: int) -> tuple[Tensor, Tensor]:
    """Columns are units of a random network of 2 to 3 layers; the score is another unit."""
    causes = int(torch.randint(2, 9, (), generator=g))
    h = torch.randn(b, rows, causes, generator=g)
    units = [h]
    for _ in range(int(torch.randint(1, 4, (), generator=g))):
        w = torch.randn(b, h.shape[2], 24, generator=g) / h.shape[2] ** 0.5
        w *= torch.rand(b, h.shape[2], 24, generator=g) < 0.6
        z = h @ w * (0.5 + 2 * torch.rand(b, 1, 24, generator=g)) + torch.randn(
            b, 1, 24, generator=g
        )
        kind = torch.randint(0, 4, (b, 1, 24), generator=g)
        h = torch.where(kind == 0, z.tanh(), torch.where(kind == 1, z.relu(), torch.where(
            kind == 2, z.abs(), z)))  # fmt: skip
        units.append(h)
    every = torch.cat(units, 2)
    place = torch.rand(b, every.shape[2], generator=g).argsort(1)
    want = place[:, :d] if every.shape[2] >= d else place[:, torch.arange(d) % every.shape[2]]
    x = every.gather(2, want[:, None].expand(-1, rows, -1))
    x = x + 0.3 * torch.rand(b, 1, d, generator=g) * torch.randn(b, rows, d, generator=g)
    score = h @ torch.randn(b, h.shape[2], 1, generator=g)
    return x, score[..., 0]


def mixture(g: torch.Generator, b: int, rows: int, d: int, classes: int) -> tuple[Tensor, Tensor]:
    """One to three Gaussians a class."""
    each = int(torch.randint(1, 4, (), generator=g))
    of = torch.randint(0, classes * each, (b, rows), generator=g)
    apart = 0.4 + 2 * torch.rand(b, 1, 1, generator=g)
    middle = apart * torch.randn(b, classes * each, d, generator=g)
    middle *= torch.rand(b, 1, d, generator=g) < 0.7
    spread = 0.3 + torch.rand(b, classes * each, d, generator=g)
    pick = of[..., None].expand(-1, -1, d)
    x = middle.gather(1, pick) + spread.gather(1, pick) * torch.randn(b, rows, d, generator=g)
    return x, of % classes


def forest(g: torch.Generator, b: int, rows: int, d: int) -> tuple[Tensor, Tensor]:
    """The sum of a few random trees of depth 3 over correlated columns."""
    mix = torch.eye(d) + 0.5 * torch.randn(b, d, d, generator=g) / d**0.5
    x = torch.randn(b, rows, d, generator=g) @ mix
    score = torch.zeros(b, rows)
    for _ in range(int(torch.randint(1, 5, (), generator=g))):
        leaf = torch.zeros(b, rows, dtype=torch.long)
        for _ in range(3):
            f = torch.randint(0, min(d, 8), (b, 1, 1), generator=g).expand(-1, rows, 1)
            cut = 0.8 * torch.randn(b, 1, generator=g)
            leaf = 2 * leaf + (x.gather(2, f)[..., 0] > cut)
        score = score + torch.randn(b, 8, generator=g).gather(1, leaf)
    return x, score + 0.05 * torch.randn(b, rows, generator=g)


def tables(g: torch.Generator, b: int, m: int, n: int, most: int) -> tuple[Tensor, Tensor]:
    """(b, m + n, d) rows and their classes."""
    d = int(2 * (most / 2) ** float(torch.rand((), generator=g)))
    classes = int(torch.tensor([2, 2, 2, 3, 4])[torch.randint(0, 5, (), generator=g)])
    which = float(torch.rand((), generator=g))
    if which < 0.5:
        x, score = network(g, b, m + n, d)
    elif which < 0.75:
        x, score = forest(g, b, m + n, d)
    else:
        x, y = mixture(g, b, m + n, d, classes)
    if which < 0.75:
        at = 0.5 + 0.3 * (torch.rand(b, classes - 1, generator=g) - 0.5)
        at = (at + torch.arange(classes - 1)) / (classes - 1) if classes > 2 else at
        at = at.clamp(0.1, 0.9).sort(1).values
        order = score.sort(1).values
        cuts = order.gather(1, (at * (m + n - 1)).long())
        y = (score[..., None] > cuts[:, None]).sum(2)
    noisy = torch.rand(y.shape, generator=g) < 0.15 * torch.rand(b, 1, generator=g) ** 2
    y = torch.where(noisy, torch.randint(0, classes, y.shape, generator=g), y)
    kind = torch.randint(0, 6, (b, 1, d), generator=g)
    x = torch.where(kind == 0, (1.2 * x).clamp(-6, 4).exp(), x)
    x = torch.where(kind == 1, x.round(), x)
    x = torch.where(kind == 2, (x > 0.5).float(), x)
    rename = torch.rand(b, CLASSES, generator=g).argsort(1)
    return x, rename.gather(1, y)


def train(net: NanoPFN, minutes: float, seed: int, batch: int = 12, rows: int = 128) -> list[float]:
    """Adam with a warm-up and a cosine, until the time is over; CPU time, so that others do not
    matter."""
    g = torch.Generator().manual_seed(seed)
    steps = torch.optim.AdamW(net.parameters(), lr=1.5e-3, weight_decay=1e-5)
    began, losses, shown = time.process_time(), [], 0.0
    while True:
        done = (time.process_time() - began) / (60 * minutes)
        if done >= 1:
            return losses
        rate = 1.5e-3 * min(1.0, (len(losses) + 1) / 200)
        rate *= 0.5 * (1 + torch.cos(torch.tensor(done * torch.pi)).item()) + 0.01
        for group in steps.param_groups:
            group["lr"] = rate
        m = int(torch.randint(24, rows + 1, (), generator=g))
        x, y = tables(g, batch, m, 64, net.features)
        logits = net(x[:, :m], y[:, :m], x[:, m:])
        loss = cross_entropy(logits.flatten(0, 1), y[:, m:].flatten())
        steps.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        steps.step()
        losses.append(float(loss.detach()))
        if done > shown:
            shown += 0.1
            late = losses[-200:]
            print(f"{done:4.0%}  {len(losses)} steps  loss {sum(late) / len(late):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=6.0, help="of CPU time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    net = NanoPFN(64, CLASSES, asked.width, asked.layers, asked.width // 16, asked.seed)
    if asked.smoke:
        net = NanoPFN(8, CLASSES, 16, 1, 2)
    train(net, 0.02 if asked.smoke else asked.minutes, asked.seed)
    torch.save({"settings": [net.features, net.classes, net.embed.out_features, len(net.layers),
                             net.heads], "weights": net.state_dict()}, asked.out)  # fmt: skip
    print(f"wrote {asked.out}")


if __name__ == "__main__":
    main()
