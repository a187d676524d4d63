"""The model-space loop against the authors' way of running it; kNN of RMC against a Python loop.

    python benchmarks/model_space.py [--only loop] [--smoke]

The peer is the published loop: models one after the other, weights that collect gradients nobody
uses, for MIN all graphs held until one backward pass through all of them, every iteration from a
cold random start, MIN with (i + 1) times the steps. Ours is `Victims` inside `GMSA`: no weight
gradients, for MIN one backward pass per row, and warm starts (`warm=`). Both solve the same T + 1
problems over the same models, fixed beforehand, so that only the attack is timed; both are then
judged by the same held-out model. CPU seconds: for 5 models medians of runs in turn (A B A B ...),
for 10 one run each.
"""

import argparse
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import durometer as du
from durometer.architectures import LeNet
from durometer.defenses.rmc import Bank
from durometer.model.classifier import wrap
from durometer.problem.victims import Victims
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard

EPS = 0.1


class Waiting:
    """A defender whose moves are known: its k-th rehearsal gives the k-th of a list of models."""

    stateful = False

    def __init__(self, models: list[nn.Module], last: nn.Module) -> None:
        self.models, self.last, self.calls = [wrap(m) for m in models], wrap(last), 0

    def start(self) -> None:
        return None

    def base(self, state: None) -> object:
        return self.models[0]

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[object, None]:
        self.calls += 1
        rehearsing = self.calls < len(self.models)
        return (self.models[self.calls] if rehearsing else self.last), None


def published(models: list[nn.Module], x: Tensor, y: Tensor, how: str, steps: int) -> Tensor:
    """PGD on models 0..i for i = 0, 1, ...; the set of the last iteration."""
    found = x
    for i in range(len(models)):
        used = models[: i + 1]
        count = steps * (i + 1) if how == "min" else steps
        g = torch.Generator().manual_seed(i)
        delta = (torch.rand(x.shape, generator=g) * 2 - 1) * EPS
        delta = ((x + delta).clamp(0, 1) - x).requires_grad_()
        best, best_loss = torch.zeros_like(x), torch.full((len(x),), -torch.inf)
        for _ in range(count + 1):
            if how == "avg":
                loss = torch.zeros(len(x))
                for model in used:
                    each = cross_entropy(model(x + delta), y, reduction="none")
                    each.mean().backward()
                    loss += each.detach()
            else:
                each = torch.stack(
                    [cross_entropy(model(x + delta), y, reduction="none") for model in used]
                ).amin(0)
                each.mean().backward()
                loss = each.detach()
            up = loss > best_loss
            best[up], best_loss[up] = delta.detach()[up], loss[up]
            with torch.no_grad():
                delta += 2.5 / steps * EPS * delta.grad.sign()
                delta.clamp_(-EPS, EPS)
                delta.copy_((x + delta).clamp(0, 1) - x)
            delta.grad = None
        found = x + best
    return found


