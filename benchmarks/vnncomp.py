"""`durometer vnnlib` on benchmarks of the verification competition, beside its recorded answers.

    python benchmarks/vnncomp.py FOLDER [FOLDER ...] [--results FOLDER] [--every 12] [--seconds 60]
    python benchmarks/vnncomp.py --smoke

A FOLDER is a benchmark of VNN-COMP (github.com/stanleybak/vnncomp2021, `benchmarks/acasxu`): an
`*instances.csv` with networks and properties. `--results` is the folder of the competition's
tables (github.com/stanleybak/vnncomp2021_results, `results_csv`), one file per tool. `--every k`
takes each k-th instance. CPU seconds, one thread.

Each `sat` is replayed: the inputs of the written counterexample are read back, compared with the
property's box, and given to an onnxruntime session of this script. Ends with exit code 1 if a
counterexample fails, or if an answer is the opposite of what all tools with an answer say.
`--smoke` makes networks of two inputs and compares with a dense grid.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnxruntime

from durometer.core.errors import DurometerError
from durometer.proofs.vnnlib.decide import Answer, decide

WORDS = {"sat": "sat", "violated": "sat", "unsat": "unsat", "holds": "unsat"}


def recorded(folder: Path | None) -> dict[tuple[str, str, str], Counter[str]]:
    """What the tools of a competition answered, by benchmark, network and property."""
    known: dict[tuple[str, str, str], Counter[str]] = {}
    for file in sorted(folder.glob("*.csv")) if folder else []:
        for row in csv.reader(file.open()):
            if len(row) >= 5 and row[4].strip().lower() in WORDS:
                key = (row[0], Path(row[1]).name, Path(row[2]).name)
                known.setdefault(key, Counter())[WORDS[row[4].strip().lower()]] += 1
    return known


def replayed(network: Path, answer: Answer) -> bool:
    """Does onnxruntime give the written outputs to the written inputs?"""
    cells = re.findall(r"\(([XY])_(\d+) (\S+?)\)", answer.counterexample())
    x, y = ([float(v) for k, _, v in cells if k == name] for name in "XY")
    session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    shape = [d if isinstance(d, int) and d > 0 else 1 for d in entry.shape]
    kind = np.float64 if "double" in entry.type else np.float32
    made = session.run(None, {entry.name: np.array(x).astype(kind).reshape(shape)})[0]
    return bool(np.allclose(made.reshape(-1), y, rtol=1e-4, atol=1e-6))


def instances(folder: Path, every: int) -> list[tuple[Path, Path]]:
    (table,) = folder.glob("*instances.csv")
    rows = [row for row in csv.reader(table.open()) if len(row) >= 2]
    return [(folder / row[0], folder / row[1]) for row in rows][::every]


def run(folders: list[Path], results: Path | None, every: int, seconds: float) -> int:
    known, wrong = recorded(results), 0
    for folder in folders:
        count: Counter[str] = Counter()
        spent, backed = 0.0, 0
        for network, property_file in instances(folder, every):
            start = time.process_time()
            try:
                answer = decide(network, property_file, seconds)
            except DurometerError as error:
                answer = Answer("unknown", why=str(error))
            took = time.process_time() - start
            spent += took
            count[answer.verdict] += 1
            others = known.get((folder.name, network.name, property_file.name), Counter())
            note = answer.why[:60]
            if answer.verdict == "sat" and not replayed(network, answer):
                wrong, note = wrong + 1, "THE COUNTEREXAMPLE FAILS"
            if answer.verdict != "unknown" and others:
                backed += others[answer.verdict] > 0
                if not others[answer.verdict]:
                    wrong, note = wrong + 1, f"EVERY TOOL SAYS {dict(others)}"
            print(f"{network.name:36} {property_file.name:40} {answer.verdict:8}"
                  f"{took:6.1f} s  {dict(others)}  {note}", flush=True)  # fmt: skip
        decided = count["sat"] + count["unsat"]
        print(f"== {folder.name}: {decided} of {sum(count.values())} decided (sat {count['sat']}, "
              f"unsat {count['unsat']}); {backed} as recorded; {spent:.0f} CPU-s\n",
              flush=True)  # fmt: skip
    print(f"contradictions: {wrong}")
    return wrong


def smoke() -> int:
    """Random networks of two inputs; the truth is a grid of 160,000 points."""
    from onnx import helper, numpy_helper, save

    wrong, decided = 0, 0
    rng = np.random.default_rng(0)
    side = np.linspace(-1, 1, 400, dtype=np.float32)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    with tempfile.TemporaryDirectory() as held:
        network, file = Path(held) / "n.onnx", Path(held) / "p.vnnlib"
        for k in range(6):
            w, v = rng.normal(size=(2, 8)).astype("f"), rng.normal(size=(8, 2)).astype("f")
            parts = [numpy_helper.from_array(a, n) for a, n in ((w, "w"), (v, "v"))]
            nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]),
                     helper.make_node("Relu", ["h"], ["r"]),
                     helper.make_node("MatMul", ["r", "v"], ["y"])]  # fmt: skip
            ends = [helper.make_tensor_value_info(n, 1, [1, 2]) for n in "xy"]
            graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], parts)
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                   ir_version=8), str(network))  # fmt: skip
            y = np.maximum(grid @ w, 0) @ v
            limit = float((y[:, 1] - y[:, 0]).max()) + (0.05 if k % 2 else -0.05)
            text = "".join(f"(declare-const {c}_{i} Real)\n" for c in "XY" for i in (0, 1))
            text += "".join(f"(assert (<= X_{i} 1.0))(assert (>= X_{i} -1.0))\n" for i in (0, 1))
            file.write_text(text + f"(assert (>= (- Y_1 Y_0) {limit}))\n")
            answer = decide(network, file, 10.0)
            decided += answer.verdict != "unknown"
            wrong += answer.verdict == ("sat" if k % 2 else "unsat")
            wrong += answer.verdict == "sat" and not replayed(network, answer)
    print(f"decided {decided} of 6; contradictions: {wrong}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    if not asked.smoke and not asked.folders:
        parser.error("name a benchmark's folder, or --smoke")
    wrong = (
        smoke() if asked.smoke else run(asked.folders, asked.results, asked.every, asked.seconds)
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
