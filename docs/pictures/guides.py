"""Draws the pictures of the guides, docs/pictures/guides/*.svg: measured where a figure is shown.

python docs/pictures/guides.py [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import durometer as du
from durometer.probability.sequential import confidence_sequence

HERE = Path(__file__).parent / "guides"
ROBUST, WEAK, OPEN, INK = "#2a9d8f", "#e76f51", "#e9c46a", "#264653"


def main() -> None:
    """All of them, or those that are named, in the same colours."""
    plt.rcParams.update(
        {
            "font.size": 9,
            "svg.hashsalt": "durometer",
            "svg.fonttype": "none",
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    HERE.mkdir(exist_ok=True)
    drawn = (choose, own, own_data, compare, conformal, endpoints, gate, whole, draws, thresholds)
    for draw in (*drawn, plots, vnnlib, proofs, grid, two_sides):
        if sys.argv[1:] and draw.__name__ not in sys.argv[1:]:
            continue
        figure = draw()
        file = HERE / f"{draw.__name__}.svg"
        figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def choose() -> plt.Figure:
    """The three parts of a question, one beside the other."""
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.4))
    space, goal, game = axes
    space.add_patch(plt.Circle((0.5, 0.5), 0.36, color=ROBUST, alpha=0.25))
    space.plot([0.1, 0.9], [0.25, 0.75], color=INK, lw=2)
    space.plot(0.5, 0.5, "o", color=INK)
    space.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", title="What may change?")
    harm = np.zeros((4, 4))
    harm[:2, 2:] = 1
    goal.imshow(harm, cmap=mpl.colors.ListedColormap(["#f1f1f1", WEAK]))
    goal.set(title="What counts as success?", xlabel="answer", ylabel="truth")
    game.add_patch(plt.Rectangle((0, 0.3), 0.35, 0.4, color=WEAK, alpha=0.3))
    game.add_patch(plt.Rectangle((0.65, 0.3), 0.35, 0.4, color=ROBUST, alpha=0.3))
    game.text(0.175, 0.5, "attacker\nor noise", ha="center", va="center")
    game.text(0.825, 0.5, "model", ha="center", va="center")
    _arrow(game, (0.36, 0.58), (0.64, 0.58))
    _arrow(game, (0.64, 0.42), (0.36, 0.42), dashed=True)
    game.set(xlim=(-0.05, 1.05), ylim=(0, 1), title="Who moves when?")
    for axis in (space, game):
        axis.axis("off")
    goal.set_xticks([])
    goal.set_yticks([])
    return figure


def own() -> plt.Figure:
    """The loans of the page: both sides, before and after two columns are frozen."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = du.datasets.german().train.table.drop(columns="row")
    text = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
    forest = RandomForestClassifier(30, max_depth=8, random_state=0)
    model = make_pipeline(make_column_transformer(text, remainder="passthrough"), forest)
    model.fit(frame.drop(columns="risk"), frame["risk"])
    suggested = du.Schema.suggest(frame.drop(columns="risk"))
    figure, axis = plt.subplots(figsize=(6, 1.9))
    fixed = (("age", "foreign_worker"), ("age", "foreign_worker", "duration", "amount"))
    for place, names in enumerate(fixed):
        schema = suggested.freeze(*names)
        rows = du.Dataset(frame, target="risk", schema=schema).where(y="bad").sample(60)
        how = {"space": schema.space(eps=0.2), "goal": du.Targeted("good"), "progress": False}
        report = du.evaluate(model, rows, **how)
        robust, clean = float(report.metric("robust")), float(report.metric("clean"))
        axis.barh(place, robust, color=ROBUST, height=0.55)
        axis.barh(place, clean - robust, left=robust, color=WEAK, height=0.55)
        axis.text(robust / 2, place, f"hold {robust:.0%}", ha="center", va="center", color="white")
        if clean - robust > 0.05:
            axis.text(
                (robust + clean) / 2,
                place,
                "turned to good",
                ha="center",
                va="center",
                color="white",
            )
    axis.set_yticks(range(2), ["age and origin fixed", "amount and\nduration fixed, too"])
    axis.set(xlim=(0, 1), xlabel="share of bad loans that the forest recognises")
    axis.invert_yaxis()
    return figure


def own_data() -> plt.Figure:
    """By name into the model's own form, and its answers compared with predict."""
    steps = (
        ("your table", "names, text, dates,\ngaps as they are", INK),
        ("by name", "in the types it\nwas fitted on", INK),
        ("your model", "pipeline, booster,\nONNX, function", ROBUST),
        ("compared", "with its own predict\non your rows", WEAK),
    )
    return _chain(steps)


