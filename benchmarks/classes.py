"""Thousands of classes: what a group goal costs to set up, each loss a step, and 5,000 of them.

Every class may be pushed to half of the others, so 1,000 classes are half a million pairs. Asked:

    set-up    `du.evaluate` with an attack that does nothing: reading the goal, the clean passes,
              the records and the text; then with one gradient step. CPU seconds, peak memory.
    losses    value and gradient of a loss at 256 rows x 1,000 classes, against the definition
              written down as a table of all pairs (n, C, C), made in parts of 32 rows so that it
              fits; ms and MB a step, and ratios, in the same run. `md` takes one target per row.
    verdicts  a run with 5,000 classes; every row's verdict against brute force: the logits of the
              point that was handed in, its highest class looked up in the relation.

    python benchmarks/classes.py [--smoke]

What a reader would get wrong: the network is one matrix here, so nearly all of the time is that of
goal and loss. With a real network it is the other way round.
Ends with exit code 1 if setting up takes a second or more, a table of pairs is not slower, or a
verdict is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import durometer as du
from durometer.extend import Attack, Needs, Problem

FEATURES = 32


@dataclass(frozen=True)
class Nothing:
    """An attack that hands in nothing: what is left is everybody else's time."""

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        pass


def relation(count: int) -> dict[int, list[int]]:
    """Each class to the half of the classes that follow it."""
    return {s: [(s + 1 + t) % count for t in range(count // 2)] for s in range(count)}


def subject(rows: int, count: int) -> tuple[torch.nn.Module, du.Dataset]:
    net = du.training.fresh(lambda: torch.nn.Linear(FEATURES, count), seed=0).eval()
    x = torch.rand(rows, FEATURES, generator=torch.Generator().manual_seed(0))
    return net, du.Dataset(x, net(x).argmax(1).detach())


def memory(field: str) -> float:
    """MB of this process: `VmRSS` now, `VmHWM` at most so far (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def apart(work: Callable[..., float], *given: object) -> tuple[float, float]:
    """What work returns, and the MB it took at most: in a process of its own, so none is reused."""
    with mp.get_context("fork").Pool(1) as pool:
        found: tuple[float, float] = pool.apply(_watched, (work, given))
        return found


def _watched(work: Callable[..., float], given: tuple[object, ...]) -> tuple[float, float]:
    torch.set_num_threads(1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = memory("VmRSS")
    answer = work(*given)
    return answer, memory("VmHWM") - before


def whole(attack: Attack, rows: int, count: int) -> float:
    """CPU seconds of an evaluation, its text included."""
    net, data = subject(rows, count)
    goal = du.Group(relation(count))
    began = time.process_time()
    str(du.evaluate(net, data, space=du.Linf(0.02), goal=goal, attack=attack, progress=False))
    return time.process_time() - began


def set_up(rows: int, count: int) -> list[str]:
    whole(du.FGSM(), 16, 4)  # nobody's first call is timed: imports and such
    print(f"{count:,} classes, {rows:,} rows, {count * (count // 2):,} pairs; CPU-s, peak MB more")
    seconds = {}
    for name, attack in (("set-up (an attack that does nothing)", Nothing()), ("FGSM", du.FGSM())):
        seconds[name], most = apart(whole, attack, rows, count)
        print(f"{name:40s} {seconds[name]:8.2f} s  {most:8.0f} MB", flush=True)
    first = next(iter(seconds.values()))
    return [f"setting up takes {first:.2f} s, at most 1 allowed"] if first >= 1 else []


def table_md(logits: Tensor, targets: Tensor) -> Tensor:
    """(n, C): sum_i relu(z_i - z_t) over the classes i that are no targets, by a table of pairs."""
    return ((logits[:, None, :] - logits[:, :, None]).relu() * ~targets[:, None, :]).sum(2)


def table_mdmul(logits: Tensor, targets: Tensor) -> Tensor:
    return -(table_md(logits, targets).clamp_min(1e-12).log() * targets).sum(1)


def table_mdmax(logits: Tensor, targets: Tensor) -> Tensor:
    return (-table_md(logits, targets)).masked_fill(~targets, -torch.inf).amax(1)


def table_lse(logits: Tensor, targets: Tensor) -> Tensor:
    """Soft maximum over targets of the smallest difference to a class that is none."""
    gaps = logits[:, :, None] - logits[:, None, :]
    lowest = gaps.masked_fill(targets[:, None, :], torch.inf).amin(2)
    return lowest.masked_fill(~targets, -torch.inf).logsumexp(1)


PAIRS = {"mdmul": table_mdmul, "mdmax": table_mdmax, "lse": table_lse, "md": table_mdmax}


def case(name: str, rows: int, count: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(rows, count, generator=g)
    targets = torch.rand(rows, count, generator=g) < 0.5
    if name == "md":
        targets = torch.zeros_like(targets).index_fill_(1, torch.tensor([count // 2]), True)
    return logits, targets


def step(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    z = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(z, targets).sum(), z)[0]


def pace(name: str, pairs: bool, rows: int, count: int, repeats: int) -> float:
    """CPU seconds of a value and a gradient, the least of some."""
    loss = PAIRS[name] if pairs else du.losses.find(name)
    logits, targets = case(name, rows, count)
    part = min(rows, 32) if pairs else rows
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        for z, t in zip(*(torch.split(table, part) for table in (logits, targets)), strict=True):
            step(loss, z, t)
        best = min(best, time.process_time() - began)
    return best


def losses(rows: int, count: int) -> list[str]:
    print(f"\nvalue and gradient, {rows} rows x {count:,} classes: CPU ms a step, peak MB more")
    print(
        f"{'':8s} {'ours':>16s} {'table of pairs':>18s} {'time ratio':>11s} {'same gradient':>14s}"
    )
    broken = []
    for name in PAIRS:
        ours, mine = apart(pace, name, False, rows, count, 10)
        theirs, table = apart(pace, name, True, rows, count, 1)
        logits, targets = case(name, 8, min(count, 200))
        logits = logits.double()
        same = torch.allclose(step(du.losses.find(name), logits, targets),
                              step(PAIRS[name], logits, targets), atol=1e-9)  # fmt: skip
        print(f"{name:8s} {1000 * ours:7.1f} {mine:5.0f} MB {1000 * theirs:9.0f} {table:5.0f} MB "
              f"{ours / theirs:11.4f} {same!s:>14s}", flush=True)  # fmt: skip
        if not same or ours >= theirs:
            broken.append(f"{name}: {ours / theirs:.2f} of the table's time, same {same}")
    return broken


def verdicts(rows: int, count: int, attack: Attack) -> list[str]:
    net, data = subject(rows, count)
    wanted = relation(count)
    began = time.process_time()
    report = du.evaluate(net, data, space=du.Linf(0.03), goal=du.Group(wanted), attack=attack,
                         progress=False)  # fmt: skip
    spent = time.process_time() - began
    handed = torch.as_tensor(report.adversarial).reshape(rows, FEATURES)
    with torch.no_grad():
        now = net(handed).argmax(1).tolist()
    inside = (handed - data.x).abs().amax(1) <= 0.03 + 1e-6
    reached = [t in wanted[s] for s, t in zip(data.y.tolist(), now, strict=True)]
    truth = torch.tensor(reached) & inside
    said = torch.from_numpy(report.table["success"].to_numpy().astype(bool))
    wrong = int((truth != said).sum())
    print(f"\n{count:,} classes, {rows:,} rows, {attack}: {spent:.1f} CPU-s, {int(said.sum())} "
          f"broken, {wrong} verdicts differ from brute force, "
          f"{memory('VmHWM'):.0f} MB at most in all")  # fmt: skip
    return [f"{wrong} of {rows} verdicts are wrong"] if wrong or not said.any() else []


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--smoke", action="store_true", help="to see that it runs: few classes")
    given = options.parse_args()
    torch.set_num_threads(1)
    small = given.smoke
    broken = set_up(*((200, 50) if small else (10_000, 1000)))
    slow = losses(*((32, 50) if small else (256, 1000)))
    broken += [] if small else slow
    attack = du.Escalation(3 if small else 10)
    broken += verdicts(*((40, 60) if small else (500, 5000)), attack)
    print("\nbounds: " + ("; ".join(broken) if broken else "all kept"))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
