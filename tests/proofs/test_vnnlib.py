"""VNN-LIB: what is read, and that no answer is wrong. The oracles are numpy and dense grids."""

import itertools
import re
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper as h
from onnx import numpy_helper
from typer.testing import CliRunner

from durometer.cli import app
from durometer.core.errors import DurometerError, Unsupported
from durometer.proofs.vnnlib.decide import decide
from durometer.proofs.vnnlib.parse import parse


def save(path, sizes, seed):
    """A network for a batch of 1, and the same in numpy."""
    rng = np.random.default_rng(seed)
    nodes, parts, layers, last = [h.make_node("Flatten", ["x"], ["flat"])], [], [], "flat"
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        w, c = rng.normal(0, 1, (a, b)).astype("f"), rng.normal(0, 0.3, b).astype("f")
        layers.append((w, c))
        parts += [numpy_helper.from_array(w, f"w{k}"), numpy_helper.from_array(c, f"c{k}")]
        nodes.append(h.make_node("Gemm", [last, f"w{k}", f"c{k}"], [f"g{k}"]))
        last = f"g{k}"
        if k < len(sizes) - 2:
            nodes.append(h.make_node("Relu", [last], [f"r{k}"]))
            last = f"r{k}"
    parts.append(numpy_helper.from_array(np.array([1, sizes[-1]], np.int64), "shape"))
    nodes.append(h.make_node("Reshape", [last, "shape"], ["y"]))
    ends = [h.make_tensor_value_info(n, 1, s) for n, s in
            (("x", [1, 1, sizes[0]]), ("y", [1, sizes[-1]]))]  # fmt: skip
    graph = h.make_graph(nodes, "g", ends[:1], ends[1:], parts)
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, path)

    def net(x):
        for k, (w, c) in enumerate(layers):
            x = x @ w.astype(float) + c
            x = np.maximum(x, 0) if k < len(layers) - 1 else x
        return x

    return net


def declared(inputs, outputs):
    both = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]
    return "".join(f"(declare-const {v} Real)\n" for v in both)


def box(low, high):
    return "".join(f"(assert (>= X_{i} {a}))(assert (<= X_{i} {b}))\n"
                   for i, (a, b) in enumerate(zip(low, high, strict=True)))  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(2, 6, 6, 3), (14, 8, 3)], ids=str)
def test_no_answer_is_wrong(tmp_path, seed, sizes):
    """unsat against a dense sample, sat against the network in numpy; limits close to the truth."""
    net = save(tmp_path / "n.onnx", sizes, seed)
    rng = np.random.default_rng(seed)
    low = np.round(rng.uniform(-1, 0, sizes[0]), 3)
    high = np.round(low + rng.uniform(0.1, 0.6, sizes[0]), 3)
    x = rng.uniform(low, high, (60_000, sizes[0]))
    x[::2] = np.where(rng.random((30_000, sizes[0])) < 0.5, low, high)
    y = net(x)
    lead = (y[:, 1] - y[:, 0]).max()
    seen = set()
    for off in (-0.5, -0.02, 0.02, 0.5):
        text = declared(sizes[0], 3) + box(low, high)
        text += f"(assert (or (and (>= (- Y_1 Y_0) {lead + off:.6f}) (<= Y_2 1000.0))"
        text += " (and (<= Y_2 -1000.0))))"
        (tmp_path / "p.vnnlib").write_text(text)
        answer = decide(tmp_path / "n.onnx", tmp_path / "p.vnnlib", 5.0)
        seen.add(answer.verdict)
        if answer.verdict == "unsat":
            assert off > 0
        if answer.verdict == "sat":
            point = np.array(answer.x)
            assert (point >= low).all() and (point <= high).all()
            out = net(point)
            assert np.allclose(out, answer.y, atol=1e-4)
            assert out[1] - out[0] >= lead + off - 1e-4
    assert {"sat", "unsat"} <= seen


