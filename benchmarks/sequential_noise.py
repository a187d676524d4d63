"""Noise on networks by betting: draws until "stays with at least 0.99?" is decided, and smoothing
with a sequential test beside Cohen's fixed number of draws.

1. Three small networks, 200 records each: draws a record with `threshold=0.99` at alpha 0.01, and
   with the Monte Carlo that is the default without a threshold.
2. 10,000 simulated records with known probabilities: how many are decided wrongly.
3. Randomised smoothing on MNIST and Pima: Cohen, Rosenfeld & Kolter's certificate with 100,000
   draws at alpha 0.001, written here again, beside `certified_radius`: whether a given radius is
   reached (`at=`), and the radius itself (`precision=`).

    python benchmarks/sequential_noise.py [--smoke]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from scipy import stats

import durometer as du
from durometer.probability.sequential import confidence_sequence

N0, N, ALPHA = 100, 100_000, 0.001


def trained(data: du.Dataset, hidden: int, seed: int, noise: float = 0.0) -> torch.nn.Module:
    torch.manual_seed(seed)
    x, y = data.x.reshape(len(data), -1).float(), data.y
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], hidden), torch.nn.ReLU(),
        torch.nn.Linear(hidden, int(y.max()) + 1),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(300):
        rows = torch.randint(len(x), (256,))
        some = x[rows] + noise * torch.randn(256, x.shape[1])
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(some), y[rows]).backward()
        optimiser.step()
    return net.eval()


def flat(data: du.Dataset, most: int, size: int | None = None) -> du.Dataset:
    x = data.x[:most].float()
    if size is not None:
        x = torch.nn.functional.adaptive_avg_pool2d(x, size)
    return du.Dataset(x.reshape(len(x), -1).numpy(), data.y[:most].numpy())


def standard(train: du.Dataset, data: du.Dataset) -> du.Dataset:
    mean, sd = train.x.mean(0), train.x.std(0)
    return du.Dataset(((data.x - mean) / sd).numpy(), data.y.numpy())


def questions(cases: dict, records: int, baseline: int) -> None:
    print(
        "| network | noise sd | records | draws, mean | median | yes / no / open | before | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, (net, data, sd) in cases.items():
        data = du.Dataset(data.x[:records].numpy(), data.y[:records].numpy())
        t = du.evaluate(
            du.Nature(net, du.Normal(sd=sd), threshold=0.99), data, progress=False
        ).table
        few = du.Dataset(data.x[:baseline].numpy(), data.y[:baseline].numpy())
        old = du.evaluate(du.Nature(net, du.Normal(sd=sd)), few, progress=False).table
        yes = int((t["probability_low"] >= 0.99).sum())
        no = int((t["probability_high"] < 0.99).sum())
        mean, before = t["forwards"].mean(), old["forwards"].mean()
        print(
            f"| {name} | {sd} | {len(t)} | {mean:,.0f} | {t['forwards'].median():,.0f} | "
            f"{yes} / {no} / {len(t) - yes - no} | {before:,.0f} | 1/{before / mean:.1f} |",
            flush=True,
        )


def simulated(records: int) -> None:
    """Half of the records within 0.002 of the threshold, where a wrong decision is easiest."""
    rng = np.random.default_rng(0)
    p = np.where(rng.random(records) < 0.5, rng.uniform(0.988, 0.992, records), rng.random(records))
    hits, rows, made, wrong = np.zeros(records, np.int64), np.arange(records), 0, 0
    spent = np.zeros(records)
    while len(rows) and made < 100_000:
        n = min(16 * max(1, made // 128), 100_000 - made)
        hits[rows] += rng.binomial(n, p[rows])
        made += n
        spent[rows] = made
        low, high = confidence_sequence(hits[rows], np.full(len(rows), made), 0.99, 0.99)
        yes, no = low >= 0.99, high < 0.99
        wrong += int((yes & (p[rows] < 0.99)).sum() + (no & (p[rows] >= 0.99)).sum())
        rows = rows[~(yes | no)]
    print(
        f"\nsimulated: {wrong} of {records:,} decided wrongly "
        f"({wrong / records:.4f}; at most 0.01), {len(rows)} open, mean draws {spent.mean():,.0f}\n"
    )


def cohen(net: torch.nn.Module, x: np.ndarray, sd: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """CERTIFY of Cohen et al.: labels and radii, 0 where it abstains."""
    torch.manual_seed(1)
    label, radius = np.zeros(len(x), int), np.zeros(len(x))
    with torch.no_grad():
        for i, row in enumerate(torch.from_numpy(x).float()):

            def counts(m: int, row: torch.Tensor = row) -> torch.Tensor:
                total: torch.Tensor | int = 0
                for start in range(0, m, 10_000):
                    z = row + sd * torch.randn(min(10_000, m - start), len(row))
                    total = total + torch.bincount(net(z).argmax(1), minlength=10)
                return total

            label[i] = int(counts(N0).argmax())
            k = int(counts(n)[label[i]])
            low = stats.beta.ppf(ALPHA, k, n - k + 1) if k else 0.0
            radius[i] = sd * max(stats.norm.ppf(low), 0.0)
    return label, radius


def smoothing(cases: dict, records: int, n: int) -> None:
    print("| network | sd | question | same answer | draws of Cohen's |")
    print("|---|---|---|---|---|")
    lines = []
    for name, (net, data, sd) in cases.items():
        x = data.x[:records].numpy().astype(float)
        _, fixed = cohen(net, x, sd, n)
        nature = du.Nature(net, du.Normal(sd=sd), draws=n + N0, confidence=1 - ALPHA)
        for times in (0.5, 1.0, 1.5, 2.0, 3.0):
            ours = nature.certified_radius(x, at=times * sd)
            same = (ours["L2"] >= times * sd).to_numpy() == (fixed >= times * sd)
            part = ours["draws"].mean() / (n + N0)
            print(f"| {name} | {sd} | radius >= {times * sd:g}? | {same.mean():.3f} | {part:.3f} |",
                  flush=True)  # fmt: skip
        for precision in (0.05, 0.1, 0.2):
            ours = nature.certified_radius(x, precision=precision)
            r = ours["L2"].to_numpy()
            some = fixed > 0
            lines.append(
                f"| {name} | {precision} | {(r >= fixed).mean():.3f} | "
                f"{(r[some] >= (1 - precision) * fixed[some]).mean():.3f} | "
                f"{r.mean():.4f} / {fixed.mean():.4f} | {ours['draws'].mean() / (n + N0):.3f} |"
            )
    print(
        "\n| network | precision | radius at least Cohen's | at least (1 - precision) of it | "
        "mean radius, ours / Cohen's | draws of Cohen's |\n|---|---|---|---|---|---|"
    )
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="toy size: does it still run?")
    smoke = parser.parse_args().smoke
    records, baseline, n, few = (10, 2, 2000, 5) if smoke else (200, 3, N, 60)
    digits, pima = du.datasets.mnist(), du.datasets.pima()
    small = flat(digits.train, 4000, 14), flat(digits.test, 1000, 14)
    table = standard(pima.train, pima.train), standard(pima.train, pima.test)
    x, y = torch.cat([pima.test.x, pima.train.x]), torch.cat([pima.test.y, pima.train.y])
    both = standard(pima.train, du.Dataset(x.numpy(), y.numpy()))
    plain = {
        "MNIST 14 x 14, 64 hidden": (trained(small[0], 64, 0), small[1], 0.1),
        "MNIST 14 x 14, 256 hidden": (trained(small[0], 256, 1), small[1], 0.2),
        "Pima, 32 hidden": (trained(table[0], 32, 2), both, 0.1),
    }
    questions(plain, records, baseline)
    simulated(200 if smoke else 10_000)
    smoothed = {
        "MNIST 14 x 14": (trained(small[0], 64, 0, 0.25), small[1], 0.25),
        "Pima": (trained(table[0], 32, 2, 0.25), both, 0.25),
    }
    smoothing(smoothed, few, n)


if __name__ == "__main__":
    main()