def endpoints() -> plt.Figure:
    """Batches go out; answers are kept beside the run."""
    steps = (
        ("durometer", "attacks, proofs,\nbudget", INK),
        ("batches", "retries, rate,\nquestions, time", OPEN),
        ("your server", "JSON in,\nJSON out", ROBUST),
        ("answers.sqlite", "nothing is\nasked twice", INK),
    )
    return _chain(steps)


def _chain(steps: tuple[tuple[str, str, str], ...]) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(7.4, 1.6))
    for place, (name, text, color) in enumerate(steps):
        left = place * 1.35
        axis.add_patch(plt.Rectangle((left, 0), 1, 1, color=color, alpha=0.22))
        axis.text(left + 0.5, 0.74, name, ha="center", va="center", weight="bold", color=INK)
        axis.text(left + 0.5, 0.34, text, ha="center", va="center", fontsize=8)
        if place:
            _arrow(axis, (left - 0.33, 0.5), (left - 0.02, 0.5))
    axis.set(xlim=(-0.05, len(steps) * 1.35 - 0.3), ylim=(-0.05, 1.05))
    return _bare(figure, axis)


def compare() -> plt.Figure:
    """The two forests of the page, row by row."""
    from sklearn.ensemble import RandomForestClassifier

    url = du.datasets.url()
    x, y = url.train.x.numpy(), url.train.y.numpy()
    data = url.test.sample(120)
    space = data.schema.space(eps=0.05)
    reports = [
        du.evaluate(
            du.wrap(
                RandomForestClassifier(20, max_depth=depth, random_state=0).fit(x, y),
                name=f"depth {depth}",
            ),
            data,
            space=space,
            progress=False,
        )
        for depth in (4, 8)
    ]
    axis = reports[0].compare(reports[1]).plot(names=("depth 4", "depth 8"))
    axis.figure.set_size_inches(6.5, 2.6)
    return axis.figure


