"""Sentiment under group goals: the SST-5 figures of Lin et al. (2024) in kind, with exact answers.

    python studies/text/run.py --out runs/text        all of it; every (model, seed, goal) is kept
    python studies/text/run.py --table                 only the table of what is there
    python studies/text/run.py --smoke

Sentences that a model gets right, synonyms of WordNet for at most a quarter of the words. For the
four goals of the paper (and any wrong class, and one random class): success and gradients of one
run at the whole goal (MDMAX, MDMUL, lse), Escalation, best and average guess; APGD; Greedy by
queries; and what proofs and listing say (broken, proven, or open).

What a reader would get wrong: the paper's victim is RoBERTa-large under T-PGD with USE as the
measure of similarity; none of the three can be had here. Networks on GloVe vectors, candidates from
WordNet and the cosine of mean vectors take their places, so orders can be compared, not heights.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer.architectures.text import TextCNN, TextLSTM, TextTransformer
from durometer.spaces.token_ids import sentences
from durometer.training import Standard, fit, fresh

NETWORKS = {"TextCNN": TextCNN, "TextLSTM": TextLSTM, "TextTransformer": TextTransformer}
EPOCHS = {"TextCNN": 6, "TextLSTM": 3, "TextTransformer": 4}
GOALS = ("less positive", "less negative", "more positive", "more negative")
FLOORS = (0.9, 0.95, 0.98, 0.99)


def goals(reviews: object) -> dict[str, object]:
    made = {name: reviews.goal(name) for name in GOALS}  # type: ignore[attr-defined]
    return made | {"untargeted": du.Untargeted(), "one random class": du.RandomTarget()}


def attacks(kind: str, steps: int, listed: int, splits: int) -> dict[str, object]:
    found: dict[str, object] = {}
    if kind != "Tfidf":
        found = {loss: du.PGD(steps, loss=loss) for loss in ("mdmax", "mdmul", "lse")}
        found |= {
            "escalation": du.Escalation(steps),
            "best guess": du.Guess(du.PGD(steps, loss="md"), mode="best"),
            "average guess": du.Guess(du.PGD(steps, loss="md"), mode="average"),
            "apgd": du.APGD(steps),
        }
    decide: list[object] = [du.Greedy()]
    if kind == "Tfidf":
        decide.insert(0, du.Linear())
    if kind == "TextCNN":
        decide.append(du.Bounds(splits=splits))
    if kind == "TextLSTM":
        decide.insert(0, du.Bounds(splits=0))
    decide.append(du.Enumerate(listed))
    return found | {"greedy": du.Greedy(), "exact": du.Then(*decide)}


def model(kind: str, seed: int, given: argparse.Namespace) -> object:
    """A trained model; networks are kept beside the cells."""
    reviews = du.datasets.sst5()
    train = reviews.train if given.train is None else reviews.train.sample(given.train)
    if kind == "Tfidf":  # nothing is random in it but what it has read
        part = train.sample(round(0.9 * len(train)), seed=seed)
        made = make_pipeline(TfidfVectorizer(), LogisticRegression(C=3, max_iter=300))
        return made.fit(sentences(part.x), part.y.numpy())
    net = fresh(lambda: NETWORKS[kind](classes=5), seed)
    file = given.out / f"{kind}-{seed}-{given.train}.pt"
    if not file.exists():
        fit(net, train, Standard(), epochs=EPOCHS[kind], batch=64, rate=2e-3, seed=seed,
            progress=False)  # fmt: skip
        torch.save(net.state_dict(), file)
    net.load_state_dict(torch.load(file))
    return net.eval()


def cell(kind: str, seed: int, goal_name: str, given: argparse.Namespace) -> dict[str, object]:
    """One model and goal: per attack who was broken, at what price."""
    reviews = du.datasets.sst5()
    net = model(kind, seed, given)
    test = reviews.test.sample(given.sentences)
    with torch.no_grad():
        said = du.wrap(net).logits(test.x).argmax(1)
    right = test.take(said == test.y)
    near, cells = du.Centroid(), {}
    for name, attack in attacks(kind, given.steps, given.listed, given.splits).items():
        if goal_name == "one random class" and name in ("best guess", "average guess"):
            continue  # one class: nothing to guess
        began = time.process_time()
        report = du.evaluate(
            net, right, space=du.Text(), goal=goals(reviews)[goal_name], attack=attack, seed=seed,
            progress=False,
        )  # fmt: skip
        mine = report.table["skipped"].to_numpy() == ""
        t = report.table[mine]
        after = report.adversarial[mine].tolist()
        cells[name] = {
            "ids": t["id"].tolist(),
            "success": t["success"].astype(int).tolist(),
            "verdict": t["verdict"].tolist(),
            "winner": t["winner"].tolist(),
            "similarity": np.round(near(sentences(right.x[mine]), after), 4).tolist(),
            "changed": t["distance"].tolist(),
            "after": [text if won else None for text, won in zip(after, t["success"], strict=True)],
            "gradients": float(t["backwards"].mean()),
            "queries": float(t["forwards"].mean()),
            "seconds": time.process_time() - began,
        }
    print(kind, seed, goal_name, f"{time.process_time():.0f} CPU-s", flush=True)
    accuracy = len(right) / len(test)
    return {"kind": kind, "seed": seed, "goal": goal_name, "accuracy": accuracy, "cells": cells}


def interval(rows: list[tuple[list[int], list[int]]]) -> tuple[float, float, float]:
    """Mean success over models; a bootstrap that draws sentences, all models of one together."""
    ids = sorted({i for some, _ in rows for i in some})
    place = {i: k for k, i in enumerate(ids)}
    hits, asked = np.zeros(len(ids)), np.zeros(len(ids))
    for some, success in rows:
        at = [place[i] for i in some]
        hits[at] += success
        asked[at] += 1
    draws = np.random.default_rng(0).integers(0, len(ids), (2000, len(ids)))
    rates = hits[draws].sum(1) / np.maximum(asked[draws].sum(1), 1)
    low, high = np.quantile(rates, [0.025, 0.975])
    return hits.sum() / asked.sum(), low, high


def table(found: list[dict], given: argparse.Namespace) -> str:
    """Everything as Markdown."""
    lines = [
        f"Success on sentences the model gets right, of {given.sentences} test sentences; "
        f"{given.steps} steps; in square brackets 95 % (bootstrap over sentences, all seeds of one "
        "together); in round ones gradients per sentence (of greedy: queries)."
    ]
    for kind in dict.fromkeys(f["kind"] for f in found):
        mine = [f for f in found if f["kind"] == kind]
        right = {f["seed"]: f["accuracy"] for f in mine}
        said = ", ".join(f"{a:.3f}" for a in right.values())
        lines += ["", f"### {kind}: {len(right)} seed(s), accuracy {said}", ""]
        names = list(dict.fromkeys(n for f in mine for n in f["cells"] if n != "exact"))
        head = [*names, "exact: broken / proven / open", "apgd + greedy miss"]
        lines += ["| goal | n | " + " | ".join(head) + " |", "|---" * (len(head) + 2) + "|"]
        for goal in dict.fromkeys(f["goal"] for f in mine):
            lines.append(_line([f["cells"] for f in mine if f["goal"] == goal], goal, names))
    lines += ["", *_figure_5(found), "", *_figure_10(found)]
    return "\n".join(lines) + "\n"


def _line(cells: list[dict], goal: str, names: list[str]) -> str:
    row = []
    for name in names:
        some = [c[name] for c in cells if name in c]
        if not some:
            row.append("-")
            continue
        value, low, high = interval([(c["ids"], c["success"]) for c in some])
        price = np.mean([c["gradients"] or c["queries"] for c in some])
        row.append(f"{value:.3f} [{low:.3f}, {high:.3f}] ({price:.0f})")
    verdicts = [v for c in cells for v in c["exact"]["verdict"]]
    shares = [verdicts.count(v) / len(verdicts) for v in ("broken", "proven", "open")]
    row.append(" / ".join(f"{s:.3f}" for s in shares))
    missed, broken = _missed(cells)
    row.append(f"{missed} of {broken}")
    return f"| {goal} | {len(verdicts)} | " + " | ".join(row) + " |"


def _missed(cells: list[dict]) -> tuple[int, int]:
    """Sentences that some method broke, and those of them that neither APGD nor Greedy did."""
    missed = broken = 0
    for some in cells:
        any_of = np.max([c["success"] for c in some.values()], axis=0)
        ours = np.max([some[k]["success"] for k in ("apgd", "greedy") if k in some], axis=0)
        broken += int(any_of.sum())
        missed += int((any_of & ~ours.astype(bool)).sum())
    return missed, broken


def _figure_5(found: list[dict]) -> list[str]:
    """Success that counts only at a floor of similarity, and by the number of words changed."""
    lines = ["### Figure 5 in kind: success of Greedy by similarity and by words changed", ""]
    heads = [*(f"similarity >= {f}" for f in FLOORS), *(f"<= {k} words" for k in (1, 2, 3))]
    lines += ["| model | goal | any | " + " | ".join(heads) + " |", "|---" * (len(heads) + 3) + "|"]
    for kind in dict.fromkeys(f["kind"] for f in found):
        for goal in (*GOALS, "untargeted", "one random class"):
            cells = [f["cells"]["greedy"] for f in found if (f["kind"], f["goal"]) == (kind, goal)]
            if not cells:
                continue
            won, near, words = (np.concatenate([c[k] for c in cells])
                                for k in ("success", "similarity", "changed"))  # fmt: skip
            at = [won.mean(), *((won * (near >= f)).mean() for f in FLOORS),
                  *((won * (words <= k)).mean() for k in (1, 2, 3))]  # fmt: skip
            lines.append(f"| {kind} | {goal} | " + " | ".join(f"{v:.3f}" for v in at) + " |")
    return lines


def _figure_10(found: list[dict]) -> list[str]:
    """Success and gradients of one run at the goal, as shares of best guess, over all goals."""
    lines = ["### Figure 10 in kind: success and gradients relative to best guess, four goals", ""]
    names = ("mdmax", "mdmul", "lse", "escalation", "average guess")
    lines += ["| model | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for kind in dict.fromkeys(f["kind"] for f in found if f["kind"] != "Tfidf"):
        cells = [f["cells"] for f in found if f["kind"] == kind and f["goal"] in GOALS]
        if not cells:
            continue
        row = []
        for name in names:
            won = sum(sum(c[name]["success"]) for c in cells)
            best = sum(sum(c["best guess"]["success"]) for c in cells)
            price = np.mean([c[name]["gradients"] / c["best guess"]["gradients"] for c in cells])
            row.append(f"{won / best:.3f} at {price:.2f}")
        lines.append(f"| {kind} | " + " | ".join(row) + " |")
    return lines


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/text"))
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--train", type=int, default=None, help="training sentences; all of them")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--listed", type=int, default=5000, help="sentences listed for a row")
    parser.add_argument("--splits", type=int, default=1000, help="sets of sentences for a row")
    parser.add_argument("--models", nargs="+", default=[*NETWORKS, "Tfidf"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--goals", nargs="+", default=[*GOALS, "untargeted", "one random class"])
    parser.add_argument("--table", action="store_true", help="only what is there")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(argv)
    if given.smoke:
        given.sentences, given.train, given.steps, given.listed, given.seeds = 60, 2000, 3, 50, [0]
        given.models, given.goals = ["TextCNN", "Tfidf"], ["less positive", "untargeted"]
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    found = []
    for seed in given.seeds:
        for kind in given.models:
            for goal in given.goals:
                file = given.out / f"{kind}-{seed}-{goal.replace(' ', '_')}-{given.sentences}.json"
                if not file.exists() and not given.table:
                    file.write_text(json.dumps(cell(kind, seed, goal, given)))
                if file.exists():
                    found.append(json.loads(file.read_text()))
    text = table(sorted(found, key=lambda f: given.models.index(f["kind"])), given)
    (given.out / "text.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
