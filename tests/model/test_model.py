"""wrap(): every kind of model answers as it does by itself, and is left as it was found."""

import joblib
import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from torch import nn

import durometer as du
from durometer.core.errors import DurometerError, Unsupported
from durometer.model.classifier import wrap
from durometer.model.probe import inspect, probe

RNG = np.random.default_rng(0)
X = RNG.random((150, 5))
Y = (X[:, 0] * 3).astype(int)
T = torch.tensor(X)
TWO = (X[:, 0] > 0.5).astype(int)


def agrees(model, predicted, x=T):
    logits = probe(wrap(model), x).logits(x)
    assert logits.is_floating_point() and bool(logits.isfinite().all())
    assert logits.argmax(1).tolist() == np.asarray(predicted).reshape(-1).tolist()


# --- torch


def test_a_module_is_left_as_it_was_found():
    net = nn.Sequential(
        nn.Linear(5, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3)
    ).double()
    net.train()
    net[2].eval()  # a mixture, as in fine-tuning
    net[0].weight.requires_grad_(False)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    modes = [m.training for m in net.modules()]
    wanted = [p.requires_grad for p in net.parameters()]
    report = du.evaluate(net, du.Dataset(X, Y), space=du.Linf(0.1), attack=du.PGD(2))
    assert [m.training for m in net.modules()] == modes
    assert [p.requires_grad for p in net.parameters()] == wanted
    assert all(p.grad is None for p in net.parameters())
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert "training-mode" in {f.id for f in report.flags}


def test_a_module_is_put_back_when_something_breaks():
    net = nn.Linear(5, 3).double().train()
    with pytest.raises(RuntimeError), wrap(net).ready():
        assert not net.training and not net.weight.requires_grad
        raise RuntimeError
    assert net.training and net.weight.requires_grad


def test_gradients_flow_to_inputs_in_the_inputs_precision():
    net = wrap(nn.Linear(5, 3))  # float32 weights, float64 inputs
    x = T.clone().requires_grad_()
    net.logits(x).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float64
    assert net.differentiable


def test_a_module_that_returns_a_tuple():
    class Two(nn.Module):
        def forward(self, x):
            return x[:, :3], "features"

    assert torch.equal(wrap(Two()).logits(T), T[:, :3])


def test_one_column_is_two_classes():
    score = torch.tensor([[-2.0], [0.5], [3.0]])

    def model(x):
        return score[: len(x)]

    assert wrap(model).logits(torch.zeros(3, 1)).argmax(1).tolist() == [0, 1, 1]
    chance = wrap(lambda x: torch.tensor([0.2, 0.9]), answers="probabilities")
    logits = chance.logits(torch.zeros(2, 1))
    assert torch.allclose(logits.exp(), torch.tensor([[0.8, 0.2], [0.1, 0.9]]))


# --- scikit-learn


@pytest.mark.parametrize("y", [Y, TWO], ids=["three", "two"])
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        RandomForestClassifier(10, random_state=0),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        SVC(),  # decision_function only; one column for two classes
        LinearSVC(),
        RidgeClassifier(),
        NearestCentroid(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), SVC()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_scikit_learn(model, y):
    from sklearn.base import clone

    model = clone(model).fit(X, y)
    agrees(model, model.predict(X))
    wrapped = wrap(model)
    assert not wrapped.differentiable
    assert wrapped.names == tuple(str(c) for c in np.unique(y))


def test_scores_that_contradict_the_prediction_are_not_used():
    pairs = SVC(decision_function_shape="ovo").fit(X, np.arange(150) % 4)  # 6 columns, 4 classes
    assert probe(wrap(pairs), T).logits(T).shape == (150, 4)
    agrees(pairs, pairs.predict(X))


def test_scores_that_are_wrong_only_where_the_prediction_turns_are_not_used():
    class Careful:
        """Says yes from 45 % on, so its probabilities are right on every clear case."""

        classes_ = np.array([0, 1])

        def predict_proba(self, x):
            yes = 1 / (1 + np.exp(-20 * (x[:, 0] - 0.5)))
            return np.stack([1 - yes, yes], 1)

        def predict(self, x):
            return (self.predict_proba(x)[:, 1] > 0.45).astype(int)

    clear, near = torch.tensor([[0.0], [0.9], [0.1], [1.0]]), torch.tensor([[0.495]])
    assert wrap(Careful()).logits(near).argmax(1).tolist() == [0]
    assert probe(wrap(Careful()), clear).logits(near).argmax(1).tolist() == [1]


