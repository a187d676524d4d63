"""Kinds of model for tables: trees of every library, in pipelines and wrappers, and linear ones.

A maker takes (r, seed, classes) and gives an estimator. `KINDS` says what each can do: "gaps" (it
takes missing cells), "two" (two classes only).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from xgboost import XGBClassifier, XGBRFClassifier

Maker = Callable[[random.Random, int], Any]


def xgb(**given: Any) -> Maker:
    return lambda r, s: XGBClassifier(**{"n_estimators": r.choice([4, 9]), "max_depth": r.choice(
        [2, 3, 4]), "n_jobs": 1, "random_state": s,
        **given})  # fmt: skip


def lgbm(**given: Any) -> Maker:
    return lambda r, s: LGBMClassifier(**{"n_estimators": r.choice([4, 9]), "max_depth": 3,
        "min_child_samples": 5, "n_jobs": 1, "verbose": -1, "random_state": s,
        **given})  # fmt: skip


def cat(**given: Any) -> Maker:
    return lambda r, s: CatBoostClassifier(**{"iterations": r.choice([4, 9]), "depth": 3,
        "thread_count": 1, "verbose": False, "random_seed": s, "allow_writing_files": False,
        **given})  # fmt: skip


def of(kind: Any, **given: Any) -> Maker:
    return lambda r, s: kind(**given, random_state=s)


def behind(maker: Maker, *steps: Callable[[], Any]) -> Maker:
    return lambda r, s: make_pipeline(*(step() for step in steps), maker(r, s))


def cut(maker: Maker) -> Maker:
    return lambda r, s: FixedThresholdClassifier(
        maker(r, s), threshold=round(r.uniform(0.2, 0.8), 2)
    )


_FOREST = of(RandomForestClassifier, n_estimators=6, max_depth=4)
KINDS: dict[str, tuple[Maker, str]] = {
    "XGBoost": (xgb(), "gaps"),
    "XGBoost dart": (xgb(booster="dart", rate_drop=0.3), "gaps"),
    "XGBoost exact": (xgb(tree_method="exact"), "gaps"),
    "XGBoost lossguide": (xgb(grow_policy="lossguide", max_leaves=6), "gaps"),
    "XGBoost base_score": (xgb(base_score=0.2), "gaps two"),
    "XGBoost monotone": (xgb(monotone_constraints=(1, 0, 0, 0, -1)), "gaps"),
    "XGBoost parallel trees": (xgb(num_parallel_tree=3, subsample=0.6), "gaps"),
    "XGBoost scale_pos_weight": (xgb(scale_pos_weight=3.0), "gaps two"),
    "XGBoost missing=0": (xgb(missing=0.0), "gaps"),
    "XGBoost missing=-1": (xgb(missing=-1.0), "gaps"),
    "XGBoost gblinear": (lambda r, s: XGBClassifier(booster="gblinear", n_estimators=5), "gaps"),
    "XGBoost forest": (lambda r, s: XGBRFClassifier(n_estimators=5, max_depth=3, n_jobs=1,
                                                    random_state=s), "gaps"),
    "LightGBM": (lgbm(), "gaps"),
    "LightGBM dart": (lgbm(boosting_type="dart"), "gaps"),
    "LightGBM goss": (lgbm(data_sample_strategy="goss"), "gaps"),
    "LightGBM rf": (lgbm(boosting_type="rf", subsample=0.6, subsample_freq=1), "gaps"),
    "LightGBM extra trees": (lgbm(extra_trees=True), "gaps"),
    "LightGBM linear trees": (lgbm(linear_tree=True), "gaps"),
    "LightGBM zero_as_missing": (lgbm(zero_as_missing=True), "gaps"),
    "LightGBM use_missing=False": (lgbm(use_missing=False), "gaps"),
    "LightGBM categorical": (lgbm(categorical_feature=[2], min_data_per_group=1, cat_smooth=1.0),
                             "gaps"),
    "LightGBM ova": (lgbm(objective="multiclassova", num_class=3), "gaps three"),
    "LightGBM is_unbalance": (lgbm(is_unbalance=True), "gaps two"),
    "CatBoost": (cat(), "gaps"),
    "CatBoost nan_mode Max": (cat(nan_mode="Max"), "gaps"),
    "CatBoost depthwise": (cat(grow_policy="Depthwise"), "gaps"),
    "CatBoost lossguide": (cat(grow_policy="Lossguide", max_leaves=6), "gaps"),
    "CatBoost few borders": (cat(border_count=4), "gaps"),
    "decision tree": (of(DecisionTreeClassifier, max_depth=5), "gaps"),
    "decision tree entropy": (of(DecisionTreeClassifier, criterion="entropy", max_leaf_nodes=9),
                              "gaps"),
    "decision tree random": (of(DecisionTreeClassifier, splitter="random", max_depth=6), "gaps"),
    "decision tree weighted": (of(DecisionTreeClassifier, class_weight="balanced", ccp_alpha=0.002),
                               "gaps"),
    "decision tree monotonic": (of(DecisionTreeClassifier, max_depth=4,
                                   monotonic_cst=[1, 0, 0, 0, 0]), "two"),
    "extra tree": (of(ExtraTreeClassifier, max_depth=5), "gaps"),
    "random forest": (_FOREST, "gaps"),
    "random forest without bootstrap": (of(RandomForestClassifier, n_estimators=4, bootstrap=False,
                                           max_features=2), "gaps"),
    "extra trees": (of(ExtraTreesClassifier, n_estimators=6, max_depth=4), "gaps"),
    "hist gradient boosting": (of(HistGradientBoostingClassifier, max_iter=6, max_depth=3), "gaps"),
    "hist gradient boosting l2": (of(HistGradientBoostingClassifier, max_iter=5, max_leaf_nodes=5,
                                     l2_regularization=1.0, max_bins=8), "gaps"),
    "hist gradient boosting monotonic": (of(HistGradientBoostingClassifier, max_iter=5,
                                            monotonic_cst=[1, 0, 0, 0, -1]), "gaps two"),
    "hist gradient boosting categorical": (of(HistGradientBoostingClassifier, max_iter=5,
                                              categorical_features=[2]), "gaps"),
    "gradient boosting": (of(GradientBoostingClassifier, n_estimators=6), ""),
    "gradient boosting subsample": (of(GradientBoostingClassifier, n_estimators=6, subsample=0.5),
                                    ""),
    "imputer, gradient boosting": (behind(of(GradientBoostingClassifier, n_estimators=5),
                                          SimpleImputer), "gaps"),
    "imputer, forest": (behind(_FOREST, lambda: SimpleImputer(strategy="median")), "gaps"),
    "scaler, forest": (behind(_FOREST, StandardScaler), "gaps"),
    "min-max, XGBoost": (behind(xgb(), MinMaxScaler), "gaps"),
    "robust, max-abs, LightGBM": (behind(lgbm(), RobustScaler, MaxAbsScaler), "gaps"),
    "scaler, tree": (behind(of(DecisionTreeClassifier, max_depth=5), StandardScaler), "gaps"),
    "threshold, forest": (cut(_FOREST), "gaps two"),
    "threshold, XGBoost": (cut(xgb()), "gaps two"),
    "threshold, LightGBM": (cut(lgbm()), "gaps two"),
    "threshold, hist": (cut(of(HistGradientBoostingClassifier, max_iter=5)), "gaps two"),
    "calibrated forest": (lambda r, s: CalibratedClassifierCV(_FOREST(r, s), cv=2), "gaps two"),
    "voting": (lambda r, s: VotingClassifier([("a", _FOREST(r, s)), ("b", xgb()(r, s))],
                                             voting="soft"), "gaps"),
    "bagging": (of(BaggingClassifier, n_estimators=4), "gaps"),
    "AdaBoost": (of(AdaBoostClassifier, n_estimators=4), ""),
    "logistic regression": (of(LogisticRegression), "linear"),
    "imputer, scaler, logistic": (behind(of(LogisticRegression), SimpleImputer, StandardScaler),
                                  "gaps linear"),
    "imputer, ridge": (behind(of(RidgeClassifier), SimpleImputer), "gaps linear"),
    "scaler, linear SVM": (behind(of(LinearSVC), MinMaxScaler), "linear"),
    "SGD": (of(SGDClassifier), "linear"),
    "imputer, SGD log": (behind(of(SGDClassifier, loss="log_loss"), SimpleImputer), "gaps linear"),
    "threshold, logistic": (cut(of(LogisticRegression)), "linear two"),
}  # fmt: skip


def labels(model: Any, x: np.ndarray, columns: list[str]) -> np.ndarray:
    import pandas as pd

    return np.asarray(model.predict(pd.DataFrame(x, columns=columns))).ravel()
