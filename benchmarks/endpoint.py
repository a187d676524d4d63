"""A model behind a faulty local server: records, questions, budget, overhead per batch.

One request in five fails (429, 503, a short reply, no JSON, a connection that dies). Half-way the
client is killed (SIGKILL) and the run is resumed. Printed: whether the records equal those of the
model itself, how many answered rows were asked again, the questions used of the limit, and the CPU
milliseconds that a batch of 256 rows costs beyond the model.

    python benchmarks/endpoint.py [--smoke]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.toys.faulty_server import serving

import durometer as du

FAULTS = ("429", "503", "short", "html", "dies")
W = np.random.default_rng(1).normal(size=(20, 3))


def model(x: np.ndarray) -> np.ndarray:
    return (np.tanh(np.asarray(x, dtype=float) @ W) * 3).round(9)


def rows(n: int) -> du.Dataset:
    x = np.random.default_rng(2).uniform(size=(n, 20))
    return du.Dataset(x, model(x).argmax(1))


def play(target: object, n: int, queries: int, run: du.Run | None = None) -> du.Report:
    return du.evaluate(
        target, rows(n), space=du.Linf(0.03), attack=du.Square(queries), batch=16, run=run,
        progress=False,
    )  # fmt: skip


def remote(url: str, limit: int) -> object:
    return du.wrap(remote=du.Endpoint(url, backoff=0.001, batch=64, questions=limit))


def child(url: str, out: str, n: int, queries: int, limit: int) -> None:
    play(remote(url, limit), n, queries, du.Run(out))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    n, queries = (24, 20) if parser.parse_args().smoke else (128, 60)
    own = play(du.wrap(model, inputs="array"), n, queries)
    limit = 20 * n * queries
    with (
        serving(model, lambda k: FAULTS[k // 5 % 5] if k % 5 == 4 else "") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        out = str(Path(folder) / "run")
        process = get_context("spawn").Process(
            target=child, args=(server.url, out, n, queries, limit)
        )
        process.start()
        while process.is_alive() and sum(server.answered.values()) < n * 3:
            time.sleep(0.005)
        killed = process.is_alive()
        if killed:
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        before = sum(server.answered.values())
        target = remote(server.url, limit)
        far = play(target, n, queries, du.Run(out, resume=Path(out, "spec.json").exists()))
        asked = target.source.asked
    same = all(
        np.array_equal(far.records.columns[c].astype(str), own.records.columns[c].astype(str))
        for c in ("clean", "final", "success", "verdict", "forwards", "distance", "margin")
    )
    again = sum(v - 1 for v in server.answered.values())
    sent = sum(server.sent.values())
    print(f"rows {n}, killed: {killed} after {before} answers")
    print(f"records equal those of the model itself: {same}")
    print(f"answered rows {len(server.answered)}, asked again {again} (one batch under way: <= 64)")
    print(f"rows sent {sent}, counted {asked}, limit {limit}, requests {server.requests}")
    x = np.random.default_rng(3).uniform(size=(20, 256, 20))
    with serving(model) as server:
        endpoint = du.Endpoint(server.url)
        endpoint(x[0, :1])
        began = time.process_time()
        for batch in x:
            endpoint(batch)
        here = (time.process_time() - began) / len(x)
    began = time.process_time()
    for batch in x:
        model(batch)
    alone = (time.process_time() - began) / len(x)
    began = time.process_time()
    for batch in x:
        endpoint(batch)  # from the file of answers
    kept = (time.process_time() - began) / len(x)
    print(
        f"CPU ms for 256 rows: asked {1e3 * here:.1f} (client and server), "
        f"kept answers {1e3 * kept:.1f}, the model itself {1e3 * alone:.2f}"
    )


if __name__ == "__main__":
    main()
