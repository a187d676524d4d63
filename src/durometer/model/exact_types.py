"""Which objects are exactly what their class says, so that their insides can be read.

A subclass may override any step of a computation, and an instance may have a method replaced. What
is read off the attributes (weights, a token pattern) then describes another function than the one
that answers. So a reading is trusted of exact types alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch.nn.utils import parametrize


@cache
def linear_classifiers() -> frozenset[type]:
    """Classifiers that predict the class of the highest linear score, one score per class."""
    from sklearn import linear_model, svm

    names = ("LogisticRegression", "LogisticRegressionCV", "RidgeClassifier", "RidgeClassifierCV",
             "SGDClassifier", "Perceptron", "PassiveAggressiveClassifier")  # fmt: skip
    found = {getattr(linear_model, name) for name in names if hasattr(linear_model, name)}
    return frozenset(found | {svm.LinearSVC})


@cache
def _highest_score_wins() -> frozenset[type]:
    """Types whose `predict` is the arg-max of `decision_function`, else of `predict_proba`."""
    from sklearn import naive_bayes

    bayes = {naive_bayes.MultinomialNB, naive_bayes.ComplementNB, naive_bayes.BernoulliNB}
    return linear_classifiers() | bayes


def replaced_method(thing: Any) -> str | None:
    """The name of a method that this instance has instead of its class's own."""
    own = vars(thing) if hasattr(thing, "__dict__") else {}
    return next((name for name in own if callable(getattr(type(thing), name, None))), None)


_LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "durometer")


def impostor(model: Any) -> str:
    """Which part of an estimator is not the library's own, or has a method of its own; "" if none.

    A subclass that keeps the name of its base is one, and so is a transformer, a member of a vote
    or a tree of a forest whose method somebody replaced.
    """
    left, seen = [model], set[int]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, np.ndarray):
            left += list(part.ravel()) if part.dtype == object else []
        elif isinstance(part, list | tuple):
            left += part
        elif isinstance(part, dict):
            left += part.values()
        elif isinstance(part, type) or not hasattr(part, "__dict__"):
            continue
        elif type(part).__module__.split(".")[0] in _LIBRARIES:
            if (name := replaced_method(part)) is not None:
                return f"{type(part).__name__} has its own `{name}`"
            left += vars(part).values()
        elif hasattr(part, "fit"):
            return f"{type(part).__name__} is of {type(part).__module__}"
    return ""


def predicts_highest_score(model: Any) -> bool:
    """Is it known that `predict` is the arg-max of the scores, for every input?"""
    from sklearn.pipeline import Pipeline

    last = model.steps[-1][1] if type(model) is Pipeline else model
    exact = type(last) in _highest_score_wins()
    return exact and all(replaced_method(step) is None for step in (model, last))


def changed_inside(module: torch.nn.Module) -> str:
    """What makes a module of plain layers another function than its class says; "" if nothing."""
    for path, part in module.named_modules():
        where = f"{type(module).__name__}.{path}" if path else type(module).__name__
        if part._forward_hooks or part._forward_pre_hooks:  # noqa: SLF001 - torch has no reader
            return f"{where} has a forward hook"
        replaced = [n for n in vars(part) if callable(getattr(type(part), n, None))]
        if replaced:
            return f"{where} has its own `{replaced[0]}`"
        if parametrize.is_parametrized(part):
            return f"{where} is parametrised"
    return ""
