"""The tables of the study: training and test rows, who attacks, and how far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import durometer as du


@dataclass(frozen=True)
class Case:
    """One question: rows, threat, and the price of an answer."""

    train: du.Dataset
    test: du.Dataset
    space: Any
    goal: Any
    attacked: str  # the class an attacker starts from
    max_loss: float


URL = {
    "url-linf": (0.05, math.inf, 0.015),
    "url-l2": (0.1, 2.0, 0.015),
    "url-l2wide": (0.5, 2.0, 0.05),
}


def case(name: str, split: int | None = None) -> Case:
    """By name; with `split` all rows of the table are parted anew (a fifth for testing)."""
    if name in URL:
        eps, p, price = URL[name]
        train, test = _parts(du.datasets.url(), split)
        goal = du.Group({"phishing": ["legitimate"]})
        space = train.schema.space(eps=eps, p=p)
        return Case(train, test, space, goal, "phishing", price)
    if name == "lcld":  # a sample of 993 loans: half of it is trained on
        train, test = du.training.holdout(du.datasets.lcld().test, 0.5, seed=split or 0)
        goal = du.Group({"charged off": ["fully paid"]})  # who will not pay wants the loan
        space = train.schema.space(eps=0.05, p=math.inf)
        return Case(train, test, space, goal, "charged off", 0.05)
    if name == "adult":  # who earns less says otherwise, in at most one field that is not checked
        parts = _parts(du.datasets.adult(), split)
        goal = du.Group({"<=50K": [">50K"]})
        checked = ["age", "fnlwgt", "education", "education_num", "marital_status", "relationship",
                   "race", "sex", "native_country"]  # fmt: skip
        schema = parts[0].schema.freeze(*checked)
        train, test = (_coded(part, schema) for part in parts)
        return Case(train, test, schema.space(eps=1, p=0), goal, "<=50K", 0.05)
    raise SystemExit(f"no case {name!r}: {', '.join(CASES)}")


def _parts(splits: Any, split: int | None) -> tuple[du.Dataset, du.Dataset]:
    """The table's own training and test rows, or all its rows split anew."""
    if split is None:
        return splits.train, splits.test
    parts = [p for p in (splits.train, splits.val, splits.test) if p is not None]
    whole = du.Dataset(
        torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]),
        ids=np.concatenate([np.asarray(p.ids) for p in parts]),
        schema=parts[0].schema, classes=parts[0].classes,
    )  # fmt: skip
    return du.training.holdout(whole, 0.2, seed=1000 + split)  # not the draw of harden's own


def _coded(data: du.Dataset, schema: du.Schema) -> du.Dataset:
    """Categories as codes in an array, which every library takes; rows without gaps."""
    whole = ~data.x.isnan().any(1)
    return du.Dataset(data.x[whole], data.y[whole], schema=schema, classes=data.classes)


CASES = (*URL, "lcld", "adult")


def models(seed: int, size: int = 100, balanced: bool = False) -> dict[str, Any]:
    """The user's estimators; `balanced` where one class is a fifth of the rows."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    weight = "balanced" if balanced else None
    return {
        "xgb": XGBClassifier(
            n_estimators=size, max_depth=4, n_jobs=1, random_state=seed,
            scale_pos_weight=4 if balanced else 1,
        ),
        "lgbm": LGBMClassifier(
            n_estimators=size, num_leaves=15, n_jobs=1, verbose=-1, random_state=seed,
            class_weight=weight,
        ),
        "forest": RandomForestClassifier(
            size // 4, max_depth=6, n_jobs=1, random_state=seed, class_weight=weight
        ),
    }  # fmt: skip
