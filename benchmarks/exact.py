"""The exact worst case of trees: time a row and open rows, beside HiGHS, veritas, Graft, MOEVA.

    python benchmarks/exact.py [--out FILE] [--only linf,l2] [--minutes 10] [--smoke]
    python benchmarks/exact.py --out FILE --table

Every cell (a model in a space, by one method) is a line of FILE as soon as it is finished; a run
goes on where the last one stopped, so that it can be made in pieces. URL phishing (63 features, 14
relations, whole numbers), LCLD, CTU-13's features, Adult and digits; rows of both classes that the
model gets right, models trained here. `Exact` has 5 CPU-seconds a row. On the first of the same
rows, where they apply: HiGHS (mixed-integer program with the same relations, 20 s), veritas (bounds
only: no relations, no whole numbers, so it answers an easier question for the attacker), Graft and
MOEVA (searches: what they miss of the rows that are truly attackable). Times are CPU seconds of one
thread.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import durometer as du
from durometer.proofs.search.decide import decide
from durometer.spaces.lp import Lp
from durometer.trees import read

sys.path.insert(0, str(Path(__file__).parent.parent))  # the oracles of the tests


class Cell(NamedTuple):
    """A question: a model in a space, on so many rows, and who is asked besides Exact."""

    group: str
    data: str
    model: str
    eps: float
    p: float
    rows: int
    peers: tuple[str, ...] = ()


BOTH = ("Graft", "MOEVA")
ALL = ("HiGHS", "veritas", *BOTH)
INF = math.inf
CELLS = [
    Cell("linf", "url", "XGB 100x4", 0.05, INF, 200, ALL),
    Cell("linf", "url", "XGB 100x6", 0.05, INF, 200, ALL),
    Cell("linf", "url", "XGB 300x6", 0.05, INF, 200, BOTH),
    Cell("linf", "url", "LGB 100x31", 0.05, INF, 200, BOTH),
    Cell("linf", "url", "CatBoost 100x6", 0.05, INF, 200, BOTH),
    Cell("l2", "url", "XGB 100x6", 0.1, 2.0, 200, BOTH),
    Cell("l2", "url", "LGB 100x31", 0.1, 2.0, 200, BOTH),
    Cell("l2", "url", "XGB 300x6", 0.1, 2.0, 200),
    Cell("l1", "url", "XGB 100x6", 0.1, 1.0, 200, BOTH),
    Cell("l1", "url", "LGB 100x31", 0.1, 1.0, 200, BOTH),
    Cell("l1", "url", "XGB 300x6", 0.1, 1.0, 200),
    Cell("l0", "url", "XGB 100x6", 2, 0.0, 200, BOTH),
    Cell("forest", "url", "RF 100x8", 0.05, INF, 100, ("Graft",)),
    Cell("digits", "digits", "XGB 40x4", 0.05, INF, 200),
    Cell("digits", "digits", "XGB 40x4", 0.2, 2.0, 200),
    *(Cell("tables", d, "XGB 60x4", e, p, 100, BOTH if d == "adult" else ())
      for d in ("adult", "lcld", "lcld47", "ctu13") for e, p in ((0.05, INF), (0.1, 2.0))),
    Cell("tables", "adult", "XGB 60x4", 2, 0.0, 100, BOTH),
    Cell("forest", "url", "RF 100", 0.05, INF, 60, ("Graft",)),
]  # fmt: skip


def model(name: str) -> Any:
    """An estimator by its short name: trees x depth, leaves for LightGBM."""
    kind, _, size = name.partition(" ")
    trees, _, depth = size.partition("x")
    n = int(trees)
    if kind == "XGB":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=n, max_depth=int(depth), n_jobs=1, random_state=0)
    if kind == "LGB":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=n, num_leaves=int(depth), n_jobs=1, verbose=-1, random_state=0
        )
    if kind == "CatBoost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(
            iterations=n, depth=int(depth), verbose=0, thread_count=1, random_seed=0,
            allow_writing_files=False,
        )  # fmt: skip
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n, max_depth=int(depth) if depth else None, random_state=0)


@cache
def parts(name: str) -> tuple[np.ndarray, np.ndarray, du.Dataset]:
    """Rows to train on, their labels, and the data to ask about.

    The bundled CTU-13 rows are all botnet: the label here is an artificial one (is the mean rank of
    eight features above its median?), to see 756 features and 360 relations at work.
    """
    if name in ("url", "adult"):
        splits = getattr(du.datasets, name)()
        test = splits.test
        good = torch.isfinite(test.x).all(1) if name == "adult" else torch.ones(len(test)).bool()
        return splits.train.x.numpy(), splits.train.y.numpy(), test.take(good.nonzero()[:, 0])
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return x[:1200] / 16, y[:1200], du.Dataset(x[1200:] / 16, y[1200:])
    from sklearn.model_selection import train_test_split

    sets = {"lcld": lambda: du.datasets.lcld().test, "lcld47": lambda: du.datasets.lcld(47).test}
    data = sets.get(name, lambda: du.datasets.ctu13().test)()
    y = data.y.numpy()
    if name == "ctu13":
        rank = data.x[:, ::90].argsort(0).argsort(0).double().mean(1)
        y = (rank > rank.median()).long().numpy()
    train, test = train_test_split(np.arange(len(data)), test_size=0.4, random_state=0, stratify=y)
    rest = du.Dataset(data.x[torch.from_numpy(test)], y[test], schema=data.schema)
    return data.x.numpy()[train], y[train], rest


@cache
def fitted(data: str, name: str, most: int) -> Any:
    x, y, _ = parts(data)
    return model(name).fit(x[:most], y[:most])


def asked(cell: Cell, smoke: bool) -> tuple[Any, du.Dataset, Any]:
    """The model, rows that it gets right, and the space."""
    made = fitted(cell.data, cell.model, 800 if smoke else 10**9)
    data = parts(cell.data)[2]
    wrong = np.asarray(made.predict(data.x.numpy())).ravel().astype(int) != data.y.numpy()
    order = np.random.default_rng(0).permutation(np.flatnonzero(~wrong))
    rows = data.take(torch.from_numpy(np.sort(order[: 4 if smoke else cell.rows])))
    space: Any = Lp(cell.p, cell.eps)
    if data.schema is not None:
        space = data.schema.space(eps=cell.eps, p=cell.p)
    return made, rows, space


def exact(cell: Cell, smoke: bool) -> dict[str, Any]:
    made, data, space = asked(cell, smoke)
    y, ensemble = data.y.numpy(), read(made)
    allowed = np.ones((len(y), ensemble.n_classes), dtype=bool)
    allowed[np.arange(len(y)), y] = False
    found = decide(ensemble, space.around(data.x), allowed, 0.2 if smoke else 5.0)
    flipped = np.asarray(made.predict(found.point[found.broken])).ravel().astype(int)
    assert (flipped != y[found.broken]).all(), "the library does not agree"
    verdict = np.where(found.broken, 1, np.where(found.proven, 2, 0))
    return {
        "classes": np.bincount(y).tolist(), "verdict": verdict.tolist(),
        "ms": [round(1e3 * s, 3) for s in found.seconds],
    }  # fmt: skip


def search(name: str) -> Callable[[Cell, bool, list[int]], dict[str, Any]]:
    def play(cell: Cell, smoke: bool, verdict: list[int]) -> dict[str, Any]:
        made, data, space = asked(cell, smoke)
        known = np.array(verdict[:40])
        data = du.Dataset(data.x[:40], data.y[:40], schema=data.schema)  # codes, as it was fitted
        attack = {
            "Graft": du.Graft(100 if smoke else 3000),
            "MOEVA": du.MOEVA(generations=2 if smoke else 100),
        }[name]
        began = time.process_time()
        report = du.evaluate(made, data, space=space, attack=attack)
        spent = time.process_time() - began
        hit = np.asarray(report.table["verdict"]) == "broken"
        assert not (hit & (known == 2)).any(), "a proven row is broken"
        return {
            "ms": 1e3 * spent / len(data), "rows": len(data), "broken": int(hit.sum()),
            "attackable": int((known == 1).sum()), "missed": int((~hit & (known == 1)).sum()),
        }  # fmt: skip

    return play


def highs(cell: Cell, smoke: bool, verdict: list[int]) -> dict[str, Any]:
    from types import SimpleNamespace

    from tests.oracles.url import compare_with_highs

    made, data, _ = asked(cell, smoke)
    rows, known = min(20, len(data)), np.array(verdict)
    found = SimpleNamespace(open=known == 0, broken=known == 1)
    began = time.process_time()
    both, wrong, left = compare_with_highs(made, data, cell.eps, found, rows)
    assert wrong == 0, "HiGHS contradicts"
    spent = time.process_time() - began
    return {"ms": 1e3 * spent / rows, "rows": rows, "decided": both, "open": left}


def veritas(cell: Cell, smoke: bool, verdict: list[int]) -> dict[str, Any]:
    """Bounds of the output in the Linf box; no relations, no whole numbers."""
    import veritas as peer

    made, data, _ = asked(cell, smoke)
    trees, rows = peer.get_addtree(made, silent=True), min(20, len(data))
    width = np.array([f.range[1] - f.range[0] for f in data.schema.features])
    low, high = (b.numpy() for b in data.schema.bounds(data.x))
    x, y = data.x.numpy(), data.y.numpy()
    proven = broken = 0
    began = time.process_time()
    for i in range(rows):
        kind = peer.HeuristicType.MIN_OUTPUT if y[i] else peer.HeuristicType.MAX_OUTPUT
        config = peer.Config(kind)
        config.stop_when_optimal = True
        lo = np.maximum(low[i], x[i] - cell.eps * width)
        hi = np.minimum(high[i], x[i] + cell.eps * width)
        box = [peer.Interval(a, np.nextafter(b, np.inf)) for a, b in zip(lo, hi, strict=True)]
        walk = config.get_search(trees, box)
        walk.step_for(5.0, 100)
        bounds, sign = walk.current_bounds(), 1 if y[i] else -1
        proven += bool(sign * bounds.best > 0)
        broken += bool(sign * bounds.atleast < 0)
    spent = time.process_time() - began
    mine = sum(v == 2 for v in verdict[:rows])
    return {"ms": 1e3 * spent / rows, "rows": rows, "proven": proven, "broken": broken,
            "proven_by_exact": mine}  # fmt: skip


PEERS = {"HiGHS": highs, "veritas": veritas, "Graft": search("Graft"), "MOEVA": search("MOEVA")}


def key(cell: Cell, method: str) -> str:
    return f"{cell.data}, {cell.model}, L{cell.p:g} {cell.eps:g}: {method}"


def stored(out: Path) -> dict[str, dict[str, Any]]:
    if not out.exists():
        return {}
    return {r["key"]: r for r in map(json.loads, out.read_text().splitlines())}


def jobs(cells: list[Cell]) -> Iterator[tuple[Cell, str]]:
    """All of Exact first: the peers are told what is truly attackable."""
    yield from ((c, "Exact") for c in cells)
    yield from ((c, peer) for c in cells for peer in c.peers)


def line(key: str, r: dict[str, Any]) -> str:
    """A finished cell in words."""
    if "verdict" not in r:
        return f"{key}: " + ", ".join(
            f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}"
            for k, v in r.items() if k not in ("key", "cpu")
        )  # fmt: skip
    v, ms = np.array(r["verdict"]), np.array(r["ms"])
    fast = [float(((v != 0) & (ms <= s)).mean()) for s in (1e3, 5e3)]
    return (
        f"{key}: {len(v)} rows, broken {(v == 1).sum()} proven {(v == 2).sum()} open "
        f"{(v == 0).sum()}; ms mean {ms.mean():.2f} median {np.median(ms):.2f} max {ms.max():.0f}; "
        f"decided in 1 s {fast[0]:.3f}, in 5 s {fast[1]:.3f}"
    )


def table(cells: list[Cell], known: dict[str, dict[str, Any]]) -> None:
    """The table of docs/understand/proofs.md."""
    print("| model, space | rows | broken / proven / open | ms a row: mean, median, max | others |")
    print("|---|---|---|---|---|")
    for cell in cells:
        r = known.get(key(cell, "Exact"))
        if r is None:
            continue
        v, ms = np.array(r["verdict"]), np.array(r["ms"])
        others = []
        for peer in cell.peers:
            o = known.get(key(cell, peer))
            if o is None:
                continue
            said = {
                "HiGHS": lambda o: f"{o['open']} of {o['rows']} not solved",
                "veritas": lambda o: (
                    f"proves {o['proven']} of {o['rows']} (Exact {o['proven_by_exact']})"
                ),
            }.get(peer, lambda o: f"misses {o['missed']} of {o['attackable']}")(o)
            others.append(f"{peer} {o['ms']:.0f} ms, {said}")
        counts = " / ".join(str((v == k).sum()) for k in (1, 2, 0))
        print(
            f"| {cell.data}: {cell.model}, L{cell.p:g} {cell.eps:g} | {len(v)} | {counts} | "
            f"{ms.mean():.1f}, {np.median(ms):.1f}, {ms.max():,.0f} | {'; '.join(others)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("exact.jsonl"))
    parser.add_argument("--only", default="", help="groups: linf,l2,l1,l0,forest,digits,tables")
    parser.add_argument("--methods", default="", help="e.g. Exact or Graft,MOEVA; all unless given")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after these")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--table", action="store_true", help="print what is finished, and no more")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cells = [c for c in CELLS if not args.only or c.group in args.only.split(",")]
    if args.table:
        table(cells, stored(args.out))
        return
    if args.smoke:
        cells = [c for c in cells if c.model in ("XGB 100x4", "XGB 40x4") or c.data == "lcld"]
    methods = args.methods.split(",") if args.methods else ["Exact", *ALL]
    began, known = time.monotonic(), {} if args.smoke else stored(args.out)
    for cell, method in jobs(cells):
        name = key(cell, method)
        if method not in methods or name in known:
            continue
        if method != "Exact" and key(cell, "Exact") not in known:
            continue
        if time.monotonic() - began > 60 * args.minutes:
            break
        cpu = time.process_time()
        if method == "Exact":
            found = exact(cell, args.smoke)
        else:
            found = PEERS[method](cell, args.smoke, known[key(cell, "Exact")]["verdict"])
        known[name] = {"key": name, **found, "cpu": round(time.process_time() - cpu, 2)}
        if not args.smoke:
            with args.out.open("a") as file:
                file.write(json.dumps(known[name]) + "\n")
        print(line(name, known[name]), flush=True)


if __name__ == "__main__":
    main()
