"""URejectron on GTSRB: figure 1 of Chen et al. 2022, as lines of the transductive study.

The batch is half clean (z) and half attacked. Against PGD the discriminator rejects what was
attacked; CW's small changes get through; and if z is merely brighter than the training data it is
rejected as well, which shows on images that are otherwise lit alike (the paper equalises its own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from games import Lines, trained
from torch import Tensor, nn

import durometer as du
from durometer import architectures, defenses
from durometer.report.figures.transductive import curve
from durometer.report.page import charts
from durometer.report.stats import Estimate

SHARES = 41  # points of a curve
PANELS = {
    "PGD": "PGD: attacked images are rejected first",
    "CW": "CW: attacked images get through",
    "PGD, z brightened": "PGD, and z a little brighter",
    "PGD, z brightened, equalised": "The same on equalised images: z is rejected before the attack",
}


def urejectron(seed: int, quick: bool) -> Lines:
    """Half of the batch is clean (z), half is PGD or CW; or z is a little brighter."""
    parts = du.datasets.gtsrb()
    # As in the paper, frames of the same signs are on both sides: z must be like the training data.
    pool = both(parts.train, parts.val)
    ours = pool.sample(24 if quick else 400, seed)
    rest = pool.take(~np.isin(pool.ids, ours.ids))
    rest = rest.sample(100, seed) if quick else rest

    @cache
    def net(equal: bool) -> nn.Module:
        build = lambda: architectures.SmallCNN(43, width=16)  # noqa: E731
        epochs = 1 if quick else 20
        return trained(build, lit_alike(rest, equal), seed, epochs=epochs, rate=3e-3, batch=64)

    pgd = du.PGD(2 if quick else 20, step=1 / 4)
    cw = du.CW(steps=5 if quick else 100, searches=1, c=1.0)  # as published: no search for c

    @cache
    def alone(space: Any, attack: Any) -> du.Report:
        return du.evaluate(net(False), ours, space=space, attack=attack, seed=seed, progress=False)

    def mixed(light: Any, attack: Any, equal: bool = False, bad: Any = None) -> du.Report:
        train, test = lit_alike(rest, equal), lit_alike(ours, equal)
        data = du.Dataset(
            torch.cat([light(test.x), test.x if bad is None else bad]),
            test.y.repeat(2),
            ids=np.concatenate([test.ids, np.char.add(test.ids.astype(str), "*")]),
        )
        controlled = np.arange(len(data)) >= len(test)
        # Pooled over the whole image: told by texture and light, not by knowing each picture.
        build = lambda: architectures.SmallCNN(2, width=16, grid=1)  # noqa: E731
        how = {"epochs": 1 if quick else 12, "batch": 64, "rate": 2e-3}
        defender = defenses.URejectron(net(equal), build, train, **how)
        game = du.Transductive(defender, batch=len(data), controlled=controlled, probe=False)
        goal = du.Untargeted(reject=43)
        return du.evaluate(
            game, data, space=near, attack=attack, goal=goal, seed=seed, progress=False
        )

    near, wide = du.Linf(8 / 255), du.L2(3.0)
    # The game keeps PGD's point of highest loss; CW's is the nearest, so it is made beforehand.
    small = lambda: torch.as_tensor(alone(wide, cw).adversarial)  # noqa: E731
    return {
        "classifier alone, PGD": lambda: alone(near, pgd),
        "classifier alone, CW": lambda: alone(wide, cw),
        "PGD": lambda: mixed(same, du.Transfer(pgd)),
        "CW": lambda: mixed(same, None, bad=small()),
        "PGD, z brightened": lambda: mixed(brightened, du.Transfer(pgd)),
        "PGD, z brightened, equalised": lambda: mixed(brightened, du.Transfer(pgd), equal=True),
    }


def same(x: Tensor) -> Tensor:
    return x


def lit_alike(data: du.Dataset, equal: bool) -> du.Dataset:
    """With the histograms of all images equalised, as the paper's are, or as they came."""
    return du.Dataset(equalised(data.x), data.y, ids=data.ids) if equal else data


def both(one: du.Dataset, two: du.Dataset) -> du.Dataset:
    return du.Dataset(
        torch.cat([one.x, two.x]),
        torch.cat([one.y, two.y]),
        ids=np.concatenate([one.ids, two.ids]),
    )


def equalised(x: Tensor) -> Tensor:
    """HSV value by its rank in the image, as the paper's images are: each is lit alike."""
    value = x.amax(1).flatten(1)
    place = torch.searchsorted(value.sort(1).values, value, right=True) / value.shape[1]
    return lit(x, place.reshape(len(x), 1, *x.shape[2:]).to(x.dtype))


def brightened(x: Tensor) -> Tensor:
    """HSV value + 0.05."""
    return lit(x, (x.amax(1, keepdim=True) + 0.05).clamp_max(1))


def lit(x: Tensor, value: Tensor) -> Tensor:
    """The same colours at another HSV value, in bytes: scaling a colour scales its value alone."""
    before = x.amax(1, keepdim=True)
    scaled = torch.where(before > 0, x * value / before.clamp_min(1e-6), value)
    return (scaled.clamp(0, 1) * 255).round() / 255


def rejection(report: du.Report) -> dict[str, Any]:
    """The curve, and the discriminator's mean scores; nothing where nobody rejects."""
    if report.table["doubt"].isna().all():
        return {}
    score = 1 / (1 + np.exp(-report.table["doubt"].to_numpy()))
    bad = report.table["controlled"].to_numpy()
    wrong = (report.table["answer"] != report.table["y"]).to_numpy()
    return {
        "curve": curve(report, SHARES).drop(columns="threshold").round(4).to_dict("list"),
        "scores": {"clean": float(score[~bad].mean()), "attacked": float(score[bad].mean())},
        "wrong": {"clean": float(wrong[~bad].mean()), "attacked": float(wrong[bad].mean())},
    }


def panels(cells: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> None:
    """One drawing per panel of figure 1 (mean over seeds, band from least to most)."""
    drawn = []
    for name, title in PANELS.items():
        seeds = [cell["rejection"]["curve"] for cell in cells.get(name, ())]
        if not seeds:
            continue
        series = {
            label: [
                (x, Estimate(float(np.mean(ys)), min(ys), max(ys), len(ys)))
                for x, *ys in zip(
                    np.linspace(0, 1, SHARES).tolist(), *(s[key] for s in seeds), strict=True
                )
            ]
            for key, label in (
                ("error_accepted", "error, accepted"),
                ("error", "error, over all"),
                ("rejected_clean", "z rejected"),
            )
        }
        drawn.append((name, title, charts.curves(series, title, "share of the batch rejected")))
    for name, _, drawing in drawn:
        slug = name.lower().replace(", z ", "-").replace(", ", "-")
        (folder / f"urejectron-{slug}.svg").write_text(alone(drawing), encoding="utf-8")


def alone(drawing: Any) -> str:
    """A chart of the report as a file of its own."""
    whole = str(drawing)
    chart = whole[whole.index("<svg ") : whole.rindex("</svg>") + 6]
    opening, rest = chart.split(">", 1)
    opening = opening.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="800" ', 1)
    css = (files("durometer.report") / "templates" / "report.css").read_text(encoding="utf-8")
    return f"{opening}><style>{css} text {{ font-family: sans-serif }}</style>{rest}"
