"""ONNX graphs in torch: each operator as onnxruntime has it, gradients as differences have them."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

import durometer as du
from durometer.core.errors import DurometerError, Unsupported
from durometer.model.graph import OPERATIONS
from durometer.spaces.discrete import RelaxedTokens

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


X = floats(3, 4)
IMAGES = floats(2, 3, 7, 6)
CASES = {
    **{kind: ([np.abs(X) + 0.1], {}) for kind in ("Sqrt", "Log", "Reciprocal")},
    **{kind: ([X], {}) for kind in (
        "Exp", "Neg", "Abs", "Tanh", "Erf", "Sigmoid", "Relu", "Softplus", "Identity", "Floor",
        "Sign")},
    **{kind: ([X, floats(4)], {}) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")},
    **{kind: ([X, floats(4)], {}) for kind in ("Greater", "Less")},
    "Pow": ([np.abs(X), np.float32(1.5)], {}),
    "Equal": ([ints(1, 2, 3), ints(3, 2, 1)], {}),
    "And": ([X > 0, X < 1], {}), "Or": ([X > 0, X < 1], {}), "Not": ([X > 0], {}),
    "Where": ([X > 0, X, floats(4)], {}),
    "MatMul": ([X, floats(2, 4, 5)], {}),
    "Gemm": ([X, floats(5, 4), floats(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    "Conv": ([IMAGES, floats(4, 3, 3, 2), floats(4)],
             {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    "ConvTranspose": ([IMAGES, np.linspace(-1, 1, 72, dtype=np.float32).reshape(3, 4, 3, 2)],
                      {"pads": [1, 0, 1, 0], "strides": [2, 1], "output_padding": [1, 0]}),
    "Pad": ([IMAGES, np.array([0, 0, 1, 2, 0, 0, 0, 3]), np.float32(0.5)], {}),
    "MaxPool": ([IMAGES], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "AveragePool": ([IMAGES], {"kernel_shape": [3, 3], "strides": [1, 2]}),
    "GlobalMaxPool": ([IMAGES], {}), "GlobalAveragePool": ([IMAGES], {}),
    "BatchNormalization": ([IMAGES, *(np.abs(floats(3)) for _ in range(4))], {"epsilon": 1e-3}),
    "LayerNormalization": ([X, floats(4), floats(4)], {}),
    "Softmax": ([X], {"axis": 0}), "LogSoftmax": ([X], {}),
    "LeakyRelu": ([X], {"alpha": 0.3}), "Elu": ([X], {"alpha": 0.7}),
    "Gelu": ([X], {"approximate": "tanh"}),
    "Clip": ([X, np.float32(-0.5), np.float32(0.4)], {}),
    "Cast": ([X], {"to": T.DOUBLE}),
    "Reshape": ([X, ints(0, 2, -1)], {}), "Flatten": ([IMAGES], {"axis": 2}),
    "Squeeze": ([X[:, None, :], ints(1)], {}), "Unsqueeze": ([X, ints(0, -1)], {}),
    "Expand": ([X, ints(2, 1, 4)], {}), "Transpose": ([IMAGES], {"perm": [0, 2, 3, 1]}),
    "Concat": ([X, floats(2, 4)], {"axis": 0}),
    "Slice": ([IMAGES, ints(5, 1), ints(-(2**40), 4), ints(2, 3), ints(-2, 1)], {}),
    "Gather": ([X, ints(2, -1, 0)], {"axis": 1}),
    "OneHot": ([ints(1, -1, 3), np.int64(4), floats(2)], {}),
    "Split": ([X, ints(1, 3)], {"axis": 1}),
    "Shape": ([IMAGES], {"start": 1}),
    "Dropout": ([X], {}),
    **{f"Reduce{k}": ([IMAGES, ints(1, 3)], {"keepdims": 0}) for k in ("Sum", "Mean", "L2")},
    "ReduceMax": ([IMAGES, ints(-1)], {}), "ReduceMin": ([IMAGES], {}),
    "ConstantOfShape": ([ints(2, 3)], {"value": h.make_tensor("v", T.FLOAT, [1], [2.5])}),
}  # fmt: skip


def save(nodes, inputs, outputs, weights, path):
    parts = [numpy_helper.from_array(v, name) for name, v in weights.items()]
    made = h.make_model(h.make_graph(nodes, "g", inputs, outputs, parts), ir_version=10,
                        opset_imports=[h.make_opsetid("", 20)])  # fmt: skip
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("kind", sorted(OPERATIONS))
def test_each_operator_answers_as_onnxruntime_does(kind, tmp_path):
    inputs, attributes = CASES[kind]
    arrays = {f"i{k}": np.asarray(v) for k, v in enumerate(inputs)}
    outputs = ["o0", "o1"] if kind == "Split" else ["o0"]
    nodes = [h.make_node(kind, list(arrays), outputs, **attributes)]
    entries = [
        h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in arrays.items()
    ]
    ends = [h.make_empty_tensor_value_info(o) for o in outputs]
    file = save(nodes, entries, ends, {}, tmp_path / "one.onnx")
    theirs = onnxruntime.InferenceSession(str(file)).run(None, arrays)
    given = {a.name: graph_value(a) for a in onnx.load(file).graph.node[0].attribute}
    tensors = [torch.from_numpy(v.copy()) for v in arrays.values()]
    ours = OPERATIONS[kind](given | {"opset": 20, "outputs": len(outputs)}, *tensors)
    for mine, own in zip(ours if isinstance(ours, tuple) else (ours,), theirs, strict=True):
        assert mine.shape == own.shape and mine.numpy().dtype == own.dtype
        np.testing.assert_allclose(mine.numpy(), own, rtol=2e-5, atol=2e-6)


def graph_value(a):
    if a.type == a.TENSOR:
        return torch.from_numpy(numpy_helper.to_array(a.t).copy())
    return h.get_attribute_value(a)


def network(path, kind="Relu"):
    """Images -> a convolution, a pool, a layer."""
    weights = {"w": floats(4, 3, 3, 3) / 3, "b": floats(4), "v": floats(4, 5)}
    nodes = [
        h.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node(kind, ["c"], ["r"]),
        h.make_node("GlobalAveragePool", ["r"], ["p"]),
        h.make_node("Flatten", ["p"], ["f"]),
        h.make_node("MatMul", ["f", "v"], ["logits"]),
        h.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),  # not on the way
    ]
    inputs = [h.make_tensor_value_info("x", T.FLOAT, ["n", 3, 8, 8])]
    outputs = [h.make_empty_tensor_value_info("label"), h.make_empty_tensor_value_info("logits")]
    return save(nodes, inputs, outputs, weights, path)


def test_gradients_are_those_of_the_runtimes_own_answers(tmp_path):
    file = network(tmp_path / "net.onnx", "Tanh")
    model, plain = du.wrap(file, gradients=True), du.wrap(file)
    x = torch.from_numpy(RNG.uniform(size=(2, 3, 8, 8)).astype(np.float32)).requires_grad_()
    out = model.logits(x)
    assert torch.equal(out.detach(), plain.logits(x.detach()))  # answers are onnxruntime's
    (grad,) = torch.autograd.grad(out[:, 1].sum(), x)
    along = torch.from_numpy(RNG.normal(size=x.shape).astype(np.float32))
    step = 1e-2
    ends = [plain.logits(x.detach() + s * step * along)[:, 1] for s in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert torch.allclose((grad * along).flatten(1).sum(1), slope, rtol=2e-2, atol=2e-3)


def test_a_gradient_attack_takes_an_onnx_file_with_gradients_and_no_other(tmp_path):
    file = network(tmp_path / "net.onnx")
    x = RNG.uniform(size=(12, 3, 8, 8)).astype(np.float32)
    data = du.Dataset(x, du.wrap(file).logits(torch.tensor(x)).argmax(1))
    asked = {"space": du.Linf(0.2), "attack": du.APGD(10), "progress": False}
    with pytest.raises(Unsupported, match=r"gradients=True"):
        du.evaluate(du.wrap(file), data, **asked)
    report = du.evaluate(du.wrap(file, gradients=True), data, **asked)
    won = report.table["success"].to_numpy()
    session = onnxruntime.InferenceSession(str(file))
    own = session.run(["label"], {"x": report.adversarial.astype(np.float32)})[0]
    assert won.any() and (own[won] != data.y.numpy()[won]).all()


def test_a_graph_that_torch_computes_otherwise_is_not_trusted(tmp_path, monkeypatch):
    model = du.wrap(network(tmp_path / "net.onnx"), gradients=True)
    monkeypatch.setitem(OPERATIONS, "Relu", lambda a, x: x.clamp_min(-0.05))
    with pytest.raises(DurometerError, match=r"away from onnxruntime's"):
        model.logits(torch.rand(4, 3, 8, 8).requires_grad_())


def test_what_has_no_gradient_is_named(tmp_path):
    with pytest.raises(Unsupported, match=r"the operator Cos"):
        du.wrap(network(tmp_path / "net.onnx", "Cos"), gradients=True)
    with pytest.raises(DurometerError, match=r"gradients=True is for ONNX files"):
        du.wrap(torch.nn.Linear(2, 2), gradients=True)


TABLE = floats(7, 3)


def on_symbols(path, way):
    """Symbols 0..6 -> the sum of their vectors, looked up in one of three ways."""
    ways = {
        "gather": [h.make_node("Gather", ["table", "s"], ["v"])],
        "one-hot": [
            h.make_node("Cast", ["s"], ["long"], to=T.INT64),
            h.make_node("OneHot", ["long", "depth", "values"], ["o"]),
            h.make_node("MatMul", ["o", "table"], ["v"]),
        ],
        "equal": [
            h.make_node("Reshape", ["s", "column"], ["r"]),
            h.make_node("Expand", ["r", "wide"], ["e"]),
            h.make_node("Equal", ["e", "codes"], ["q"]),
            h.make_node("Cast", ["q"], ["o"], to=T.FLOAT),
            h.make_node("MatMul", ["o", "table"], ["v"]),
        ],
        "added": [
            h.make_node("Add", ["s", "s"], ["t"]),
            h.make_node("Gather", ["table", "t"], ["v"]),
        ],
    }
    weights = {
        "table": TABLE, "depth": np.int64(7), "values": np.float32([0, 1]), "column": ints(0, 0, 1),
        "wide": ints(1, 1, 7), "codes": np.arange(7, dtype=np.int32)[None, None], "one": ints(1),
    }  # fmt: skip
    used = {n for node in ways[way] for n in node.input} | {"one"}
    nodes = [*ways[way], h.make_node("ReduceSum", ["v", "one"], ["logits"], keepdims=0)]
    return save(nodes, [h.make_tensor_value_info("s", T.INT32, ["n", 5])],
                [h.make_empty_tensor_value_info("logits")],
                {k: np.asarray(v) for k, v in weights.items() if k in used}, path)  # fmt: skip


@pytest.mark.parametrize("way", ["gather", "one-hot", "equal"])
def test_symbols_get_the_gradient_of_their_vectors(way, tmp_path):
    model = du.wrap(on_symbols(tmp_path / "s.onnx", way), gradients=True)
    x = torch.tensor([[0.0, 6, 2, 2, 1], [3, 3, 0, 5, 4]]).double()
    region = du.Symbols(most=2, alphabet=7, last=3).around(x)
    z = region.origin.requires_grad_()
    point = region.decode(z)
    assert isinstance(point, RelaxedTokens)
    out = model.logits(point)
    np.testing.assert_allclose(out.detach().numpy(), TABLE[x.long()].sum(1), rtol=1e-5)
    (grad,) = torch.autograd.grad(out[:, 2].sum(), z)
    options = region.options.nan_to_num(-1).long().numpy()
    expected = np.where(options >= 0, TABLE[options, 2], 0.0)
    np.testing.assert_allclose(grad.reshape(expected.shape).numpy(), expected, rtol=1e-5)


def test_symbols_that_are_computed_with_are_refused(tmp_path):
    model = du.wrap(on_symbols(tmp_path / "s.onnx", "added"), gradients=True)
    region = du.Symbols(most=2, alphabet=4).around(torch.ones(1, 5))
    with pytest.raises(Unsupported, match=r"no gradient through Add of symbols"):
        model.logits(region.decode(region.origin.requires_grad_()))


def test_hotflip_finds_what_a_plain_loop_finds(tmp_path):
    file = on_symbols(tmp_path / "s.onnx", "gather")
    x = RNG.integers(0, 7, (20, 5))
    y = TABLE[x].sum(1).argmax(1)

    def breakable(row, label):
        for place, symbol in itertools.product(range(3, 5), range(7)):
            new = row.copy()
            new[place] = symbol
            if TABLE[new].sum(0).argmax() != label:
                return True
        return False

    truth = np.array([breakable(row, c) for row, c in zip(x, y, strict=True)])
    report = du.evaluate(
        du.wrap(file, gradients=True), du.Dataset(x.astype(float), y),
        space=du.Symbols(most=1, alphabet=7, last=2), attack=du.HotFlip(5), progress=False,
    )  # fmt: skip
    found = report.table["success"].to_numpy()
    assert 2 < truth.sum() < 18
    assert not (found & ~truth).any() and (truth & ~found).sum() <= 1
    after = report.adversarial.astype(int)
    assert ((after != x).sum(1) <= 1).all() and (after[:, :3] == x[:, :3]).all()
    assert (TABLE[after[found]].sum(1).argmax(1) != y[found]).all()
