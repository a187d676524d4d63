"""Questions about whole tree ensembles: time, what stays between the bounds, and HiGHS beside it.

    python benchmarks/globally.py [--only adult,pima] [--models "XGB 100x4"] [--seconds 5] [--smoke]

Per table and model: how far a feature alone moves the score (influence), whether it alone flips a
decision (flips), and the strongest such flip. `low` and `high` are two-sided; `CPU` is of one
thread, with reading the model, the records beside it and the searches near the data (a third of the
time each). "confirmed" counts pairs that the model's own predict answers as the search says, of all
pairs handed back; what is valid is judged by `Schema.validate`. HiGHS (the same cells, trees and
constraints as a mixed-integer program, order-encoded, 20 s) is asked for the influence where the
model has at most 100 trees of depth 4.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

import durometer as du
from durometer.proofs.globally.asked import Asked
from durometer.proofs.globally.hunt import Costs
from durometer.proofs.globally.kernel import Program

TABLES = {
    "adult": ("sex", "age"), "german": ("personal_status", "age"), "pima": ("Age",),
    "bank": ("marital", "age"),
}  # fmt: skip
MODELS = (
    "XGB 100x4", "XGB 100x6", "XGB 300x6", "XGB 500x8", "LGB 100x31", "CatBoost 100x6", "RF 100x8",
    "logistic 1x1", "net 16x2",
)  # fmt: skip


def fitted(kind: str, x: np.ndarray, y: np.ndarray) -> Any:
    """A model by its short name, fitted on numbers and codes; gaps filled where it takes none."""
    name, _, size = kind.partition(" ")
    trees, depth = (int(v) for v in size.split("x"))
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    elif name == "net":
        return network(x, y, trees, depth)
    elif name == "XGB":
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1, random_state=0)
    elif name == "LGB":
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(
            n_estimators=trees, num_leaves=depth, n_jobs=1, verbose=-1, random_state=0
        )
    elif name == "CatBoost":
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(
            iterations=trees, depth=depth, verbose=0, thread_count=1, random_seed=0,
            allow_writing_files=False,
        )  # fmt: skip
    else:
        from sklearn.ensemble import RandomForestClassifier

        model = RandomForestClassifier(trees, max_depth=depth, random_state=0)
    return model.fit(x, y)


def network(x: np.ndarray, y: np.ndarray, width: int, layers: int) -> Any:
    """A ReLU network on standardised columns; the scaling is folded into its first layer."""
    torch.manual_seed(0)
    sizes = [x.shape[1], *[width] * layers]
    parts: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        parts += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*parts, torch.nn.Linear(sizes[-1], int(y.max()) + 1))
    mean, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0) + 1e-9
    rows = torch.from_numpy((np.nan_to_num(x, nan=0.0) - mean) / spread).float()
    labels, steps = torch.from_numpy(np.asarray(y)).long(), torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(150):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(rows), labels).backward()
        steps.step()
    with torch.no_grad():
        first: Any = net[0]
        first.weight /= torch.from_numpy(spread).float()
        first.bias -= first.weight @ torch.from_numpy(mean).float()
    return net.eval()


def table(name: str) -> tuple[np.ndarray, np.ndarray, du.Dataset]:
    """Rows to train on, their labels, and rows to ask beside."""
    if name == "pima":
        data = du.datasets.pima()
        data = getattr(data, "train", data)
        schema = data.schema or du.Schema.from_frame(data.table)
        data = data if data.schema else replace(data, schema=schema)
        return data.x.numpy(), data.y.numpy(), data.take(np.arange(200))
    splits = getattr(du.datasets, name)()
    return splits.train.x.numpy(), splits.train.y.numpy(), splits.test


def highs(program: Program, seconds: float) -> tuple[float | None, float, float]:
    """The least and the bound of a program with one cost, and CPU seconds."""
    begin = time.process_time()
    above = np.concatenate(
        [[0], np.cumsum(program.cells - 1)]
    )  # [cell <= j] for each j but the last
    count = int(above[-1])
    rows: list[tuple[list[tuple[int, float]], float, float]] = []
    for f, cells in enumerate(program.cells):
        at = above[f]
        rows += [([(at + j, 1), (at + j + 1, -1)], -np.inf, 0) for j in range(cells - 2)]
    cost: dict[int, float] = {}
    t = program.trees
    for second in (False, True):
        leaf_cost = (program.second if second else program.first)[:, 0]
        for root in t.roots:
            leaves, splits = [], {}
            stack: list[tuple[int, list[tuple[int, int, int]]]] = [(int(root), [])]
            while stack:
                node, path = stack.pop()
                f = int(t.feature[node])
                if f < 0:
                    leaves.append(count)
                    cost[count] = float(leaf_cost[node])
                    for step in set(path):  # a tree may ask the same twice
                        splits.setdefault(step, []).append(count)
                    count += 1
                    continue
                f = int(program.copy[f]) if second else f
                c = int(t.cut[node])
                if c < 0 or c >= program.cells[f] - 1:
                    stack.append((int(t.right[node] if c < 0 else t.left[node]), path))
                    continue
                stack.append((int(t.left[node]), [*path, (f, c, 0)]))
                stack.append((int(t.right[node]), [*path, (f, c, 1)]))
            rows.append(([(v, 1.0) for v in leaves], 1, 1))
            for (f, c, side), inside in splits.items():
                terms = [(v, 1.0) for v in inside]
                terms.append((int(above[f]) + c, 1.0 if side else -1.0))
                rows.append((terms, -np.inf, float(side)))
    for terms, bound in program.rows.sums:
        line, fixed = [], 0.0
        for f, h in terms:
            fixed += float(h[-1])
            line += [(int(above[f]) + j, float(h[j] - h[j + 1])) for j in range(len(h) - 1)]
        rows.append((line, -np.inf, bound - fixed))
    for scope, flag in program.rows.lists:
        if len(scope) != 2:
            continue  # HiGHS answers an easier question: its bound may be higher
        f, g = scope
        for i, j in np.argwhere(flag.reshape(program.cells[f], -1) == 0):
            line, fixed = [], 0.0
            for feature, k in ((f, int(i)), (g, int(j))):  # [cell == k] as a difference
                last = k == program.cells[feature] - 1
                fixed += float(last)
                line += [] if last else [(int(above[feature]) + k, 1.0)]
                line += [(int(above[feature]) + k - 1, -1.0)] if k else []
            rows.append((line, -np.inf, 1 - fixed))
    place = [(r, v, w) for r, (terms, _, _) in enumerate(rows) for v, w in terms]
    r, v, w = (np.array(part) for part in zip(*place, strict=True))
    matrix = coo_array((w, (r, v)), shape=(len(rows), count)).tocsr()
    c = np.zeros(count)
    c[list(cost)] = list(cost.values())
    whole = np.zeros(count)
    whole[: above[-1]] = 1
    found = milp(
        c, integrality=whole, bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, [q[1] for q in rows], [q[2] for q in rows]),
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )  # fmt: skip
    best = None if found.x is None else float(found.fun)
    bound = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
    return best, bound, time.process_time() - begin


def confirmed(model: Any, schema: du.Schema, answer: du.GlobalAnswer) -> bool:
    """Is the pair valid, and does the model's own predict say what the answer says?"""
    rows = schema.tensor(answer.pair)
    clean = schema.validate(answer.pair).empty
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            own = [str(int(v)) for v in model(rows.float()).argmax(1)]
    else:
        own = [str(v) for v in np.ravel(model.predict(rows.numpy()))]
    return clean and own == [str(v) for v in answer.labels]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--models", default="")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    tables = [t for t in TABLES if not asked.only or t in asked.only.split(",")]
    models = [m for m in MODELS if not asked.models or m in asked.models.split(",")]
    if asked.smoke:
        tables, models, asked.seconds = ["german"], ["XGB 20x3"], 0.5
    pairs = good = 0
    for name in tables:
        x, y, test = table(name)
        for kind in models:
            try:
                model = fitted(kind, x, y)
            except ValueError as error:  # gaps in a model that takes none
                print(f"{name}, {kind}: not fitted ({str(error).splitlines()[0]})", flush=True)
                continue
            for feature in TABLES[name]:
                ask = {"of": [feature], "data": test, "seconds": asked.seconds}
                for what, verb, more in (
                    ("influence", du.influence, {}), ("flips", du.flips, {}),
                    ("strongest", du.flips, {"strongest": True}),
                ):  # fmt: skip
                    begin = time.process_time()
                    answer = verb(model, test.schema, **ask, **more)
                    spent = time.process_time() - begin
                    if answer.pair is not None:
                        pairs += 1
                        good += confirmed(model, test.schema, answer)
                    beside = "; ".join(str(b) for b in answer.beside)
                    print(
                        f"{name}, {kind}, {feature}, {what}: {answer.status}, {answer.value}, "
                        f"search {answer.seconds:.2f} s, CPU {spent:.2f} s, {answer.on_records}; "
                        f"{beside}", flush=True,
                    )  # fmt: skip
                if kind in ("XGB 100x4", "XGB 20x3"):
                    it = Asked.of(model, test.schema, [feature], (), None, None, None, 1.0, 1e-3)
                    value, _ = it.output_values(1)
                    costs = Costs(-value[:, None], value[:, None], np.zeros(1))
                    program = it.search.program(costs)
                    best, bound, cpu = highs(program, 2.0 if asked.smoke else 20.0)
                    low = "none" if best is None else f"{-best:.4f}"
                    print(
                        f"{name}, {kind}, {feature}, influence by HiGHS: at least {low}, at most "
                        f"{-bound:.4f}, CPU {cpu:.2f} s", flush=True,
                    )  # fmt: skip
    print(f"pairs confirmed by the model's own predict and valid: {good} of {pairs}")


if __name__ == "__main__":
    main()
