"""Overhead of each attack: its CPU time over that of the same model passes alone.

Every question of the attack is noted (rows, with or without a gradient), then the same ones are put
bare to the user's network: a forward pass, and a backward pass to the inputs where there was one.
What lies above 1 is the attack's own arithmetic and the harness. Attacks ask a faster copy of the
network where there is one, so the factor may be below 1; what the network is asked to confirm is in
the attack's time and not among the bare passes. `--itself` measures without a copy. Networks are
untrained, and asked about their own answers in a region so small that few rows fall: the passes are
those of rows that hold out.

    python benchmarks/overhead.py [--rows 64] [--repeat 3] [--only apgd] [--itself] [--smoke]

Three repeats, the smallest of each: a busy machine only adds. Aims: 1.25 on the ResNet for PGD,
APGD (Linf, L2) and Square, 1.4 on the CNN; L1 within twice Linf's own time.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from lp_networks import cnn
from torch import Tensor, nn

import durometer as du
from durometer.architectures.images.resnet import ResNet
from durometer.model.classifier import Classifier
from durometer.training import fresh


def noted(model: Classifier, calls: list[tuple[int, bool]]) -> Classifier:
    """The classifier, noting what it is asked."""

    def call(x: Tensor) -> object:
        calls.append((len(x), x.requires_grad))
        return model.call(x)

    return replace(model, call=call)


def bare(net: nn.Module, x: Tensor, calls: list[tuple[int, bool]]) -> float:
    """CPU seconds of the same passes."""
    began = time.process_time()
    for n, gradient in calls:
        at = x[:n]
        if gradient:
            at = at.detach().requires_grad_()
            torch.autograd.grad(net(at).amax(1).sum(), at)
        else:
            with torch.no_grad():
                net(at)
    return time.process_time() - began


def attacks(steps: int) -> dict[str, tuple[object, object]]:
    """By name: the attack, and the space for images of about unit range (eps made small)."""
    linf, l2, l1 = du.Linf(1e-3), du.L2(0.02), du.L1(0.2)
    return {
        "pgd linf": (du.PGD(steps), linf),
        "pgd l2": (du.PGD(steps), l2),
        "apgd linf": (du.APGD(steps, loss="ce"), linf),
        "apgd l2": (du.APGD(steps, loss="ce"), l2),
        "apgd l1": (du.APGD(steps, loss="ce"), l1),
        "fab linf": (du.FAB(steps, targets=2, prune=False), linf),
        "square linf": (du.Square(5 * steps), linf),
        "square l2": (du.Square(5 * steps), l2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rows", type=int, default=64)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--only", default="", help="attacks whose name holds this")
    options.add_argument("--net", default="", help="cnn or resnet; else both")
    options.add_argument("--itself", action="store_true", help="ask the network, not a copy of it")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.rows, given.steps, given.repeat = 4, 2, 1
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    nets = {
        "cnn": (fresh(cnn, 0), torch.rand(given.rows, 1, 28, 28, generator=g)),
        "resnet": (fresh(lambda: ResNet((1, 1, 1), width=32), 0),
                   torch.rand(given.rows, 3, 32, 32, generator=g)),
    }  # fmt: skip
    for name, (net, x) in nets.items():
        if given.net not in ("", name):
            continue
        net = net.eval().requires_grad_(False)
        with torch.no_grad():
            data = du.Dataset(x, net(x).argmax(1))
        size = sum(p.numel() for p in net.parameters())
        print(f"{name}, {size:,} parameters, {given.rows} rows, {given.steps} steps")
        print(f"{'attack':12s} overhead   own ms a call   calls   mean rows")
        for which, (attack, space) in attacks(given.steps).items():
            if given.only in which:
                line(which, net, data, attack, space, given.repeat, given.itself)


def line(
    name: str, net: nn.Module, data: du.Dataset, attack: object, space: object, repeat: int,
    itself: bool,
) -> None:  # fmt: skip
    ours, alone = [], []
    play = du.Static(net)
    game, _ = play.prepare(data, space, du.Untargeted(), attack)  # type: ignore[arg-type]
    model, copied = game.model, None if itself else game._copy
    for _ in range(repeat):
        calls: list[tuple[int, bool]] = []
        confirmed: list[tuple[int, bool]] = []
        if copied is None:
            game = du.Static(noted(model, calls))
        else:
            asked = replace(copied, model=noted(copied.model, calls))
            game = du.Static(noted(model, confirmed), asked)
        began = time.process_time()
        list(game.play(data, space, du.Untargeted(), attack, 0))  # type: ignore[arg-type]
        ours.append(time.process_time() - began)
        alone.append(bare(net, data.x, calls))
    factor, own = min(ours) / min(alone), 1000 * (min(ours) - min(alone)) / len(calls)
    rows = sum(n for n, _ in calls) / len(calls)
    print(
        f"{name:12s} {factor:8.2f} {own:15.2f} {len(calls):7d} {rows:11.1f} "
        f"{'' if copied is None else copied.described}",
        flush=True,
    )


if __name__ == "__main__":
    main()
