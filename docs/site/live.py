"""The report page to click through: a real run on bundled data, played once and kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import gallery

import durometer as du


def write(kept: Path, folder: Path) -> None:
    """`report.html` of signs under a group goal, and of web addresses decided by a proof."""
    if not (kept / gallery.sources()).exists():
        shutil.rmtree(kept, ignore_errors=True)
        _signs().save(kept / "signs")
        _addresses().save(kept / "addresses")
        (kept / gallery.sources()).touch()
    for name in ("signs", "addresses"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(kept / name / "report.html", folder / name / "report.html")


def _signs() -> du.Report:
    from durometer.demo import models

    data = du.datasets.gtsrb().test.where(y=["stop", "no entry"]).head(40)
    harm = du.Group({"stop": ["priority road", "right of way"], "no entry": ["straight"]})
    return du.evaluate(
        models.gtsrb(), data, space=du.Linf(8 / 255), goal=harm, attack=du.APGD(30), progress=False
    )


def _addresses() -> du.Report:
    from xgboost import XGBClassifier

    url = du.datasets.url()
    model = XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
    model.fit(url.train.x.numpy(), url.train.y.numpy())
    data = url.test.where(y="phishing").head(60)
    space = data.schema.space(eps=0.05)
    named = du.wrap(model, name="XGBoost, 60 trees of depth 4")
    return du.evaluate(named, data, space=space, progress=False)
