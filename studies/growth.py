"""Growth: time and memory as rows, features, relations, classes and runs grow.

    python studies/growth.py                      every part, each in a process of its own
    python studies/growth.py --part parquet --rows 10000000
    python studies/growth.py --smoke              the smallest size of each

Prints a line per part: processor seconds, and the most memory the process ever had (VmHWM), next to
what it has after its imports. The last line has the exponent of n by which seconds grow between the
two largest sizes of each part. What is done is kept in --out (a JSON file) and not done again.

What a reader would get wrong: seconds are of one thread (`OMP_NUM_THREADS=1`) and of this machine;
what the table is about is how they grow.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import durometer as du


def peak() -> float:
    """The most memory this process ever had, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def net(features: int, classes: int, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    made = torch.nn.Linear(features, classes)
    g = torch.Generator().manual_seed(0)
    made.weight.data = torch.randn(classes, features, generator=g)
    made.bias.data.zero_()
    return made.to(dtype).eval()


def rows(folder: Path, n: int) -> str:
    """n rows x 60 features, FGSM, kept, saved with its page."""
    model, x = net(60, 2), torch.rand(n, 60, generator=torch.Generator().manual_seed(1))
    data = du.Dataset(x, model(x).argmax(1))
    report = du.evaluate(model, data, space=du.Linf(0.02), attack=du.FGSM(), batch=1024)
    report.save(folder)
    return f"robust {report.metric('robust')}"


def parquet(folder: Path, n: int) -> str:
    """n rows x 4 features in a Parquet file, FGSM, records written as they come, saved."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    model, rng = net(4, 2, torch.float64), np.random.default_rng(1)
    names = [*"abcd", "y"]
    kind = pa.schema([(name, pa.float64()) for name in names[:4]] + [("y", pa.int64())])
    with pq.ParquetWriter(folder / "data.parquet", kind) as file:
        for start in range(0, n, 131_072):
            x = rng.random((min(131_072, n - start), 4))
            y = model(torch.from_numpy(x)).argmax(1).numpy()
            file.write_table(pa.table([*x.T, y], schema=kind))
    data = du.Parquet(folder / "data.parquet", target="y")
    run = du.Run(folder / "run")
    how: dict[str, Any] = {"space": du.Linf(0.02), "attack": du.FGSM(), "batch": 4096}
    report = du.evaluate(model, data, **how, run=run)
    report.save(folder / "run")
    return f"robust {report.metric('robust')}"


def relations(folder: Path, n: int) -> str:
    """n features x n relations, 32 rows, CAPGD(10)."""
    features = [du.Feature(f"f{i}", "real", 0, 1) for i in range(n)]
    said = [f"f{i} <= f{(i + 1) % n} + 0.9" for i in range(n)]
    schema = du.Schema(features, said)
    x = torch.rand(32, n, generator=torch.Generator().manual_seed(1)).double() * 0.5 + 0.25
    model = net(n, 2, torch.float64)
    data = du.Dataset(x, model(x).argmax(1), schema=schema)
    report = du.evaluate(model, data, space=schema.space(eps=0.5), attack=du.CAPGD(10))
    report.save(folder)
    return f"robust {report.metric('robust')}"


def classes(folder: Path, n: int) -> str:
    """A group goal over n classes (each class may be pushed to 5 others), 512 rows."""
    model = net(16, n)
    x = torch.rand(512, 16, generator=torch.Generator().manual_seed(1))
    goal = du.Group({c: [(c + k) % n for k in range(1, 6)] for c in range(n)})
    data = du.Dataset(x, model(x).argmax(1))
    report = du.evaluate(model, data, space=du.Linf(0.2), goal=goal, attack=du.PGD(5))
    report.save(folder)
    return f"robust {report.metric('robust')}"


def sweep(folder: Path, n: int) -> str:
    """A sweep of n runs of 64 rows each, from a file."""
    steps = ", ".join(str(k + 1) for k in range(n // 4))
    (folder / "s.toml").write_text(
        "attack = { type = 'PGD', steps = 1 }\nspace = { type = 'Linf', eps = 0.1 }\n"
        "[model]\npython = 'm.py:net'\n[data]\npath = 'd.npz'\n"
        f"[sweep]\n'space.eps' = [0.01, 0.02, 0.05, 0.1]\nseed = [{steps}]\n"
    )
    (folder / "m.py").write_text(
        "import torch\nnet = torch.nn.Linear(4, 2).eval()\n"
        "net.weight.data = torch.tensor([[1., 0, 1, 0], [0, 1, 0, 1]])\nnet.bias.data.zero_()\n"
    )
    x = torch.rand(64, 4, generator=torch.Generator().manual_seed(1))
    y = (x[:, 1] + x[:, 3] > x[:, 0] + x[:, 2]).long()
    np.savez(folder / "d.npz", x=x.numpy(), y=y.numpy())
    from typer.testing import CliRunner

    from durometer.cli import app

    words = ["run", str(folder / "s.toml"), "--out", str(folder / "out")]
    said = CliRunner().invoke(app, words)
    runs = len(list((folder / "out").glob("*/report.html")))
    if said.exit_code:
        return f"{runs} runs, then: {said.output[-300:]}"
    return f"{runs} runs with a page each"


def features(folder: Path, n: int) -> str:
    """n real features in a table, 8 rows, Graft(600): none is broken."""
    schema = du.Schema([du.Feature(f"f{i}", "real", 0, 1) for i in range(n)])
    x = torch.rand(8, n, generator=torch.Generator().manual_seed(1)).double()
    model = net(n, 3, torch.float64)
    data = du.Dataset(x, model(x).argmax(1), schema=schema)
    space = schema.space(eps=1e-6)
    report = du.evaluate(model, data, space=space, attack=du.Graft(600), progress=False)
    report.save(folder)
    return f"robust {report.metric('robust')}"


def trees(folder: Path, n: int) -> str:
    """A forest of n trees of depth 4, 100 rows of 10 features, the default (exact)."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    x = rng.random((600, 10))
    forest = RandomForestClassifier(n, max_depth=4, random_state=0)
    forest.fit(x, (x[:, 0] + 0.5 * x[:, 1] > 0.75).astype(int))
    some = x[:100]
    report = du.evaluate(
        forest, du.Dataset(some, forest.predict(some)), space=du.Linf(0.01), progress=False
    )
    report.save(folder)
    return f"robust {report.metric('robust')}"


def words(folder: Path, n: int) -> str:
    """20 sentences of n words, a CNN on words, Greedy as far as the space allows."""
    from durometer.architectures.text import TextCNN
    from durometer.training import fresh

    text = du.datasets.sst5().test.sample(40).x
    filled = text[:, 1:][~text[:, 1:].isnan()]
    ids = filled[torch.arange(20 * n) % len(filled)].reshape(20, n)
    x = torch.cat([text[:20, :1], ids], 1)
    model = fresh(lambda: TextCNN(classes=5), 0).eval()
    with torch.no_grad():
        data = du.Dataset(x, model(x).argmax(1))
    report = du.evaluate(model, data, space=du.Text(), attack=du.Greedy(swaps=0), progress=False)
    report.save(folder)
    return f"robust {report.metric('robust')}"


PARTS: dict[str, tuple[Callable[[Path, int], str], tuple[int, ...]]] = {
    "rows": (rows, (10_000, 100_000, 1_000_000)),
    "parquet": (parquet, (100_000, 1_000_000, 10_000_000)),
    "relations": (relations, (100, 300, 1_000)),
    "features": (features, (100, 500, 2_000)),
    "trees": (trees, (50, 100, 200)),
    "words": (words, (20, 40, 80)),
    "classes": (classes, (500, 1_500, 5_000)),
    "sweep": (sweep, (20, 200)),
}


def measured(name: str, n: int, told: Any) -> None:
    """One part, in a process of its own."""
    torch.set_num_threads(1)
    warm = Path(tempfile.mkdtemp())
    PARTS[name][0](warm, min(20, n) if name != "parquet" else 2000)  # imports
    shutil.rmtree(warm)
    before, began = peak(), time.process_time()
    folder = Path(tempfile.mkdtemp())
    said = PARTS[name][0](folder, n)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6
    shutil.rmtree(folder)
    seconds = time.process_time() - began
    told.put({"part": name, "n": n, "seconds": seconds, "before": before, "peak": peak(),
              "disk": size, "said": said})  # fmt: skip


def line(m: dict[str, Any]) -> str:
    each = 1e6 * m["seconds"] / m["n"]
    return (
        f"| {m['part']} | {m['n']:,} | {m['seconds']:.1f} | {each:,.0f} | {m['before']:.2f} "
        f"| {m['peak']:.2f} | {m['disk']:,.0f} | {m['said']} |"
    )


def power(found: list[dict[str, Any]]) -> float:
    """The exponent of n by which seconds grow between the two largest sizes."""
    a, b = sorted(found, key=lambda m: m["n"])[-2:]
    return math.log(b["seconds"] / a["seconds"]) / math.log(b["n"] / a["n"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=tuple(PARTS))
    parser.add_argument("--rows", type=int, help="this size only")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    done: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        done = json.loads(args.out.read_text())
    print("| part | n | CPU-s | us each | GB before | GB at most | MB on disk | |")
    print("|---|---|---|---|---|---|---|---|")
    told_of: dict[str, list[dict[str, Any]]] = {}
    for name in [args.part] if args.part else PARTS:
        sizes = PARTS[name][1][:1] if args.smoke else PARTS[name][1]
        for n in (args.rows,) if args.rows else sizes:
            known = [m for m in done if (m["part"], m["n"]) == (name, n)]
            if not known:
                context = multiprocessing.get_context("spawn")
                told = context.Queue()
                child = context.Process(target=measured, args=(name, n, told))
                child.start()
                while child.is_alive() and told.empty():
                    time.sleep(0.2)
                if told.empty():
                    print(f"{name} {n}: the process ended with {child.exitcode}")
                    return 1
                known = [told.get()]
                child.join()
                done += known
                if args.out is not None:
                    args.out.write_text(json.dumps(done))
            print(line(known[0]), flush=True)
            told_of.setdefault(name, []).append(known[0])
    print("\n" + "; ".join(f"{name} {power(m):.2f}" for name, m in told_of.items() if len(m) > 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