def ours(
    models: list[nn.Module], last: nn.Module, data: du.Dataset, how: str, steps: int
) -> Tensor:
    # With an iteration per model, the candidate of the last one is the set that has seen all.
    game = du.Transductive(Waiting(models, last), batch=len(data), probe=False)
    attack = du.GMSA(
        du.PGD(steps), how, len(models) - 1, warm=steps if how == "min" else max(2, steps // 4)
    )
    report = du.evaluate(game, data, space=du.Linf(EPS), attack=attack, progress=False)
    return torch.as_tensor(report.adversarial)


def robust(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((model(x).argmax(1) == y).double().mean())


def loop(count: int, smoke: bool) -> None:
    parts = du.datasets.mnist()
    data = parts.test.sample(8 if smoke else 64 if count == 5 else 32)
    train = parts.train.sample(200 if smoke else 2000)
    width, steps = (2, 4) if smoke else (8, 10)
    nets = []
    for seed in range(count + 1):
        net = fresh(lambda: LeNet(width=width), seed)
        fit(net, train, Standard(), epochs=1 if smoke else 3, seed=seed, progress=False)
        nets.append(net.eval())
    models, held = nets[:-1], nets[-1]
    for how in ("avg", "min"):
        seconds: dict[str, list[float]] = {"peer": [], "ours": []}
        for _ in range(2 if count == 5 else 1):  # ten models: minutes, by the peer's MIN
            for who in seconds:
                began = time.process_time()
                if who == "peer":
                    theirs = published(models, data.x, data.y, how, steps)
                else:
                    mine = ours(models, held, data, how, steps)
                seconds[who].append(time.process_time() - began)
        ratio = np.median(seconds["peer"]) / np.median(seconds["ours"])
        print(
            f"GMSA-{how.upper()}, {count} models, {len(data)} images, {steps} steps: "
            f"{np.median(seconds['peer']):.2f} s against {np.median(seconds['ours']):.2f} s: "
            f"{ratio:.1f}x; held-out robust accuracy {robust(held, theirs, data.y):.3f} against "
            f"{robust(held, mine, data.y):.3f}",
            flush=True,
        )


def gradient(count: int, rows: int, build: object) -> None:
    """One gradient of the mean loss: stacked in one call, and one model after the other."""
    models = tuple(wrap(build().eval().requires_grad_(False)) for _ in range(count))
    shape = (1, 28, 28) if isinstance(models[0].module, LeNet) else (60,)
    x = torch.rand(rows, *shape)
    classes = models[0].logits(x[:1]).shape[1]
    targets = torch.ones(rows, classes, dtype=torch.bool)
    targets[:, 0] = False
    times = {}
    for name, rule in (("one call", lambda n: True), ("in turn", lambda n: False)):
        victims = Victims(models)
        object.__setattr__(victims, "_vectorised", rule)

        def query(victims: Victims = victims) -> None:
            point = x.clone().requires_grad_()
            _, value = victims.look(point, torch.arange(rows), du.losses.ce, targets)
            torch.autograd.grad(value.sum(), point)

        query()
        laps = []
        for _ in range(5):
            began = time.process_time()
            query()
            laps.append(time.process_time() - began)
        times[name] = float(np.median(laps))
    kind = type(models[0].module).__name__
    print(
        f"gradient over {count} {kind}, {rows} rows: one call {1e3 * times['one call']:.1f} ms, "
        f"in turn {1e3 * times['in turn']:.1f} ms: {times['in turn'] / times['one call']:.2f}x"
    )


def neighbours(smoke: bool) -> None:
    size, width, k = (500, 8, 16) if smoke else (20_000, 128, 1024)
    g = torch.Generator().manual_seed(0)
    features, query = torch.rand(size, width, generator=g), torch.rand(1, width, generator=g)
    bank = Bank(features, torch.zeros(size), features, size)
    began = time.process_time()
    distances = [float(torch.dist(query[0], row)) for row in features]
    slow = np.argsort(distances)[:k]
    loop_seconds = time.process_time() - began
    began = time.process_time()
    for _ in range(10):
        fast = bank.nearest(query, k)[0].numpy()
    ours_seconds = (time.process_time() - began) / 10
    shared = len(set(slow.tolist()) & set(fast.tolist())) / k
    print(
        f"kNN, {size} rows of {width}, k = {k}: {1e3 * loop_seconds:.1f} ms against "
        f"{1e3 * ours_seconds:.2f} ms: {loop_seconds / ours_seconds:.0f}x; "
        f"same neighbours {shared:.3f}"
    )


def table_net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(60, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", choices=("loop", "gradient", "knn"))
    given = parser.parse_args()
    smoke, parts = given.smoke, (given.only,) if given.only else ("loop", "gradient", "knn")
    torch.set_num_threads(1)
    if "knn" in parts:
        neighbours(smoke)
    if "gradient" in parts:
        for build in (table_net, lambda: LeNet(width=2 if smoke else 8)):
            for rows in (1,) if smoke else (1, 8, 64):
                gradient(3 if smoke else 10, rows, build)
    if "loop" in parts:
        for count in (2,) if smoke else (5, 10):
            loop(count, smoke)


if __name__ == "__main__":
    main()
