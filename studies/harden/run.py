"""Hardening on real tables: accuracy of each class against the proven share, before and after.

    python studies/harden/run.py --cells url-linf xgb 0        # one cell: table, model, seed
    python studies/harden/run.py --all                         # what is missing of all cells
    python studies/harden/run.py --table                       # what is there, as markdown
    python studies/harden/run.py --check 100 --highs 100       # others on the models that are there
    python studies/harden/run.py --smoke

A cell is one JSON file in `--out`; a cell that is there is not run again. All figures are of test
rows that took no part in anything. `graft`, `groot`, `madry` and `certified` are the peers. Proven
rows are then asked of judges that share no code with the proof (`check`): HiGHS for XGBoost on URL,
the search Graft for every model.
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

import assay as ay

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from peers import Groot, network, with_graft
from tables import CASES, URL, Case, case, models

MODELS = ("xgb", "lgbm", "forest")
PEERS = ("graft", "groot", "madry", "certified")


def figures(model: Any, of: Case, rows: int) -> dict[str, Any]:
    """Accuracy by class on all test rows; verdicts on a sample of those attacked."""
    y = of.test.y.numpy()
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            right = (model(of.test.x).argmax(1) == of.test.y).numpy()
        attack: Any = ay.Then(ay.Bounds(), ay.CAPGD())
    else:
        right = model.predict(of.test.x.numpy()) == y
        attack = ay.Exact(1.0)
    part = of.test.where(y=of.attacked)
    part = part.sample(min(rows, len(part)), seed=0)
    report = ay.evaluate(model, part, space=of.space, goal=of.goal, attack=attack, progress=False)
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


def right_of(model: Any, part: ay.Dataset) -> np.ndarray:
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return (model(part.x).argmax(1) == part.y).numpy()
    return model.predict(part.x.numpy()) == part.y.numpy()


def check(model: Any, of: Case, name: str, rows: int, highs: int) -> dict[str, int]:
    """Proven rows that somebody else breaks, and verdicts that HiGHS contradicts."""
    part = of.test.where(y=of.attacked)
    part = part.sample(min(rows, len(part)), seed=1)
    proof = ay.evaluate(model, part, space=of.space, goal=of.goal, attack=ay.Exact(1.0),
                        progress=False)  # fmt: skip
    proven = (proof.table["verdict"] == "proven").to_numpy()
    rest = part.take(torch.from_numpy(proven))
    wrong = 0
    if len(rest):
        search = ay.evaluate(model, rest, space=of.space, goal=of.goal, attack=ay.Graft(),
                             progress=False)  # fmt: skip
        wrong = int((search.table["verdict"] == "broken").sum())
    found = {"rows": len(part), "proven": int(proven.sum()), "broken_by_graft": wrong}
    if name in URL and type(model).__name__ == "XGBClassifier" and highs:
        from tests.oracles.url import compare_with_highs

        from assay.proofs.search.decide import decide
        from assay.trees import read

        few = part.take(torch.arange(min(highs, len(part))))
        eps, p, _ = URL[name]
        goal = np.tile(np.arange(2) != int(few.y[0]), (len(few), 1))
        known = decide(read(model), of.space.around(few.x), goal, 2.0)
        both, contradictions, unsolved = compare_with_highs(model, few, eps, known, len(few), p)
        found |= {"highs": both, "highs_proven": int(known.proven.sum()),
                  "highs_unsolved": unsolved, "contradictions": contradictions}  # fmt: skip
    return found


def cell(name: str, kind: str, seed: int, asked: Any) -> dict[str, Any]:
    of = case(name)
    if asked.smoke:
        of = replace(of, train=of.train.sample(400), test=of.test.sample(200))
    began = time.process_time()
    result: dict[str, Any] = {"case": name, "model": kind, "seed": seed}
    if kind == "groot":
        groot = Groot(of, seed, trees=5 if asked.smoke else 25)
        spent = time.process_time() - began
        return result | {"after": groot.figures(of, asked.rows), "cpu": spent}
    if kind in ("madry", "certified"):
        net = network(of, seed, kind == "certified", 2 if asked.smoke else 15)
        spent = time.process_time() - began
        return result | {"after": figures(net, of, asked.rows), "cpu": spent}
    model = models(seed, 20 if asked.smoke else 100, balanced=name == "lcld")[
        "xgb" if kind == "graft" else kind
    ]
    model.fit(of.train.x.numpy(), of.train.y.numpy())
    result["before"] = figures(model, of, asked.rows)
    began = time.process_time()
    if kind == "graft":
        after = with_graft(model, of, 2 if asked.smoke else 10, 30 if asked.smoke else 100, seed)
        result["cpu"] = time.process_time() - began
    else:
        hardened = ay.training.harden(
            model, of.train, of.space, of.goal, max_loss=of.max_loss, rounds=asked.rounds,
            most=asked.most, judged=asked.judged, seconds=0.05 if kind == "forest" else 0.1,
            seed=seed, progress=False,
        )  # fmt: skip
        result["cpu"] = time.process_time() - began
        after, chosen = hardened.model, hardened.path[hardened.chosen]
        result |= {"chosen": hardened.chosen, "free": chosen.free, "step": chosen.step,
                   "vacuous": chosen.vacuous, "kept": hardened.kept,
                   "path": [asdict(r) for r in hardened.path]}  # fmt: skip
        if hardened.unmovable is not None:
            result["unmovable"] = [hardened.unmovable.accuracy, hardened.unmovable.robust,
                                   hardened.unmovable.rule_accuracy]  # fmt: skip
    result["after"] = figures(after, of, asked.rows)
    if asked.smoke:
        return result | {"check": check(after, of, name, 20, 2)}
    joblib.dump(after, asked.out / f"{name}-{kind}-{seed}.joblib")
    return result


def recheck(file: Path, asked: Any) -> None:
    """The saved model of a cell, before judges that share no code with the proof."""
    found = json.loads(file.read_text())
    model = file.with_suffix(".joblib")
    if "check" not in found and model.exists():
        of = case(found["case"])
        found["check"] = check(joblib.load(model), of, found["case"], asked.check, asked.highs)
        file.write_text(json.dumps(found))
        print(file.stem, found["check"], flush=True)


def line(r: dict[str, Any]) -> str:
    def part(f: dict[str, Any] | None) -> str:
        if f is None:
            return "| |"
        by = ", ".join(f"{v:.3f}" for v in f["recall"])
        shares = " / ".join(f"{f[k]:.3f}" for k in ("proven", "broken", "open"))
        return f"{f['accuracy']:.3f} ({by}) | {shares}"

    vacuous = f"{r['vacuous']:.2f}" if "vacuous" in r else ""
    return (
        f"| {r['case']}, {r['model']}, {r['seed']} | {part(r.get('before'))} | {part(r['after'])} "
        f"| {vacuous} | {r['cpu']:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", nargs=3, metavar=("CASE", "MODEL", "SEED"))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/harden"))
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--judged", type=int, default=250)
    parser.add_argument("--rows", type=int, default=250, help="test rows judged")
    parser.add_argument("--check", type=int, default=0, help="test rows for other judges")
    parser.add_argument("--highs", type=int, default=0, help="of these, by HiGHS")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cells = [(c, m, s) for c, m, s in itertools.product(CASES, MODELS, (0, 1, 2))]
    cells += [(c, m, 0) for c in URL for m in PEERS if m != "groot" or c == "url-linf"]
    if asked.smoke:
        asked.rounds, asked.most, asked.judged, asked.rows = 2, 40, 40, 40
        cells = [("url-linf", m, 0) for m in ("xgb", "graft", "madry", "certified")]
        cells += [("lcld", "lgbm", 0), ("adult", "forest", 0)]
    elif asked.cells:
        cells = [(asked.cells[0], asked.cells[1], int(asked.cells[2]))]
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, kind, seed in cells:
        file = asked.out / f"{name}-{kind}-{seed}.json"
        if not (asked.table or asked.check) and (asked.smoke or not file.exists()):
            found = cell(name, kind, seed, asked)
            if not asked.smoke:
                file.write_text(json.dumps(found))
            print(line(found), found.get("check", ""), flush=True)
        elif file.exists() and asked.check:
            recheck(file, asked)
        elif file.exists():
            print(line(json.loads(file.read_text())))


if __name__ == "__main__":
    main()
