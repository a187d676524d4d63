"""ONNX graphs get what they declare: integers, text, an input per column."""

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper as h

import durometer as du
from durometer import Feature, Schema
from durometer.core.errors import DurometerError
from durometer.model.agreement import agree
from durometer.model.classifier import wrap
from durometer.model.frames import align_columns


def saved(graph, path):
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def bytes_graph(path):
    """int32 bytes -> an embedding of each, summed."""
    table = np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32)
    nodes = [
        h.make_node("Gather", ["table", "bytes"], ["found"]),
        h.make_node("ReduceSum", ["found", "axes"], ["logits"], keepdims=0),
    ]
    parts = [h.make_tensor("table", T.FLOAT, table.shape, table.ravel()),
             h.make_tensor("axes", T.INT64, [1], [1])]  # fmt: skip
    inputs = [h.make_tensor_value_info("bytes", T.INT32, ["n", 6])]
    outputs = [h.make_tensor_value_info("logits", T.FLOAT, ["n", 3])]
    return saved(h.make_graph(nodes, "bytes", inputs, outputs, parts), path), table


def test_a_graph_of_integers_is_asked_with_integers_and_attacked(tmp_path):
    file, table = bytes_graph(tmp_path / "bytes.onnx")
    x = np.random.default_rng(1).integers(0, 256, (30, 6))
    own = table[x].sum(1).argmax(1)
    schema = Schema([Feature(f"b{i}", "integer", 0, 255) for i in range(6)])
    data = du.Dataset(pd.DataFrame(x, columns=schema.names), own, schema=schema)

    def predict(frame):
        return table[frame.to_numpy()].sum(1).argmax(1)

    model = wrap(file, name="bytes", predict=predict)
    assert agree(align_columns(model, data), data) == 30
    report = du.evaluate(model, data, space=schema.space(eps=2, p=0), attack=du.Graft(400))
    assert report.metric("clean").value == 1.0 and report.metric("robust").value < 0.5
    won = report.table["success"].to_numpy()
    handed = report.adversarial[won].astype(int)
    assert (table[handed].sum(1).argmax(1) != own[won]).all()
    assert ((handed != x[won]).sum(1) <= 2).all()
    with pytest.raises(DurometerError, match=r"takes int32, and 3\.5 is none"):
        wrap(file).logits(torch.full((1, 6), 3.5))


def columns_graph(path):
    """An input per column, one of them text: a score that text and number make together."""
    nodes = [
        h.make_node("Cast", ["amount"], ["wide"], to=T.FLOAT),
        h.make_node("Equal", ["purpose", "boat"], ["is_boat"]),
        h.make_node("Cast", ["is_boat"], ["boat_one"], to=T.FLOAT),
        h.make_node("Mul", ["boat_one", "ten"], ["risk"]),
        h.make_node("Sub", ["wide", "risk"], ["score"]),
        h.make_node("Neg", ["score"], ["other"]),
        h.make_node("Concat", ["other", "score"], ["scores"], axis=1),
    ]
    parts = [h.make_tensor("boat", T.STRING, [1], [b"boat"]),
             h.make_tensor("ten", T.FLOAT, [1], [10.0])]  # fmt: skip
    inputs = [h.make_tensor_value_info("purpose", T.STRING, ["n", 1]),
              h.make_tensor_value_info("amount", T.INT64, ["n", 1])]  # fmt: skip
    outputs = [h.make_tensor_value_info("scores", T.FLOAT, ["n", 2])]
    return saved(h.make_graph(nodes, "columns", inputs, outputs, parts), path)


def test_a_graph_with_an_input_per_column_is_asked_by_name(tmp_path):
    file = columns_graph(tmp_path / "columns.onnx")
    frame = pd.DataFrame({"amount": [3, 12, 3, 5], "purpose": ["car", "boat", "boat", "car"]})
    y = (frame["amount"] - 10 * (frame["purpose"] == "boat") > 0).astype(int)
    data = du.Dataset(frame, y)
    made = align_columns(wrap(file), data)
    assert made.logits(data.x).argmax(1).tolist() == y.tolist()
    with pytest.raises(DurometerError, match=r"2 inputs \(purpose, amount\).*as a table"):
        wrap(file).logits(data.x)
    with pytest.raises(DurometerError, match="takes 'purpose', which the data do not have"):
        align_columns(wrap(file), du.Dataset(frame.rename(columns={"purpose": "what"}), y))


def test_answers_in_other_forms():
    class Answer:
        logits = torch.tensor([[1.0, 2.0]])

    x = torch.zeros(1, 3)
    for answer in (Answer(), {"logits": Answer.logits}, (Answer.logits, "more"),
                   {"only": Answer.logits.numpy()}):  # fmt: skip
        assert wrap(lambda x, answer=answer: answer).logits(x).argmax(1).tolist() == [1]
    with pytest.raises(DurometerError, match="2 parts, 'a' .1, 2. and 'b' .1, 2.: which are"):
        wrap(lambda x: {"a": Answer.logits, "b": Answer.logits}).logits(x)
