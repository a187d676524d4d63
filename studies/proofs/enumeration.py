"""How many attackable rows are missed? Every valid record of small tables, tried by plain loops.

    OMP_NUM_THREADS=1 python studies/proofs/enumeration.py [--smoke] [--set NAME]

(a) five whole numbers 0..12, L2 of 0.22, eleven sets of relations, 40 rows each, for boosted
trees, a forest and a network; (b) a category, a one-hot group and three numbers, L1, L2 and L0,
60 rows. A row is attackable if one of its valid neighbours (found by numpy, relations written as
Python) gets another answer. `Standard(proofs=False)` is the attack alone, `Standard()` the
default, `Exact` what trees get there. A miss is an attackable row that is not broken; a
contradiction a proof of one.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import durometer as du

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.oracles.brute import records

TOP, EPS = 12, 0.22
Rule = Callable[[np.ndarray], np.ndarray]


def _xor(g: np.ndarray) -> np.ndarray:
    return ((g[:, 0] > 6) != (g[:, 1] > 6)) & ((g[:, :5] > 3).sum(1) >= 2)


SETS: dict[str, tuple[list[str], Rule]] = {
    "none": ([], lambda g: np.ones(len(g), bool)),
    "linear": (["a + b <= c + 8", "d <= 2 * e + 3"],
               lambda g: (g[:, 0] + g[:, 1] <= g[:, 2] + 8) & (g[:, 3] <= 2 * g[:, 4] + 3)),
    "sum": (["a + b == c + d"], lambda g: g[:, 0] + g[:, 1] == g[:, 2] + g[:, 3]),
    "two sums": (["a + b == c + d", "b + e == d + 2"],
                 lambda g: (g[:, 0] + g[:, 1] == g[:, 2] + g[:, 3])
                 & (g[:, 1] + g[:, 4] == g[:, 3] + 2)),
    "products": (["a * b <= 30", "c * d <= e * 9 + 12"],
                 lambda g: (g[:, 0] * g[:, 1] <= 30) & (g[:, 2] * g[:, 3] <= g[:, 4] * 9 + 12)),
    "min": (["c == min(12, a * b)"], lambda g: g[:, 2] == np.minimum(12, g[:, 0] * g[:, 1])),
    "parity": (["a % 2 == 0", "b in {0, 3, 4, 9, 12}"],
               lambda g: (g[:, 0] % 2 == 0) & np.isin(g[:, 1], [0, 3, 4, 9, 12])),
    "product ==": (["a * b == 12"], lambda g: g[:, 0] * g[:, 1] == 12),
    "xor, count": (["(a > 6 and b <= 6) or (a <= 6 and b > 6)",
                    "count(a > 3, b > 3, c > 3, d > 3, e > 3) >= 2"], _xor),
    "floor, %": (["c == floor(a / 2) + b % 3"],
                 lambda g: g[:, 2] == np.floor(g[:, 0] / 2) + g[:, 1] % 3),
    "squares": (["a**2 + b**2 == c**2 + d**2"],
                lambda g: g[:, 0]**2 + g[:, 1]**2 == g[:, 2]**2 + g[:, 3]**2),
}  # fmt: skip
VALUES = [[0, 1, 2, 3], range(9), range(9), range(9), [0, 1], [0, 1], [0, 1]]
KINDS = ["category", *["number"] * 3, *["member"] * 3]
CODED = [
    (0.3, 2.0), (1.45, 2.0), (1.6, 2.0), (0.4, 1.0), (2.1, 1.0), (2.6, 1.0), (1.0, 0.0), (2.0, 0.0),
]  # fmt: skip


def numbers() -> np.ndarray:
    """(13^5, 5) every record."""
    return np.array(list(itertools.product(range(TOP + 1), repeat=5)), dtype=float)


def near(rule: Rule, x: np.ndarray) -> list[np.ndarray]:
    """The valid neighbours of each row."""
    far = int(EPS * TOP)
    step = np.array(list(itertools.product(range(-far, far + 1), repeat=5)), dtype=float)
    step = step[(step**2).sum(1) <= (EPS * TOP) ** 2 * (1 + 1e-9)]
    found = []
    for row in x:
        g = row + step
        g = g[((g >= 0) & (g <= TOP)).all(1)]
        found.append(g[rule(g)])
    return found


def models(x: np.ndarray, y: np.ndarray, schema: Any, small: bool) -> dict[str, Any]:
    """Each with its labels of numpy rows."""
    count = 10 if small else 40
    torch.manual_seed(0)
    net = du.architectures.MLP(schema, 2, widths=(32, 16), seed=0)
    adam = torch.optim.Adam(net.parameters(), 0.01)
    at, answer = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(100 if small else 400):
        loss = torch.nn.functional.cross_entropy(net(at), answer)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return {
        "xgboost": XGBClassifier(n_estimators=count, max_depth=4, n_jobs=1).fit(x, y),
        "forest": RandomForestClassifier(count, max_depth=7, random_state=0).fit(x, y),
        "network": net.eval(),
    }


def labels(model: Any, x: np.ndarray) -> np.ndarray:
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return np.asarray(model(torch.from_numpy(x)).argmax(1).numpy())
    return np.asarray(model.predict(x))


def judged(model: Any, schema: Any, space: Any, x: np.ndarray, around: list[np.ndarray]) -> str:
    """One line: attackable rows, and for each way of playing what is missed, proven, open."""
    answer = labels(model, x)
    attackable = np.array(
        [(labels(model, g) != a).any() for g, a in zip(around, answer, strict=True)]
    )
    data = du.Dataset(torch.from_numpy(x), answer.astype(int), schema=schema)
    parts = [f"{int(attackable.sum())} of {len(x)}"]
    gradients = isinstance(model, torch.nn.Module)
    plays: list[Any] = [du.Standard(proofs=False), du.Standard()]
    if not gradients:
        plays.append(du.Exact())
    for attack in plays:
        began = time.process_time()
        report = du.evaluate(model, data, space=space, attack=attack, progress=False)
        verdict = report.table["verdict"].to_numpy()
        broken, proven = verdict == "broken", verdict == "proven"
        wrong = int((broken & ~attackable).sum() + (proven & attackable).sum())
        missed, left = int((attackable & ~broken).sum()), int((verdict == "open").sum())
        parts.append(f"{missed}, {left}, {wrong}, {time.process_time() - began:.1f}")
    return " | ".join(parts + ["-"] * (4 - len(parts)))


def whole_numbers(name: str, rows: int, small: bool) -> None:
    text, rule = SETS[name]
    schema = du.Schema([du.Feature(c, "integer", 0, TOP) for c in "abcde"], text)
    rng = np.random.default_rng(list(SETS).index(name))
    grid = numbers()
    grid = grid[rule(grid)]
    x = grid[rng.permutation(len(grid))[:2000]]
    score = (
        x @ [1.0, -0.8, 0.6, -0.5, 0.4]
        + 0.25 * x[:, 0] * (x[:, 3] > 5)
        - 0.2 * x[:, 1] * (x[:, 2] > 7)
    )
    y = (score + rng.normal(0, 1, len(x)) > np.median(score)).astype(np.int64)
    held = x[:rows]
    around = near(rule, held)
    space = schema.space(eps=EPS, p=2)
    for kind, model in models(x[rows:], y[rows:], schema, small).items():
        line = judged(model, schema, space, held, around)
        print(f"| {name}, {kind} | {line} |", flush=True)


def coded(rows: int, small: bool) -> None:
    features = [
        du.Feature("k", "category", values=("s", "t", "u", "v")),
        *(du.Feature(c, "integer", 0, 8) for c in "abc"),
        *(du.Feature(c, "boolean", group="g") for c in "pqr"),
    ]
    schema = du.Schema(features, ["if k == 's' then a <= 4", "b + c <= 12"])
    rng = np.random.default_rng(99)
    x = np.concatenate([rng.integers(0, 4, (3000, 1)), rng.integers(0, 9, (3000, 3)),
                        np.eye(3)[rng.integers(0, 3, 3000)]], axis=1)  # fmt: skip

    def rule(g: np.ndarray) -> np.ndarray:
        return np.asarray(((g[:, 0] != 0) | (g[:, 1] <= 4)) & (g[:, 2] + g[:, 3] <= 12))

    x = x[rule(x)][:2000]
    score = (
        x @ [0.0, 0.7, -0.6, 0.5, 1.5, 0.0, -1.5]
        + np.array([2.0, -2.0, 0.5, -0.5])[x[:, 0].astype(int)]
    )
    y = (score + rng.normal(0, 1, len(x)) > np.median(score)).astype(np.int64)
    held = x[:rows]
    trained = models(x[rows:], y[rows:], schema, small)
    for eps, p in CODED:
        around = [records(r, VALUES, KINDS, eps, p, rule, [(4, 5, 6)]) for r in held]
        space = schema.space(eps=eps, p=p)
        for kind, model in trained.items():
            line = judged(model, schema, space, held, around)
            print(f"| codes, L{p:.0f} {eps:g}, {kind} | {line} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--set", choices=[*SETS, "codes"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| relations, model | attackable | attack alone: missed, open, wrong, CPU s "
          "| default: the same | Exact: the same |")  # fmt: skip
    print("|---|---|---|---|---|")
    for name in [options.set] if options.set else [*SETS, "codes"]:
        if name == "codes":
            coded(6 if options.smoke else 60, options.smoke)
        else:
            whole_numbers(name, 6 if options.smoke else 40, options.smoke)


if __name__ == "__main__":
    main()