def conformal() -> plt.Figure:
    """Coverage under attack and size of the sets, on digits, with and without bounds."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))  # the file is ordered by writers
    x, y = x[order] / 16, y[order]
    fitted = MLPClassifier((32,), max_iter=120, random_state=0).fit(x[:900], y[:900])
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    with torch.no_grad():
        for layer, weight, bias in zip(net[::2], fitted.coefs_, fitted.intercepts_, strict=True):
            layer.weight.copy_(torch.tensor(weight.T))
            layer.bias.copy_(torch.tensor(bias))
    held, fresh = du.Dataset(x[900:1300], y[900:1300]), du.Dataset(x[1300:], y[1300:])
    sizes = (0.0, 0.01, 0.02, 0.04, 0.06)
    lines: dict[str, list[tuple[float, float]]] = {"no": [], "calibration": []}
    for eps in sizes:
        space = du.Linf(max(eps, 1e-6))
        report = du.evaluate(net, fresh, space=space, attack=du.PGD(20), progress=False)
        attacked = du.Dataset(report.adversarial, fresh.y) if eps else fresh
        for robust, line in lines.items():
            sets = du.conformal_sets(net, held, space, alpha=0.1, robust=robust)
            found = sets.summary(attacked)
            line.append((found.coverage.value, found.size))
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.5), layout="constrained")
    for (robust, line), color in zip(lines.items(), (WEAK, ROBUST), strict=True):
        label = "with bounds" if robust == "calibration" else "plain"
        left.plot(sizes, [c for c, _ in line], "o-", color=color, label=label)
        right.plot(sizes, [s for _, s in line], "o-", color=color, label=label)
    left.axhline(0.9, color=INK, lw=1, ls=":")
    left.set(xlabel="eps", title="holds the true class, attacked", ylim=(0, 1.03))
    right.set(xlabel="eps", title="classes in a set", ylim=(0, 10))
    left.legend(frameon=False)
    return figure


def gate() -> plt.Figure:
    """One gate, row by row: it stops when the bound is outside the interval."""
    rng = np.random.default_rng(3)
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 2.5), layout="constrained", sharey=True)
    for axis, rate, word in zip(axes, (0.9, 0.68), ("passed", "failed"), strict=True):
        held = rng.random(500) < rate
        seen = np.arange(5, 501, 5)
        low, high = confidence_sequence(np.cumsum(held)[seen - 1], seen, 0.95, threshold=0.8)
        decided = int(np.argmax((low > 0.8) | (high < 0.8)))
        upto = slice(0, decided + 1)
        color = ROBUST if word == "passed" else WEAK
        axis.fill_between(seen[upto], low[upto], high[upto], color=color, alpha=0.3)
        axis.axhline(0.8, color=INK, lw=1.2)
        axis.axvline(seen[decided], color=color, ls="--", lw=1)
        axis.set(xlabel="rows played", ylim=(0.3, 1.02), xlim=(0, seen[decided] * 1.25))
        axis.set_title(f"{word} after {seen[decided]} rows", color=color)
    axes[0].set_ylabel("robust accuracy")
    axes[0].text(2, 0.75, "robust >= 0.80", color=INK)
    return figure


def whole() -> plt.Figure:
    """How far each column alone can move the score of any valid record: German credit, XGBoost."""
    from xgboost import XGBClassifier

    data = du.datasets.german().train
    model = XGBClassifier(n_estimators=40, max_depth=3).fit(data.x.numpy(), data.y.numpy())
    names = ("age", "amount", "duration", "personal_status", "foreign_worker", "telephone")
    names = tuple(n for n in names if n in data.schema.names)
    answers = [du.influence(model, data.schema, of=[n], seconds=3) for n in names]
    figure, axis = plt.subplots(figsize=(6, 2.4))
    for place, answer in enumerate(answers):
        axis.barh(place, answer.low, color=WEAK, height=0.6)
        axis.barh(place, answer.high - answer.low, left=answer.low, color=OPEN, height=0.6)
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("change of the score by this column alone: found, and at most")
    axis.invert_yaxis()
    return figure


def draws() -> plt.Figure:
    """Three records, drawn until they lie on one side of 0.99."""
    rng = np.random.default_rng(0)
    figure, axis = plt.subplots(figsize=(6.4, 2.6))
    for rate, color in ((1.0, ROBUST), (0.9, WEAK), (0.975, OPEN)):
        stays = rng.random(20_000) < rate
        seen = np.unique(np.geomspace(5, 20_000, 120).astype(int))
        low, high = confidence_sequence(np.cumsum(stays)[seen - 1], seen, 0.99, threshold=0.99)
        over = (low > 0.99) | (high < 0.99)
        stop = int(np.argmax(over)) if over.any() else len(seen) - 1
        axis.fill_between(
            seen[: stop + 1], low[: stop + 1], high[: stop + 1], color=color, alpha=0.35
        )
        axis.plot(seen[stop], (low[stop] + high[stop]) / 2, "o", color=color)
        below = 0.05 if rate == 0.975 else 0.0
        place = (seen[stop] * 1.15, (low[stop] + high[stop]) / 2 - 0.01 - below)
        axis.text(*place, f"{seen[stop]} draws", color=color)
    axis.axhline(0.99, color=INK, lw=1.2)
    axis.set(
        xscale="log",
        xlim=(4, 3000),
        ylim=(0.6, 1.02),
        xlabel="draws",
        ylabel="probability that it stays",
    )
    return figure


def thresholds() -> plt.Figure:
    """A score, its bands, and what a row's score can become."""
    figure, axis = plt.subplots(figsize=(6.6, 1.7))
    bands = ((0, 0.3, "pay", ROBUST), (0.3, 0.7, "ask a clerk", OPEN), (0.7, 1, "block", WEAK))
    for low, high, name, color in bands:
        axis.axvspan(low, high, color=color, alpha=0.3)
        axis.text((low + high) / 2, 1.12, name, ha="center")
    rows = (
        (0.52, 0.36, 0.66, "proven: stays in its band"),
        (0.84, 0.62, 0.93, "broken: leaves its band"),
    )
    for place, (score, low, high, text) in enumerate(rows):
        level = 0.7 - 0.45 * place
        axis.plot([low, high], [level, level], color=INK, lw=2)
        axis.plot(score, level, "o", color=INK)
        axis.text(0.01, level, text, va="center", fontsize=8)
    axis.set(xlim=(0, 1), ylim=(0, 1.3), xlabel="the model's score", yticks=[])
    axis.spines["left"].set_visible(False)
    return figure


def plots() -> plt.Figure:
    """The two plots of the page."""
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10), progress=False)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    report.plot.curve(left)
    report.plot.confusion(right)
    return figure


