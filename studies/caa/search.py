"""Search attacks on published and trained models: who breaks how much, at what price.

    python studies/caa/search.py --models moeva_published_models.npz
    python studies/caa/search.py --models ... --peer peer.jsonl --pairs url/mlp ctu13/published

For each pair of `benchmarks/pairs.py` and each seed: robust accuracy, model evaluations and CPU
time per row of CAPGD, MOEVA, CAA, BF*, Graft and CAA with Graft, and on trees what `Exact` decides
("robust" is an upper bound, "proven" the lower one). Every success is judged again by
`table_rules.py`, plain numpy that knows nothing of the library.

`--peer FILE` compares MOEVA with the published one instead, one pymoo run per row (about 3 CPU
seconds each), ten rows at a time, appended to the file so that it can be cut off and gone on with.
Ours is cheap enough for `--ours` more seeds: one seed on 100 rows says little about 2 points.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import durometer as du
from durometer.trees.readers import reader

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "benchmarks")]
import table_rules  # noqa: E402
from pairs import PAIRS, Pair, pair  # noqa: E402

ATTACKS = {
    "CAPGD": du.CAPGD(),
    "MOEVA": du.MOEVA(),
    "CAA": du.CAA(),
    "BF*": du.BFS(),
    "Graft": du.Graft(),
    "CAA, Graft": du.CAA(search=du.Graft()),
    "exact": du.Then(du.Exact(2.0), du.Graft()),  # trees: what is true, from both sides
}


def invalid(p: Pair, report: du.Report) -> int:
    """How many successes the second judge refuses."""
    won = report.table["success"].to_numpy()
    name = {"url": "url", "lcld": "lcld47", "ctu13": "ctu13"}[p.name.split("/")[0]]
    x0, x = p.data.x.numpy()[won], np.asarray(report.adversarial)[won]
    said = du.wrap(p.model).logits(du.Dataset(x, np.zeros(len(x), int)).x).argmax(1).numpy()
    right = table_rules.valid(name, p.data.schema.features, x0, x, p.space.eps) & (said == 0)
    return int((~right).sum())


def peer(p: Pair, seed: int, file: Path) -> np.ndarray:
    """Which rows the one-at-a-time MOEVA breaks; from the file as far as it is there."""
    import one_by_one

    from durometer.attacks.evolution.survival import reference_points

    known: dict[int, bool] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        part = json.loads(line)
        if (part["pair"], part["seed"]) == (p.name, seed):
            known |= {part["start"] + i: bool(b) for i, b in enumerate(part["broken"])}
    for start in range(0, len(p.data), 10):
        rows = range(start, min(start + 10, len(p.data)))
        if all(i in known for i in rows):
            continue
        broken, cpu = one_by_one.attack(
            p.model, p.data.x[start : start + 10], p.space, p.targets[start : start + 10],
            np.array(reference_points(203)), seed,
        )  # fmt: skip
        known |= dict(zip(rows, broken.tolist(), strict=True))
        part = {"pair": p.name, "seed": seed, "start": start, "cpu": cpu, "broken": broken.tolist()}
        with file.open("a") as log:
            log.write(json.dumps(part) + "\n")
    return np.array([known[i] for i in range(len(p.data))])


def runs(p: Pair, attack: Any, seeds: int) -> Iterator[du.Report]:
    """One report per seed."""
    for seed in range(seeds):
        yield du.evaluate(p.model, p.data, space=p.space, attack=attack, seed=seed, progress=False)


def study(p: Pair, seeds: int, attacks: list[str]) -> None:
    print(f"\n{p.name}: {len(p.data)} rows, {seeds} seeds", flush=True)
    head = (
        ("robust", 8), ("proven", 8), ("by seed", 18), ("evaluations", 13), ("CPU ms/row", 12),
        ("invalid", 9),
    )  # fmt: skip
    trees = reader(du.wrap(p.model).source) is not None
    print(" " * 12 + "".join(f"{title:>{width}s}" for title, width in head))
    for name, attack in ((name, ATTACKS[name]) for name in attacks):
        if attack.needs.gradient and not du.wrap(p.model).differentiable:
            continue
        if name == "exact" and not trees:
            continue
        robust, proven, evaluations, wrong, began = [], [], [], 0, time.process_time()
        for report in runs(p, attack, seeds):
            robust.append(1 - report.table["success"].mean())
            proven.append((report.table["verdict"] == "proven").mean())
            evaluations.append(report.table["forwards"].mean())
            wrong += invalid(p, report)
        cpu = 1e3 * (time.process_time() - began) / seeds / len(p.data)
        each = " ".join(f"{r:.3f}" for r in robust)
        print(f"{name:12s}{np.mean(robust):8.3f}{np.mean(proven):8.3f}{each:>18s}"
              f"{np.mean(evaluations):13.0f}{cpu:12.1f}{wrong:9d}", flush=True)  # fmt: skip


def fidelity(p: Pair, seeds: int, file: Path, ours: int) -> None:
    """Robust accuracy of MOEVA and of pymoo row by row, on the same rows."""
    theirs = np.array([peer(p, seed, file) for seed in range(seeds)])
    mine = np.array([r.table["success"].to_numpy() for r in runs(p, du.MOEVA(), ours)])
    for name, broken in (("pymoo", theirs), ("MOEVA", mine[:seeds]), ("MOEVA", mine)):
        by_seed = 1 - broken.mean(1)
        each = " ".join(f"{r:.2f}" for r in by_seed)
        print(f"{p.name:18s}{len(p.data):5d} rows {name}, {len(broken)} seeds: {by_seed.mean():.3f}"
              f" ({each})", flush=True)  # fmt: skip
    again = (mine.mean(0) > 0) & (mine.mean(0) < 1)
    print(f"{'':18s}rows that depend on the seed: {again.sum()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="moeva_published_models.npz")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=ATTACKS)
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), choices=PAIRS)
    parser.add_argument("--peer", type=Path, help="pymoo row by row: what is known and will be")
    parser.add_argument("--ours", type=int, default=8, help="seeds of MOEVA against the peer")
    args = parser.parse_args()
    for name in args.pairs:
        p = pair(name, args.rows, args.models)
        if args.peer is None:
            study(p, args.seeds, args.attacks)
        else:
            fidelity(p, args.seeds, args.peer, args.ours)


if __name__ == "__main__":
    main()
