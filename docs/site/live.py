"""The report page to click through: a real run on bundled data, played once and kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import gallery

import assay as ay


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


def _signs() -> ay.Report:
    from assay.demo import models

    data = ay.datasets.gtsrb().test.where(y=["stop", "no entry"]).head(40)
    harm = ay.Group({"stop": ["priority road", "right of way"], "no entry": ["straight"]})
    return ay.evaluate(
        models.gtsrb(), data, space=ay.Linf(8 / 255), goal=harm, attack=ay.APGD(30), progress=False
    )


def _addresses() -> ay.Report:
    from xgboost import XGBClassifier

    url = ay.datasets.url()
    model = XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
    model.fit(url.train.x.numpy(), url.train.y.numpy())
    data = url.test.where(y="phishing").head(60)
    space = data.schema.space(eps=0.05)
    named = ay.wrap(model, name="XGBoost, 60 trees of depth 4")
    return ay.evaluate(named, data, space=space, progress=False)
