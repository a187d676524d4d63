"""One job played in every way there is: do all of them give the same bits?

    python studies/faults/same_bits.py                      every job, every way but Ray
    python studies/faults/same_bits.py --ray                on a Ray cluster made here, too
    python studies/faults/same_bits.py --jobs network text --rows 64

Ways: one process, two workers, three shards that are merged, five kills at random moments with a
resume after each, chunks in the opposite order, two threads in place of one, Ray. A digest of all
records (without times) and of all inputs handed in is printed, and "same" or "DIFFERS"; the exit
code is the number of cells that differ. Two threads may differ: a matrix product adds in another
order then, and the last digits are others. What is promised is the same bits for the same threads.

What a reader would get wrong: each way is a process of its own. In one process a cache that the
first run has filled could serve the second.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAYS = (
    "one process",
    "two workers",
    "three shards",
    "five kills",
    "chunks reversed",
    "two threads",
    "ray",
)


def network(rows: int) -> dict[str, Any]:
    import torch

    import durometer as du

    torch.manual_seed(3)
    net = du.architectures.SmallCNN(10, channels=1).eval()
    data = du.datasets.mnist().test.head(rows)
    return {"target": net, "data": _own(net, data), "space": du.Linf(0.1)}


def _own(net: Any, data: Any) -> Any:
    import torch

    import durometer as du

    with torch.no_grad():
        return du.Dataset(data.x, net(data.x).argmax(1), ids=data.ids)


def table(rows: int) -> dict[str, Any]:
    import torch

    import durometer as du

    url = du.datasets.url()
    torch.manual_seed(5)
    scale = url.train.x.std(0) + 1e-6
    net = torch.nn.Sequential(torch.nn.Linear(63, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    net[0].weight.data /= scale
    net = net.to(url.train.x.dtype).eval()
    data = url.test.head(rows)
    with torch.no_grad():
        labels = net(data.x).argmax(1)
    own = du.Dataset(data.x, labels, schema=data.schema)
    return {
        "target": net,
        "data": own,
        "space": data.schema.space(eps=0.1),
        "attack": du.CAA(du.CAPGD(10), du.MOEVA(10)),
    }


def trees(rows: int) -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier

    import durometer as du

    url = du.datasets.url()
    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(
        url.train.x.numpy(), url.train.y.numpy()
    )
    return {"target": forest, "data": url.test.head(rows), "space": url.test.schema.space(eps=0.05)}


def noise(rows: int) -> dict[str, Any]:
    import durometer as du

    job = trees(rows)
    sd = 0.05 * du.datasets.url().train.x.std(0) + 1e-6
    return {"target": du.Nature(job["target"], du.Normal(sd=sd)), "data": job["data"], "batch": 8}


def game(rows: int) -> dict[str, Any]:
    import torch

    import durometer as du

    torch.manual_seed(3)
    net = du.architectures.SmallCNN(10, channels=1).eval()
    data = _own(net, du.datasets.mnist().test.head(rows))
    defended = du.Transductive(du.defenses.TENT(net), batch=16)
    return {"target": defended, "data": data, "space": du.Linf(0.1), "attack": du.FPA(du.PGD(5), 2)}


def text(rows: int) -> dict[str, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    import durometer as du

    words = ["good", "fine", "bad", "poor", "film", "plot", "great", "dull", "really", "hardly"]
    draw = random.Random(0)
    said = [" ".join(draw.choices(words, k=8)) for _ in range(max(rows, 60))]
    labels = [
        int(s.count("good") + s.count("great") > s.count("bad") + s.count("dull")) for s in said
    ]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(said, labels)
    near = {
        "good": ("fine", "poor"),
        "great": ("dull",),
        "bad": ("poor", "fine"),
        "dull": ("great",),
    }
    return {
        "target": model,
        "data": du.Dataset(said[:rows], labels[:rows]),
        "space": du.Text(du.Synonyms(near), most=0.3),
    }


JOBS: dict[str, Callable[[int], dict[str, Any]]] = {
    "network": network, "table": table, "trees": trees, "noise": noise, "game": game, "text": text
}  # fmt: skip


def play(name: str, rows: int, folder: Path, way: str, shard: str) -> None:
    """One way to play one job, in this process; its digests are written beside the folder."""
    import torch

    import durometer as du
    from durometer.run.executors import Here

    torch.set_num_threads(2 if way == "two threads" else 1)
    job = JOBS[name](rows)
    run = du.Run(
        folder,
        resume=folder.exists(),
        workers=2 if way == "two workers" else 1,
        ray="local" if way == "ray" else None,
        shard=tuple(int(v) for v in shard.split("/")) if shard else None,
    )
    if way == "chunks reversed":
        forwards = Here.map
        Here.map = lambda self, job, share: forwards(self, job, list(share)[::-1])  # type: ignore[method-assign]
    report = du.evaluate(
        job.pop("target"), job.pop("data"), **{"batch": 16, **job}, run=run, progress=False
    )
    if not shard:
        report.save(folder)
        (folder.parent / f"{folder.name}.json").write_text(json.dumps(digests(report)))


def digests(report: Any) -> list[str]:
    import numpy as np

    from durometer.core.records import FIELDS, TIMES

    records, inputs = hashlib.sha256(), hashlib.sha256()
    columns = report.records.columns
    order = np.argsort(columns["id"], kind="stable")
    for field in FIELDS:
        if field not in TIMES:
            values = np.asarray(columns[field])[order]
            records.update(repr(values.tolist()).encode())
    handed_in = np.asarray(report.adversarial)
    inputs.update(
        repr(handed_in.tolist()).encode() if handed_in.dtype == object else handed_in.tobytes()
    )
    return [records.hexdigest()[:12], inputs.hexdigest()[:12]]


def child(*words: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": str(random.randrange(1000))}
    return subprocess.Popen(
        [sys.executable, __file__, "--play", *words], env=env, start_new_session=True
    )


def cell(name: str, rows: int, way: str, scratch: Path, seconds: float) -> tuple[list[str], float]:
    """The digests of one job played in one way, and how long it took."""
    folder = scratch / f"{name} {way}".replace(" ", "-")
    words = (name, str(rows), str(folder), way)
    begun = time.monotonic()
    if way == "three shards":
        for i in (1, 2, 3):
            if child(name, str(rows), f"{folder}-{i}", way, f"{i}/3").wait():
                raise SystemExit(f"{name}, {way}: failed")
        from durometer.run.merge import merge

        merge([Path(f"{folder}-{i}") for i in (1, 2, 3)], folder)
    if way == "five kills":
        for _ in range(5):
            started = child(*words)
            try:
                started.wait(random.uniform(0.3, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
    if child(*words).wait():
        raise SystemExit(f"{name}, {way}: failed")
    return json.loads((scratch / f"{folder.name}.json").read_text()), time.monotonic() - begun


def main() -> int:
    """The table."""
    if sys.argv[1:2] == ["--play"]:
        name, rows, folder, way, *shard = sys.argv[2:]
        play(name, int(rows), Path(folder), way, *(shard or [""]))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    random.seed(asked.seed)
    jobs, rows = (["trees"], 48) if asked.smoke else (asked.jobs, asked.rows)
    differing = 0
    with tempfile.TemporaryDirectory(prefix="durometer-bits-") as scratch:
        for name in jobs:
            whole: list[str] = []
            seconds = 0.0
            for way in WAYS[: None if asked.ray else -1]:
                found, took = cell(name, rows, way, Path(scratch), seconds)
                if not whole:
                    whole, seconds = found, took
                same = found == whole
                differing += not same and way != "two threads"
                print(f"{name:8} {way:16} records {found[0]}  inputs {found[1]}  "
                      f"{'same' if same else 'DIFFERS'}  {took:.1f} s", flush=True)  # fmt: skip
    print(f"{differing} cells differ")
    return differing


if __name__ == "__main__":
    sys.exit(main())