@pytest.mark.parametrize("seed", range(8))
def test_any_cases_of_any_conditions_against_brute_force(tmp_path, seed):
    """Random ors of ands, asked by the command. unsat: onnxruntime meets no case on 20,000 points
    of the box; sat: the written file, read back, meets one in exact arithmetic."""
    rng = np.random.default_rng([7, seed])
    inputs = (2, 3, 13)[seed % 3]  # 13: ReLUs are cut, else inputs
    save(tmp_path / "n.onnx", (inputs, 7, 5, 3), seed)
    session = onnxruntime.InferenceSession(str(tmp_path / "n.onnx"))

    def runs(x):
        return session.run(None, {"x": np.asarray(x, "f").reshape(1, 1, -1)})[0].reshape(-1)

    low = np.round(rng.uniform(-1, 0, inputs), 2)
    high = np.round(low + rng.uniform(0.05, 0.8, inputs), 2)
    x = rng.uniform(low, high, (20_000, inputs))
    x[::2] = np.where(rng.random((10_000, inputs)) < 0.5, low, high)
    y = np.array([runs(v) for v in x])
    seen = set()
    for _ in range(6):
        cases, text = [], ""
        for _ in range(rng.integers(1, 4)):
            weights = rng.integers(-2, 3, (rng.integers(1, 3), 3))
            value = y @ weights.T
            limits = np.round(value.min(0) + rng.uniform(-0.25, 0.15, len(weights)), 3)
            cases.append((weights, limits))
            terms = [" ".join(f"(* {w} Y_{j})" for j, w in enumerate(row)) for row in weights]
            text += "(and " + " ".join(
                f"(<= (+ {t}) {b})" for t, b in zip(terms, limits, strict=True)
            ) + ")"  # fmt: skip
        text = re.sub(r"\(\* -(\d)", r"(* (- \1)", text)
        (tmp_path / "p.vnnlib").write_text(
            declared(inputs, 3) + box(low, high) + f"(assert (or {text}))"
        )
        out = tmp_path / "found.txt"
        command = ["vnnlib", str(tmp_path / "n.onnx"), str(tmp_path / "p.vnnlib"), "--seconds", "4"]
        made = CliRunner().invoke(app, [*command, "--out", str(out)])
        verdict = made.stdout.split()[0]
        seen.add(verdict)
        if verdict == "unsat":
            assert not any(((y @ w.T) <= b).all(1).any() for w, b in cases)
        if verdict == "sat":
            cells = re.findall(r"\(([XY])_(\d+) ([^()\s]+)\)", out.read_text())
            assert [(k, int(i)) for k, i, _ in cells] == [
                *(("X", i) for i in range(inputs)), *(("Y", i) for i in range(3))
            ]  # fmt: skip
            point = [float(v) for k, _, v in cells if k == "X"]
            assert all(
                Fraction(str(a)) <= Fraction(v) <= Fraction(str(b))
                for a, v, b in zip(low, point, high, strict=True)
            )
            answer = [float(v) for k, _, v in cells if k == "Y"]
            assert runs(point).tolist() == answer
            exact = [Fraction(v) for v in answer]
            assert any(
                all(sum(int(w) * v for w, v in zip(row, exact, strict=True)) <= Fraction(str(b))
                    for row, b in zip(weights, limits, strict=True))
                for weights, limits in cases
            )  # fmt: skip
    assert seen & {"sat", "unsat"}


def test_every_box_of_a_disjunction_counts(tmp_path):
    net = save(tmp_path / "n.onnx", (2, 5, 2), 3)
    corners = [np.array(c, float) for c in itertools.product((-1, 1), repeat=2)]
    best = max(corners, key=lambda c: net(c)[0])
    limit = net(best)[0] - 0.01
    cases = "".join(
        f"(and (>= X_0 {c[0] - 0.01}) (<= X_0 {c[0] + 0.01}) (>= X_1 {c[1] - 0.01})"
        f" (<= X_1 {c[1] + 0.01}) (>= Y_0 {limit}))" for c in corners
    )  # fmt: skip
    (tmp_path / "p.vnnlib").write_text(declared(2, 2) + f"(assert (or {cases}))")
    answer = decide(tmp_path / "n.onnx", tmp_path / "p.vnnlib", 10.0)
    assert answer.verdict == "sat" and np.abs(np.array(answer.x) - best).max() <= 0.0101


