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
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
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


class Made:
    """`fit` gives an estimator that is fitted in another way than by `fit(x, y)` alone."""

    def __init__(self, way: Callable[[Any, Any], Any]) -> None:
        self.way = way

    def fit(self, x: Any, y: Any) -> Any:
        return self.way(x, y)


def made(way: Callable[[Any, Any, int], Any]) -> Maker:
    return lambda r, s: Made(lambda x, y: way(x, y, s))


def _early_xgb(x: Any, y: Any, s: int) -> Any:
    model = XGBClassifier(n_estimators=40, max_depth=4, early_stopping_rounds=2, n_jobs=1,
                          learning_rate=1.0, random_state=s)  # fmt: skip
    return model.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])], verbose=False)


def _early_lgbm(x: Any, y: Any, s: int) -> Any:
    model = LGBMClassifier(n_estimators=40, max_depth=4, min_child_samples=5, n_jobs=1, verbose=-1,
                           learning_rate=1.0, early_stopping_round=2, random_state=s)  # fmt: skip
    return model.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])])


def _early_cat(x: Any, y: Any, s: int) -> Any:
    model = CatBoostClassifier(iterations=40, depth=3, learning_rate=1.0, verbose=False,
                               early_stopping_rounds=2, random_seed=s,
                               allow_writing_files=False)  # fmt: skip
    return model.fit(x[::2], y[::2], eval_set=(x[1::2], y[1::2]))


def _changed(maker: Maker, **after: Any) -> Maker:
    """Other parameters once it is fitted."""
    return made(lambda x, y, s: maker(random.Random(s), s).fit(x, y).set_params(**after))


def _weights_turned(x: Any, y: Any, s: int) -> Any:
    """A forest whose trees somebody exchanged."""
    model = RandomForestClassifier(6, max_depth=4, random_state=s).fit(x, y)
    model.estimators_ = model.estimators_[:2] * 3
    return model


def _relabelled(x: Any, y: Any, s: int) -> Any:
    """Classes in another order than that of its scores."""
    model = RandomForestClassifier(6, max_depth=4, random_state=s).fit(x, y)
    model.classes_ = model.classes_[::-1]
    return model


class _OtherPredict(RandomForestClassifier):
    def predict(self, x: Any) -> Any:
        return (self.predict_proba(x)[:, -1] > 0.25).astype(int)


class _OtherScores(HistGradientBoostingClassifier):
    def predict_proba(self, x: Any) -> Any:
        return super().predict_proba(x)[:, ::-1]


class _OtherXGB(XGBClassifier):
    def predict(self, *given: Any, **named: Any) -> Any:
        return 1 - super().predict(*given, **named)


def _replaced(x: Any, y: Any, s: int) -> Any:
    """`predict` of the one object replaced."""
    model = DecisionTreeClassifier(max_depth=4, random_state=s).fit(x, y)
    own = model.predict
    model.predict = lambda x, *rest: 1 - own(x, *rest)
    return model


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
    "XGBoost early stopping": (made(_early_xgb), "gaps"),
    "LightGBM early stopping": (made(_early_lgbm), "gaps"),
    "CatBoost early stopping": (made(_early_cat), "gaps"),
    "XGBoost vector leaves": (xgb(multi_strategy="multi_output_tree"), "gaps three"),
    "XGBoost max_delta_step": (xgb(max_delta_step=0.7), "gaps two"),
    "XGBoost hinge": (xgb(objective="binary:hinge"), "gaps two"),
    "XGBoost logitraw": (xgb(objective="binary:logitraw"), "gaps two"),
    "XGBoost softmax": (xgb(objective="multi:softmax"), "gaps three"),
    "XGBoost dart, one_drop": (xgb(booster="dart", one_drop=True, normalize_type="forest"), "gaps"),
    "LightGBM sigmoid": (lgbm(sigmoid=2.5), "gaps two"),
    "LightGBM cross-entropy": (lgbm(objective="cross_entropy"), "gaps two"),
    "LightGBM start_iteration": (_changed(lgbm(), start_iteration_predict=2), "gaps"),
    "LightGBM num_iteration": (_changed(lgbm(), num_iteration_predict=2), "gaps"),
    "LightGBM quantized": (lgbm(use_quantized_grad=True), "gaps"),
    "LightGBM path smooth": (lgbm(path_smooth=5.0, max_bin=7), "gaps"),
    "XGBoost n_estimators changed": (_changed(xgb(), n_estimators=2), "gaps"),
    "XGBoost missing changed": (_changed(xgb(), missing=1.0), "gaps"),
    "CatBoost auto weights": (cat(auto_class_weights="Balanced"), "gaps"),
    "CatBoost cross-entropy": (cat(loss_function="CrossEntropy"), "gaps two"),
    "CatBoost one-vs-all": (cat(loss_function="MultiClassOneVsAll"), "gaps three"),
    "forest with trees exchanged": (made(_weights_turned), "gaps"),
    "forest, classes in another order": (made(_relabelled), "gaps two"),
    "forest with its own predict": (of(_OtherPredict, n_estimators=5, max_depth=4), "gaps two"),
    "hist with its own scores": (of(_OtherScores, max_iter=4), "gaps two"),
    "XGBoost with its own predict": (of(_OtherXGB, n_estimators=4, max_depth=3), "gaps two"),
    "tree with a replaced predict": (made(_replaced), "gaps two"),
    "imputer with indicators, forest": (behind(_FOREST, lambda: SimpleImputer(
        add_indicator=True)), "gaps"),
    "imputer of 2, tree": (behind(of(DecisionTreeClassifier, max_depth=4), lambda: SimpleImputer(
        missing_values=2.0)), ""),
    "bins, tree": (behind(of(DecisionTreeClassifier, max_depth=4), lambda: KBinsDiscretizer(
        4, encode="ordinal")), ""),
    "signs, tree": (behind(of(DecisionTreeClassifier, max_depth=4), lambda: Binarizer(
        threshold=2.0)), ""),
    "function, tree": (behind(of(DecisionTreeClassifier, max_depth=4), lambda: FunctionTransformer(
        np.negative)), "gaps"),
    "quantiles, forest": (behind(_FOREST, lambda: QuantileTransformer(n_quantiles=20)), "gaps"),
    "stacking": (lambda r, s: StackingClassifier([("a", _FOREST(r, s))], cv=2), "gaps"),
    "voting hard": (lambda r, s: VotingClassifier([("a", _FOREST(r, s)), ("b", xgb()(r, s)), (
        "c", of(DecisionTreeClassifier, max_depth=3)(r, s))], weights=[1, 2, 1]), "gaps"),
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