def test_a_model_that_takes_no_half_values_is_settled_all_the_same():
    class Picky:
        classes_ = np.array([0, 1])

        def predict(self, x):
            if (x != np.rint(x)).any():
                raise ValueError("unknown category")
            return x[:, 0].astype(int)

    x = torch.tensor([[0.0], [1.0]])
    assert probe(wrap(Picky()), x).logits(x).argmax(1).tolist() == [0, 1]


def test_labels_alone_are_enough():
    class Rule:
        classes_ = np.array(["no", "yes"])

        def predict(self, x):
            return np.where(x[:, 0] > 0.5, "yes", "no")

    agrees(Rule(), TWO)
    assert wrap(Rule()).names == ("no", "yes")


def test_the_models_order_of_classes_is_the_order_of_columns():
    names = np.array(["zebra", "ant", "monkey"])[Y]
    model = LogisticRegression().fit(X, names)
    wrapped = wrap(model)
    assert wrapped.names == ("ant", "monkey", "zebra")
    predicted = np.array(wrapped.names)[wrapped.logits(T).argmax(1)]
    assert (predicted == model.predict(X)).all()


def test_columns_with_names_do_not_warn(recwarn):
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcde"))
    model = RandomForestClassifier(5, random_state=0).fit(frame, Y)
    agrees(model, model.predict(frame))
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_images_reach_an_estimator_as_rows():
    model = LogisticRegression().fit(RNG.random((60, 16)), np.arange(60) % 2)
    assert wrap(model).logits(torch.rand(7, 1, 4, 4)).shape == (7, 2)


# --- boosted trees


@pytest.mark.parametrize("y", [Y, TWO], ids=["three", "two"])
def test_xgboost(y):
    import xgboost as xgb

    model = xgb.XGBClassifier(n_estimators=5, max_depth=3).fit(X, y)
    agrees(model, model.predict(X))
    agrees(model.get_booster(), model.predict(X))


def test_an_xgboost_booster_is_known_by_its_margins():
    import xgboost as xgb

    def trained(objective, y, **more):
        return xgb.train({"objective": objective, "max_depth": 2} | more, xgb.DMatrix(X, y), 5)

    raw = trained("binary:logitraw", TWO)  # predicts a score
    agrees(raw, raw.predict(xgb.DMatrix(X)) > 0)
    labels = trained("multi:softmax", Y, num_class=3)  # predicts a class
    agrees(labels, labels.predict(xgb.DMatrix(X)))
    with pytest.raises(Unsupported, match="reg:squarederror"):
        wrap(trained("reg:squarederror", TWO))


@pytest.mark.parametrize("y", [Y, TWO], ids=["three", "two"])
def test_lightgbm(y):
    import lightgbm as lgb

    model = lgb.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, y)
    agrees(model, model.predict(X))
    agrees(model.booster_, model.predict(X))


def test_a_lightgbm_booster_that_is_no_classifier_is_refused():
    import lightgbm as lgb

    def logistic(scores, data):
        chance = 1 / (1 + np.exp(-scores))
        return chance - data.get_label(), chance * (1 - chance)

    for objective, said in (("regression", "'regression'"), (logistic, "'custom'")):
        model = lgb.train({"objective": objective, "verbose": -1}, lgb.Dataset(X, TWO), 2)
        with pytest.raises(Unsupported, match=said):
            wrap(model)


@pytest.mark.parametrize("y", [Y, TWO], ids=["three", "two"])
def test_catboost(y, tmp_path):
    import catboost

    model = catboost.CatBoostClassifier(iterations=5, verbose=0, train_dir=str(tmp_path)).fit(X, y)
    agrees(model, model.predict(X))


# --- onnx and callables