def test_conditions_are_exact_fractions():
    asked = parse(declared(1, 2) + box([0.1], [0.3]) + "(assert (<= (+ Y_0 (* (- 2) Y_1)) 0.1))")
    (case,) = asked.cases
    assert case.low == (Fraction(1, 10),) and case.high == (Fraction(3, 10),)
    (condition,) = case.conditions
    assert condition.weights == ((0, Fraction(1)), (1, Fraction(-2)))
    assert condition.holds([Fraction(1, 10), Fraction(0)])
    assert not condition.holds([Fraction(1, 10) + Fraction(1, 10**30), Fraction(0)])


GOOD = declared(2, 2) + box([0, 0], [1, 1])
HOSTILE = {
    "deep": ("(assert " + "(and " * 100_000, "brackets deep"),
    "open": ("(assert (<= Y_0 1)", "never closed"),
    "strict": ("(assert (< Y_0 1))", "operator '<'"),
    "not": ("(assert (not (<= Y_0 1)))", "operator 'not'"),
    "product": ("(assert (<= (* Y_0 Y_1) 1))", "product of two"),
    "inputs": ("(assert (<= (+ X_0 X_1) 1))", "several inputs"),
    "mixed": ("(assert (<= X_0 Y_0))", "inputs and outputs"),
    "name": ("(assert (<= Z_0 1))", "'Z_0'"),
    "undeclared": ("(assert (<= Y_7 1))", "Y_7 is not declared"),
    "command": ("(set-logic QF_LRA)", "'set-logic'"),
    "cases": ("(assert (or (<= Y_0 1) (<= Y_1 1)))" * 40, "multiplied out"),
    "number": (f"(assert (<= Y_0 {'9' * 5000}))", "is no number"),
    "power": ("(assert (<= Y_0 1e999999999))", "is no number"),
    "outside": (") (", "outside brackets"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_not_read_is_refused_by_name(kind):
    text, said = HOSTILE[kind]
    with pytest.raises((Unsupported, DurometerError), match="line|never|declared") as error:
        parse(GOOD + text)
    assert said in str(error.value) and len(str(error.value)) < 300


def test_an_input_without_a_bound_is_named():
    with pytest.raises(Unsupported, match="X_1 has no upper bound"):
        parse(declared(2, 1) + "(assert (<= X_0 1))(assert (>= X_0 0))(assert (>= X_1 0))")


def test_the_command_writes_the_counterexample_and_says_what_does_not_fit(tmp_path):
    save(tmp_path / "n.onnx", (2, 4, 2), 0)
    file, out = tmp_path / "p.vnnlib", tmp_path / "found.txt"
    file.write_text(GOOD + "(assert (<= Y_0 1000.0))")
    command = ["vnnlib", str(tmp_path / "n.onnx"), str(file), "--out", str(out)]
    made = CliRunner().invoke(app, command)
    assert made.exit_code == 0 and made.stdout.startswith("sat")
    lines = out.read_text().split("\n")
    assert lines[0] == "sat" and lines[1].startswith("((X_0 ") and "(Y_1 " in lines[4]
    file.write_text(GOOD + "(assert (>= Y_0 1000.0))")
    made = CliRunner().invoke(app, command)
    assert made.exit_code == 0 and made.stdout.startswith("unsat")
    file.write_text(declared(3, 2) + box([0] * 3, [1] * 3))
    assert CliRunner().invoke(app, command).exit_code == 2
