"""Networks whose gradients mislead: the default next to Square(5000) and pyautoattack.

A PGD-trained CNN on MNIST (`lp_networks.py`) behind layers that spoil its gradient, and as it is:

    ripple   round(8 x) / 8 + 0.002 sin(60 x)         tanh     tanh(12 (x - 0.5)) / 2 + 0.5
    kwta     k-winners-take-all in place of ReLU      (the rule was tuned on these three)
    saw      a saw-tooth of 25 teeth taken off x      blocks   means of 2 x 2 pixels in six steps
    softmax  softmax(30 z) given as logits            plain    nothing: no row may be flagged

    python benchmarks/misleading.py [--rows 60] [--trained 1] [--kinds ripple saw] [--smoke]

The training seed 1 is of a network that played no part in tuning. CPU seconds, one thread.
Ends with exit code 1 if the default leaves two rows more than the better of the other two, or
a row of an ordinary network is flagged.
"""

import argparse
import logging
import math
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyautoattack
import torch
from lp_networks import network, splits
from torch import Tensor, nn

import durometer as du

SPACES = (du.Linf(0.25), du.L2(2.0))


class Before(nn.Module):
    """A network behind (or before) a layer that spoils its gradient."""

    def __init__(self, kind: str, net: nn.Module) -> None:
        super().__init__()
        self.kind, self.net = kind, net

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "ripple":
            x = (8 * x).round() / 8 + 2e-3 * torch.sin(60 * x)
        elif self.kind == "tanh":
            x = torch.tanh(12 * (x - 0.5)) / 2 + 0.5
        elif self.kind == "saw":
            x = x - 0.04 * (25 * x - (25 * x).floor())
        elif self.kind == "blocks":
            means = (6 * nn.functional.avg_pool2d(x, 2)).round() / 6
            x = nn.functional.interpolate(means, scale_factor=2) + 1e-3 * x
        answer: Tensor = self.net(x)
        return torch.softmax(30 * answer, 1) if self.kind == "softmax" else answer


class Winners(nn.Module):
    """The largest 15 % of a layer; the others are 0."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        least = flat.topk(max(1, int(0.15 * flat.shape[1])), dim=1).values[:, -1:]
        return (flat * (flat >= least)).reshape(x.shape)


def spoiled(kind: str, net: nn.Sequential) -> nn.Module:
    if kind == "kwta":
        layers = [Winners() if isinstance(layer, nn.ReLU) else layer for layer in net]
        return nn.Sequential(*layers).eval()
    return net if kind == "plain" else Before(kind, net).eval()


def ours(net: nn.Module, data: du.Dataset, space: object, attack: object) -> tuple[int, float, str]:
    """Rows left, CPU seconds, and what was flagged."""
    began = time.process_time()
    report = du.evaluate(net, data, space=space, attack=attack, batch=len(data), progress=False)
    spent = time.process_time() - began
    flags = [f.text for f in report.flags if f.id == "misleading-gradients"]
    share = flags[0].split(" on ")[1].split(" rows")[0] if flags else "none"
    return int((~report.table["success"]).sum()), spent, share


def theirs(net: nn.Module, data: du.Dataset, space: object, small: bool) -> tuple[int, float]:
    """pyautoattack as published; a point outside the ball counts as no success."""
    norm = "Linf" if space.p == math.inf else "L2"  # type: ignore[attr-defined]
    eps = space.eps  # type: ignore[attr-defined]
    peer = pyautoattack.AutoAttack(net, norm=norm, eps=eps, seed=0, device="cpu")
    if small:
        peer.apgd.n_iter = peer.apgd_targeted.n_iter = peer.fab.n_iter = 3
        peer.square.n_queries = 10
    began = time.process_time()
    found, _ = peer.run_standard_evaluation(data.x, data.y, batch_size=len(data))
    spent = time.process_time() - began
    inside = space.around(data.x).contains(found)  # type: ignore[attr-defined]
    with torch.no_grad():
        wrong = net(found).argmax(1) != data.y
        already = net(data.x).argmax(1) != data.y
    return int((~(already | (wrong & inside))).sum()), spent


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = ("ripple", "tanh", "kwta", "saw", "blocks", "softmax", "plain")
    options.add_argument("--rows", type=int, default=60)
    options.add_argument("--trained", type=int, default=1, help="training seed of the network")
    options.add_argument("--kinds", nargs="*", default=list(kinds), choices=kinds)
    options.add_argument("--cache", type=Path, help="folder for the trained network")
    options.add_argument("--no-peer", action="store_true", help="without pyautoattack")
    options.add_argument("--smoke", action="store_true", help="to see that it runs: nothing judged")
    given = options.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    default, search = du.Standard(proofs=False), du.Square(5000)
    if given.smoke:
        given.rows, default, search = 6, du.Cascade(3, queries=10), du.Square(10)
    home = Path(os.environ.get("DUROMETER_CACHE") or Path.home() / ".cache" / "durometer")
    with tempfile.TemporaryDirectory() as fresh:
        kept = given.cache or (Path(fresh) if given.smoke else home / "lp_strength")
        net = network("adversarial", kept, given.smoke, given.trained)
    data = splits("mnist")[1].sample(given.rows)
    broken = []
    print(f"{given.rows} images: rows left (CPU s)")
    for kind in given.kinds:
        victim = spoiled(kind, net)  # type: ignore[arg-type]
        for space in SPACES:
            left, spent, share = ours(victim, data, space, default)
            other, long, _ = ours(victim, data, space, search)
            line = f"{kind:8s} {space!s:10s} default {left:3d} ({spent:.1f})  "
            line += f"Square(5000) {other:3d} ({long:.1f})  "
            if not given.no_peer:
                peer, took = theirs(victim, data, space, given.smoke)
                other = min(other, peer)
                line += f"pyautoattack {peer:3d} ({took:.1f})  "
            print(line + f"flagged: {share}", flush=True)
            if left > other + 1:
                broken.append(f"{kind} in {space}: {left - other} rows more than the better one")
            if kind == "plain" and share != "none":
                broken.append(f"{kind} in {space}: an ordinary network is flagged ({share})")
    print("bounds: " + ("; ".join(broken) if broken else "all kept"))
    sys.exit(1 if broken and not given.smoke else 0)


if __name__ == "__main__":
    main()
