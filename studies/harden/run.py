"""Hardening on real tables: accuracy of each class against the proven share, before and after.

    python studies/harden/run.py                             # what is missing of all cells
    python studies/harden/run.py url-linf/xgb/0 adult/lgbm/1  # these: table, model, seed
    python studies/harden/run.py --fresh url-l2/xgb/11        # rows split anew by the seed
    python studies/harden/run.py --table                     # what is there, as markdown
    python studies/harden/run.py --smoke

A cell is one JSON file in `--out`; a cell that is there is not run again. All figures are of test
rows that took no part in anything; settings are those of `harden` unless a cell says otherwise.
`graft`, `groot`, `madry` and `certified` are the peers. Verdicts on 100 test rows of every cell are
then asked of judges that share no code with the proof (`recheck`); a contradiction ends the study.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

import durometer as du

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from peers import Groot, network, with_graft
from recheck import recheck
from tables import CASES, URL, Case, case, models

MODELS = ("xgb", "lgbm", "forest")
PEERS = ("graft", "groot", "madry", "certified")


def figures(model: Any, of: Case, rows: int) -> dict[str, Any]:
    """Accuracy by class on all test rows; verdicts on a sample of those attacked."""
    y = of.test.y.numpy()
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            right = (model(of.test.x).argmax(1) == of.test.y).numpy()
        attack: Any = du.Then(du.Bounds(), du.CAPGD())
    else:
        right = model.predict(of.test.x.numpy()) == y
        attack = du.Exact(1.0)
    part = of.test.where(y=of.attacked)
    part = part.sample(min(rows, len(part)), seed=0)
    report = du.evaluate(model, part, space=of.space, goal=of.goal, attack=attack, progress=False)
    verdict = report.table["verdict"].to_numpy()
    ok = right_of(model, part)
    proven = (verdict == "proven") & ok
    broken = (verdict == "broken") | ~ok
    return {
        "accuracy": float(right.mean()),
        "recall": [float(right[y == c].mean()) for c in np.unique(y)],
        "proven": float(proven.mean()), "broken": float(broken.mean()),
        "open": float((~proven & ~broken).mean()), "n": len(part),
    }  # fmt: skip


def right_of(model: Any, part: du.Dataset) -> np.ndarray:
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return (model(part.x).argmax(1) == part.y).numpy()
    return model.predict(part.x.numpy()) == part.y.numpy()


def cell(name: str, kind: str, seed: int, asked: Any) -> dict[str, Any]:
    """Before, after, what it took, and what the other judges say."""
    of = case(name, seed if asked.fresh else None)
    if asked.smoke:
        of = replace(of, train=of.train.sample(400), test=of.test.sample(200))
    result: dict[str, Any] = {"case": name, "model": kind, "seed": seed, "fresh": asked.fresh,
                              "confidence": asked.confidence,
                              "train": len(of.train), "test": len(of.test)}  # fmt: skip
    size = 20 if asked.smoke else 100
    model = models(seed, size, balanced=name == "lcld").get("xgb" if kind == "graft" else kind)
    if model is not None:
        model.fit(of.train.x.numpy(), of.train.y.numpy())
        result["before"] = figures(model, of, asked.rows)
    cpu, wall = time.process_time(), time.perf_counter()
    if kind == "groot":
        after: Any = Groot(of, seed, trees=5 if asked.smoke else 25)
    elif kind in ("madry", "certified"):
        after = network(of, seed, kind == "certified", 2 if asked.smoke else 15)
    elif kind == "graft":
        after = with_graft(model, of, 2 if asked.smoke else 10, 30 if asked.smoke else 100, seed)
    else:
        how: dict[str, Any] = {"confidence": asked.confidence}
        if asked.smoke:
            how |= {"rounds": 2, "most": 40, "judged": 40}
        hardened = du.training.harden(model, of.train, of.space, of.goal, max_loss=of.max_loss,
                                      seed=seed, progress=False, **how)  # fmt: skip
        after, chosen = hardened.model, hardened.path[hardened.chosen]
        result |= {"chosen": hardened.chosen, "free": chosen.free, "step": chosen.step,
                   "vacuous": chosen.vacuous, "kept": hardened.kept,
                   "path": [asdict(r) for r in hardened.path]}  # fmt: skip
        if (u := hardened.unmovable) is not None:
            result["unmovable"] = [u.accuracy, u.robust, u.rule_accuracy]
    result |= {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    if kind == "groot":
        return result | {"after": after.figures(of, asked.rows)}
    result["after"] = figures(after, of, asked.rows)
    result["check"] = recheck(after, of, name, 10 if asked.smoke else 100, name == "url-linf")
    if not asked.smoke and model is not None:
        joblib.dump(after, asked.out / f"{stem(name, kind, seed, asked)}.joblib")
    return result


def stem(name: str, kind: str, seed: int, asked: Any) -> str:
    spent = "" if asked.confidence == 0.95 else f"-confidence{asked.confidence:g}"
    return f"{name}-{kind}-{seed}{'-fresh' if asked.fresh else ''}{spent}"


def line(r: dict[str, Any]) -> str:
    def part(f: dict[str, Any] | None) -> str:
        if f is None:
            return " | "
        by = ", ".join(f"{v:.3f}" for v in f["recall"])
        shares = " / ".join(f"{f[k]:.3f}" for k in ("proven", "broken", "open"))
        return f"{f['accuracy']:.3f} ({by}) | {shares} of {f['n']}"

    vacuous = f"{r['vacuous']:.2f}" if "vacuous" in r else ""
    return (
        f"| {r['case']}, {r['model']}, {r['seed']}{', fresh' if r.get('fresh') else ''} "
        f"| {part(r.get('before'))} | {part(r['after'])} | {vacuous} "
        f"| {r['cpu']:.0f}, {r.get('wall', float('nan')):.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CASE/MODEL/SEED")
    parser.add_argument("--fresh", action="store_true", help="split all rows anew by the seed")
    parser.add_argument("--confidence", type=float, default=0.95, help="see harden")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/harden"))
    parser.add_argument("--rows", type=int, default=500, help="test rows judged")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cells = [(c, m, s) for c, m, s in itertools.product(CASES, MODELS, (0, 1, 2))]
    cells += [(c, m, 0) for c in URL for m in PEERS if m != "groot" or c == "url-linf"]
    if asked.smoke:
        asked.rows = 40
        cells = [("url-linf", m, 0) for m in ("xgb", "graft", "madry", "certified")]
        cells += [("lcld", "lgbm", 0), ("adult", "forest", 0)]
    elif asked.cells:
        cells = [(c, m, int(s)) for c, m, s in (each.split("/") for each in asked.cells)]
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, kind, seed in cells:
        file = asked.out / f"{stem(name, kind, seed, asked)}.json"
        if not asked.table and (asked.smoke or not file.exists()):
            found = cell(name, kind, seed, asked)
            if not asked.smoke:
                file.write_text(json.dumps(found))
            print(line(found), found.get("check", ""), flush=True)
            if wrong := found.get("check", {}).get("contradictions"):
                raise SystemExit(f"{file.stem}: {wrong} contradictions")
        elif file.exists():
            found = json.loads(file.read_text())
            print(line(found), found.get("check", ""))


if __name__ == "__main__":
    main()
