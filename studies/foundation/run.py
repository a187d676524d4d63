"""What a small in-context model is worth: accuracy, robust accuracy, poisoned context, bounds.

    python studies/foundation/train.py --out runs/nano.pt
    python studies/foundation/run.py runs/nano.pt
    python studies/foundation/run.py --smoke

1. Accuracy on five tables with 100 labelled rows, beside gradient boosting on the same rows.
2. Robust accuracy on URL under its relations, by CAA and by the standard attack.
3. Poison: 1, 2 or 5 of 100 context rows are changed anywhere in the data's box, labels stay;
   accuracy on the queries, beside random changes of the same rows.
4. At least and at most: proofs on the network with its context fixed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import durometer as du
from durometer.architectures import NanoPFN

CONTEXT = 100


def load(path: str) -> NanoPFN:
    kept = torch.load(path, weights_only=True)
    features, classes, width, layers, heads = kept["settings"]
    net = NanoPFN(features, classes, width, layers, heads)
    net.load_state_dict(kept["weights"])
    return net.eval().double()


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    pima, url = du.datasets.pima(), du.datasets.url()
    found = {
        name: make(return_X_y=True)
        for name, make in (("Iris", load_iris), ("wine", load_wine), ("cancer", load_breast_cancer))
    }
    for name, data in (("Pima", pima), ("URL", url)):
        x = torch.cat([data.train.x, data.test.x]).double().numpy()
        found[name] = x, torch.cat([data.train.y, data.test.y]).numpy()
    return found


def split(x: np.ndarray, y: np.ndarray, seed: int, rows: int) -> tuple[np.ndarray, ...]:
    a, b, c, d = train_test_split(x, y, train_size=CONTEXT, stratify=y, random_state=seed)
    return a, b[:rows], c, d[:rows]


def accuracy(net: NanoPFN, splits: int, rows: int) -> None:
    print("| table | NanoPFN, 100 rows | GB, 100 rows | HistGB, all others | paired: Nano - GB |")
    print("|---|---|---|---|---|")
    for name, (x, y) in tables().items():
        found = []
        for seed in range(splits):
            a, b, c, d = split(x, y, seed, rows)
            with torch.no_grad():
                logits = net(*map(torch.from_numpy, (a, c, b)))[:, : int(y.max()) + 1]
            boosted = GradientBoostingClassifier(random_state=0).fit(a, c)
            rest, _, many, _ = train_test_split(
                x, y, test_size=min(rows, len(x) - CONTEXT), stratify=y, random_state=seed
            )
            whole = HistGradientBoostingClassifier(random_state=0).fit(rest, many)
            _, other, _, truth = train_test_split(
                x, y, test_size=min(rows, len(x) - CONTEXT), stratify=y, random_state=seed
            )
            found.append([(logits.argmax(1).numpy() == d).mean(), boosted.score(b, d),
                          whole.score(other, truth)])  # fmt: skip
        m, s = np.mean(found, 0), np.array(found)[:, 0] - np.array(found)[:, 1]
        half = 1.96 * s.std(ddof=1) / len(s) ** 0.5 if len(s) > 1 else np.nan
        print(f"| {name} | {m[0]:.3f} | {m[1]:.3f} | {m[2]:.3f} | {s.mean():+.3f} +- {half:.3f} |",
              flush=True)  # fmt: skip


def relations(net: NanoPFN, rows: int, quick: bool) -> None:
    data = du.datasets.url()
    places = np.random.default_rng(0).permutation(len(data.train))[:CONTEXT]
    some = data.train[places.tolist()]
    fixed = net.given(some.x.double(), some.y, classes=2)
    test = data.test.head(rows)
    print("\n| URL, L2 0.5 under its relations | clean | at least | at most | CPU-s |")
    print("|---|---|---|---|---|")
    attacks = {
        "CAPGD": du.CAPGD(5 if quick else 10),
        "CAA": du.CAA(du.CAPGD(2), du.MOEVA(3)) if quick else du.CAA(),
        "Standard": "standard",
    }
    for name, attack in list(attacks.items())[: 2 if quick else 3]:
        began = time.process_time()
        report = du.evaluate(
            fixed, test, space=test.schema.space(eps=0.5), attack=attack, progress=False
        )
        e = [report.metric(m) for m in ("clean", "proven", "robust")]
        print(f"| {name} | {e[0]:.3f} | {e[1]:.3f} | {e[2].value:.3f} [{e[2].low:.3f}, "
              f"{e[2].high:.3f}] | {time.process_time() - began:.0f} |", flush=True)  # fmt: skip


def scaled(name: str, seed: int, rows: int) -> tuple[du.Dataset, du.Dataset]:
    """Context and queries with each column in [0, 1], by the whole table."""
    x, y = tables()[name]
    x = (x - x.min(0)) / np.maximum(x.max(0) - x.min(0), 1e-12)
    a, b, c, d = split(x, y, seed, rows)
    return du.Dataset(a, c), du.Dataset(b, d)


def poison(net: NanoPFN, names: tuple[str, ...], seeds: int, rows: int, steps: int) -> None:
    print("\n| table | rows poisoned | nobody | random rows | Poison | lost, paired over splits |")
    print("|---|---|---|---|---|---|")
    for name in names:
        for k in (1, 2, 5):
            found = []
            for seed in range(seeds):
                context, queries = scaled(name, seed, rows)
                defender = du.defenses.InContext(net, context)
                game, data = defender.game(queries, controlled=k, seed=seed)
                report = du.evaluate(game, data, space=du.Linf(1.0), progress=False,
                                     attack=du.Poison(du.APGD(steps)))  # fmt: skip
                rng, hit = np.random.default_rng(seed), []
                for _ in range(5):
                    moved = data.x.clone()
                    mine = torch.from_numpy(game.controlled)
                    moved[mine] = torch.from_numpy(rng.random((k, data.x.shape[1])))
                    model, _ = defender.adapt(None, moved, 0)
                    at = torch.arange(CONTEXT, len(data))
                    with torch.no_grad():
                        right = model.logits(data.x[at], at).argmax(1) == data.y[at]
                    hit.append(float(right.double().mean()))
                found.append([report.metric("benign_unpoisoned").value, np.mean(hit),
                              report.metric("benign").value])  # fmt: skip
            m, lost = np.mean(found, 0), np.array(found)[:, 0] - np.array(found)[:, 2]
            half = 1.96 * lost.std(ddof=1) / len(lost) ** 0.5 if len(lost) > 1 else np.nan
            print(f"| {name} | {k} of {CONTEXT} | {m[0]:.3f} | {m[1]:.3f} | {m[2]:.3f} | "
                  f"{lost.mean():.3f} +- {half:.3f} |", flush=True)  # fmt: skip


def bounds(net: NanoPFN, names: tuple[str, ...], rows: int, sizes: tuple[float, ...]) -> None:
    print("\n| table, context fixed | Linf, of each range | at least | at most | CPU-s a row |")
    print("|---|---|---|---|---|")
    for name in names:
        context, queries = scaled(name, 0, rows)
        classes = int(context.y.max()) + 1
        fixed = net.given(context.x, context.y, classes)
        for eps in sizes:
            began = time.process_time()
            report = du.evaluate(
                fixed, queries, space=du.Linf(eps), progress=False,
                attack=du.Then(du.APGD(20), du.Bounds()),
            )  # fmt: skip
            low, high = (report.metric(m).value for m in ("proven", "robust"))
            each = (time.process_time() - began) / len(queries)
            print(f"| {name} | {eps} | {low:.3f} | {high:.3f} | {each:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="?")
    parser.add_argument("--smoke", action="store_true", help="toy size, fresh weights")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.smoke:
        net = NanoPFN(64, 4, 16, 1, 2).eval().double()
        accuracy(net, 1, 20)
        relations(net, 3, True)
        poison(net, ("Iris",), 1, 10, 2)
        bounds(net, ("Iris",), 2, (0.001,))
        return
    net = load(asked.weights)
    accuracy(net, 5, 200)
    poison(net, ("Pima", "cancer", "wine"), 5, 78, 30)
    bounds(net, ("Iris", "Pima"), 20, (0.001, 0.003, 0.01))
    relations(net, 40, False)


if __name__ == "__main__":
    main()