def vnnlib() -> plt.Figure:
    """A box of inputs, its image, and the half-plane that must not be reached."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.3))
    left.add_patch(plt.Rectangle((0.25, 0.25), 0.5, 0.5, color=INK, alpha=0.25))
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="X_0", ylabel="X_1", title="bounds of the inputs")
    turn = np.linspace(0, 2 * np.pi, 200)
    radius = 0.22 + 0.05 * np.cos(3 * turn)
    right.fill(0.4 + radius * np.cos(turn), 0.4 + radius * np.sin(turn), color=INK, alpha=0.25)
    right.fill([0.55, 1, 1, 0.9], [1, 1, 0.1, 0.1], color=WEAK, alpha=0.3)
    right.text(0.8, 0.86, "forbidden", color=WEAK, ha="center")
    right.set(xlim=(0, 1), ylim=(0, 1), xlabel="Y_0", ylabel="Y_1", title="unsat: no point arrives")
    for axis in (left, right):
        axis.set_xticks([])
        axis.set_yticks([])
    return figure


def proofs() -> plt.Figure:
    """A ReLU between two lines, and what follows for the lead of another class."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.5), layout="constrained")
    z = np.linspace(-1, 1.5, 100)
    left.plot(z, np.maximum(z, 0), color=INK, lw=2)
    left.plot(z, 0.6 * (z + 1), color=WEAK, lw=1.5, ls="--")
    left.plot(z, 0.6 * z, color=ROBUST, lw=1.5, ls="--")
    left.fill_between(z, 0.6 * z, 0.6 * (z + 1), color=OPEN, alpha=0.25)
    left.set(title="a ReLU lies between two lines", xlabel="its input over the region")
    rows = (("proven", -1.4, -0.3, ROBUST), ("open", -0.8, 0.5, OPEN))
    for place, (word, low, high, color) in enumerate(rows):
        right.plot([low, high], [1 - place] * 2, color=color, lw=9, solid_capstyle="butt")
        right.text(high + 0.06, 1 - place, word, va="center")
    right.axvline(0, color=INK, lw=1)
    right.set(xlim=(-1.6, 1.1), ylim=(-0.6, 1.6), yticks=[])
    right.set(title="bounds of another class's lead", xlabel="above 0 it would win")
    right.spines["left"].set_visible(False)
    return figure


def grid() -> plt.Figure:
    """Accuracy beside robust accuracy for a grid of trees on phishing addresses."""
    from sklearn.tree import DecisionTreeClassifier

    url = du.datasets.url()
    data = url.test.where(y="phishing").sample(100)
    figure, axis = plt.subplots(figsize=(4.6, 2.8))
    for depth in (1, 2, 3, 4, 6, 8, 12):
        tree = DecisionTreeClassifier(max_depth=depth, random_state=0)
        tree.fit(url.train.x.numpy(), url.train.y.numpy())
        accuracy = tree.score(url.test.x.numpy(), url.test.y.numpy())
        space = data.schema.space(eps=0.05, p=float("inf"))
        proven = float(du.evaluate(tree, data, space=space, progress=False).metric("proven"))
        axis.plot(accuracy, proven, "o", color=INK)
        aside = (4, 5) if depth in {2, 4, 8, 12} else (4, -12)
        axis.annotate(
            f"depth {depth}", (accuracy, proven), xytext=aside, textcoords="offset points"
        )
    axis.set(xlabel="accuracy", ylabel="robust, at least", ylim=(0, 1.08), xlim=(0.84, 0.96))
    return figure


def two_sides() -> plt.Figure:
    """One number of an attack beside the two sides that are reported here."""
    figure, axis = plt.subplots(figsize=(6.2, 1.7))
    axis.barh(1, 0.64, color="#bbbbbb", height=0.5)
    axis.text(0.32, 1, "not broken", ha="center", va="center")
    axis.barh(0, 0.41, color=ROBUST, height=0.5)
    axis.barh(0, 0.23, left=0.41, color=OPEN, height=0.5)
    axis.barh([0, 1], [0.36, 0.36], left=[0.64, 0.64], color=WEAK, height=0.5)
    axis.text(0.205, 0, "proven", ha="center", va="center", color="white")
    axis.text(0.525, 0, "open", ha="center", va="center")
    for place in (0, 1):
        axis.text(0.82, place, "broken", ha="center", va="center", color="white")
    axis.set_yticks([1, 0], ["an attack alone", "durometer"])
    axis.set(xlim=(0, 1), xlabel="share of rows")
    return figure


def _arrow(
    axis: plt.Axes, start: tuple[float, float], end: tuple[float, float], dashed: bool = False
) -> None:
    style = {"arrowstyle": "->", "color": INK, "ls": "--" if dashed else "-"}
    axis.annotate("", end, start, arrowprops=style)


def _bare(figure: plt.Figure, axis: plt.Axes) -> plt.Figure:
    axis.axis("off")
    return figure


if __name__ == "__main__":
    main()