def onnx_file(path, softmax):
    from onnx import TensorProto, helper, numpy_helper, save

    weight = RNG.random((5, 3)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"])]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["scores"], ["out"], axis=1))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])
    out = helper.make_tensor_value_info("out" if softmax else "scores", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "g", [given], [out], [numpy_helper.from_array(weight, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(made, path)
    return weight


def test_onnx(tmp_path):
    weight = onnx_file(tmp_path / "m.onnx", softmax=False)
    model = wrap(tmp_path / "m.onnx")
    assert np.allclose(model.logits(T).numpy(), X.astype(np.float32) @ weight, atol=1e-6)
    assert not model.differentiable
    assert len(model.hash) == 12
    weight = onnx_file(tmp_path / "p.onnx", softmax=True)
    chance = wrap(str(tmp_path / "p.onnx"), answers="probabilities")
    scores = torch.tensor(X.astype(np.float32) @ weight).log_softmax(1)
    assert torch.allclose(chance.logits(T), scores, atol=1e-5)
    (tmp_path / "odd.pt").write_bytes(b"")
    with pytest.raises(DurometerError, match="only .onnx files"):
        wrap(tmp_path / "odd.pt")


def test_a_callable_is_tried_to_see_what_it_is():
    weight = torch.tensor(RNG.random((5, 3)))

    def of_tensors(x):
        return x @ weight

    def of_arrays(x):
        return x.astype(float) @ weight.numpy()  # tensors have no astype

    def without_gradients(x):
        return (x @ weight).detach()

    def with_weights_that_want_gradients(x):
        return torch.tensor(x.detach().numpy()) @ weight.clone().requires_grad_()

    for model, differentiable in (
        (of_tensors, True), (of_arrays, False), (without_gradients, False),
        (with_weights_that_want_gradients, False),
    ):  # fmt: skip
        probed = probe(wrap(model), T)
        assert probed.differentiable is differentiable
        assert torch.allclose(probed.logits(T), T @ weight)


def test_a_module_that_lets_no_gradient_through_is_refused_before_the_attack():
    class Detached(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x.detach())

    assert probe(wrap(torch.nn.Linear(5, 3)), T).differentiable
    assert not probe(wrap(Detached(5, 3)), T).differentiable


# --- what looks wrong


def facts(model, y=None):
    model = wrap(model)
    return inspect(probe(model, T), T, torch.tensor(Y if y is None else y))


def test_probabilities_given_for_logits_are_noticed():
    net = nn.Sequential(nn.Linear(5, 3), nn.Softmax(1)).double()
    assert facts(net).probabilities
    assert not facts(nn.Linear(5, 3).double()).probabilities
    assert not facts(du.wrap(net, answers="probabilities")).probabilities
    report = du.evaluate(net, du.Dataset(X, Y), space=du.Linf(0.01), attack=du.PGD(1))
    assert "probabilities" in {f.id for f in report.flags}


def test_a_model_that_answers_differently_on_repeat_is_noticed():
    noise = torch.Generator().manual_seed(0)

    def noisy(x):
        return x[:, :3] + 0.1 * torch.rand(len(x), 3, generator=noise)

    assert facts(noisy).repeat_difference > 1e-6
    assert facts(nn.Linear(5, 3).double()).repeat_difference == 0


def test_a_model_whose_answer_depends_on_the_batch_is_noticed():
    def adapting(x):
        return x[:, :3] - x[:, :3].mean(0, keepdim=True)

    assert facts(adapting).batch_difference > 1e-3


def test_the_hash_follows_the_weights():
    torch.manual_seed(0)
    net = nn.Linear(5, 3)
    before = wrap(net).hash
    assert wrap(net).hash == before
    with torch.no_grad():
        net.weight[0, 0] += 1
    assert wrap(net).hash != before
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    assert wrap(forest).hash == wrap(forest).hash != "unknown"


def test_outputs_must_be_known():
    with pytest.raises(DurometerError, match="answers='probs'"):
        wrap(nn.Linear(5, 3), answers="probs")


def test_a_forest_read_from_a_file_has_one_hash(tmp_path):
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    joblib.dump(forest, tmp_path / "forest.joblib")
    assert len({wrap(joblib.load(tmp_path / "forest.joblib")).hash for _ in range(5)}) == 1
    other = RandomForestClassifier(5, random_state=1).fit(X, Y)
    assert wrap(other).hash != wrap(forest).hash


def test_what_a_wrapped_model_returns_can_be_said_afterwards() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(1))
    x = torch.rand(5, 4)
    known = du.wrap(du.wrap(net), answers="probabilities").logits(x)
    torch.testing.assert_close(known, du.wrap(net, answers="probabilities").logits(x))
