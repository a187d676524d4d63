"""The versions in a spec are those of the libraries that took part, and of no others."""

import sys
from importlib.metadata import version

import numpy as np
import pytest

import durometer as du
from durometer.run.versions import versions

X = np.random.default_rng(0).random((60, 3))
Y = (X[:, 0] > 0.5).astype(int)


def booster(name):
    if name == "xgboost":
        from xgboost import XGBClassifier as Model

        options = {}
    elif name == "lightgbm":
        from lightgbm import LGBMClassifier as Model

        options = {"verbose": -1}
    else:
        from catboost import CatBoostClassifier as Model

        options = {"verbose": False, "allow_writing_files": False}
    return Model(n_estimators=2, **options).fit(X, Y)


@pytest.mark.parametrize(
    "library, dist",
    [("xgboost", "xgboost-cpu"), ("lightgbm", "lightgbm"), ("catboost", "catboost")],
)
def test_a_booster_in_a_pipeline_is_named_with_everything_around_it(library, dist):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pytest.importorskip(library)
    model = make_pipeline(StandardScaler(), booster(library)).fit(X, Y)
    report = du.evaluate(model, du.Dataset(X, Y), space=du.Linf(0.1), attack=du.Square(5))
    said = report.spec.versions
    assert said[dist] == version(dist)
    assert {"durometer", "python", "numpy", "scipy", "torch", "scikit-learn"} <= set(said)
    others = {"xgboost-cpu", "lightgbm", "catboost"} - {dist}
    assert not others & set(said)


def test_a_library_that_a_function_refers_to_took_part():
    onnxruntime = pytest.importorskip("onnxruntime")

    def scores(x):
        return onnxruntime.get_device() and x

    assert versions([du.wrap(scores)])["onnxruntime"] == version("onnxruntime")
    assert "onnxruntime" not in versions([du.wrap(lambda x: x)])


def test_what_is_merely_imported_is_not_named():
    import sklearn  # noqa: F401

    assert "sklearn" in sys.modules
    assert "scikit-learn" not in versions([du.testing.toy()[0]])


def test_a_model_that_holds_a_session_or_a_lock_can_be_evaluated():
    """A cookie jar is a mapping that cannot be asked for its values, as others are clients."""
    import threading
    from collections.abc import Mapping

    class Jar(Mapping):
        def __getitem__(self, key):
            raise NotImplementedError

        def __iter__(self):
            raise NotImplementedError

        def __len__(self):
            return 1

    class Client:
        def __init__(self):
            self.jar, self.lock = Jar(), threading.Lock()

        def __call__(self, x):
            return np.stack([0.5 - np.asarray(x)[:, 0], np.asarray(x)[:, 0] - 0.5], 1)

    x = np.random.default_rng(0).uniform(size=(12, 2))
    report = du.evaluate(
        Client(), du.Dataset(x, (x[:, 0] > 0.5).astype(int)), space=du.Linf(0.1),
        attack=du.Square(5), progress=False,
    )  # fmt: skip
    assert report.metric("clean").value == 1.0
