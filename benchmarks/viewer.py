"""The viewer over HTTP: the list of 2,000 runs, and filters over a run of a million rows.

Each figure is the time from the request to the last byte. "first" is the first request after the
start of the viewer, which reads the specs (the list) or the table (the rows); "later" the median of
five further ones. The rows that a filter leaves are counted again with pandas.

    python benchmarks/viewer.py [--smoke]
"""

from __future__ import annotations

import argparse
import http.client
import re
import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pandas as pd

import durometer as du
from durometer.core.records import Records
from durometer.report.view.server import Server


def ask(server: Server, path: str, **asked: str) -> tuple[float, str]:
    start = time.perf_counter()
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    link.request("GET", f"/{server.token}/{path}?{urlencode(asked)}")
    reply = link.getresponse()
    text = reply.read().decode()
    assert reply.status == 200, text[:500]
    return time.perf_counter() - start, text


def timed(title: str, server: Server, path: str, **asked: str) -> str:
    first, text = ask(server, path, **asked)
    later = statistics.median(ask(server, path, **asked)[0] for _ in range(5))
    print(f"| {title} | {first:.3f} | {later:.3f} |", flush=True)
    return text


def serve(folder: Path) -> Server:
    server = Server(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def many_runs(folder: Path, runs: int) -> None:
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5))
    first = report.save(folder / "run0")
    for k in range(1, runs):
        shutil.copytree(first, folder / f"run{k}")
    server = serve(folder)
    text = timed(f"list of {runs:,} runs", server, "")
    assert f"{runs:,} of {runs:,} runs" in text
    text = timed(f"search in {runs:,} runs", server, "", q="run7 pgd")
    wanted = sum("run7" in f"run{k}" for k in range(runs))
    assert f"{wanted:,} of {runs:,} runs" in text
    server.shutdown()


def many_rows(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5))
    broken = rng.random(rows) < 0.3
    early = broken & (rng.random(rows) < 0.1)
    winner = np.where(early, "clean", np.where(broken, "PGD", "")).astype(object)
    ids = np.array([f"r{i}" for i in range(rows)], dtype=object)
    columns = {"id": ids, "y": rng.integers(0, 3, rows), "success": broken, "winner": winner}
    columns["distance"] = np.where(broken, 0.1 * rng.random(rows), np.nan)
    table = pd.DataFrame({"age": rng.integers(18, 90, rows),
                          "town": rng.choice(["Rome", "Oslo"], rows)}, index=ids)  # fmt: skip
    spec = replace(report.spec, rows=rows, id_type="str")
    made = du.Report(spec, Records.of(rows, **columns), rows=table)
    made.save(folder / "long")
    server = serve(folder)
    age, town = table["age"].to_numpy(), table["town"].to_numpy()
    for title, asked, mask in (
        ("open the run", {}, np.ones(rows, bool)),
        ("verdict", {"verdict": "broken"}, broken & ~early),
        ("verdict and class", {"verdict": "open", "y": "1"}, ~broken & (columns["y"] == 1)),
        ("distance<0.05", {"q": "distance<0.05"}, columns["distance"] < 0.05),
        ("age<30 (a column of the data)", {"q": "age<30"}, age < 30),
        ("town=oslo (text of the data)", {"q": "town=oslo"}, town == "Oslo"),
        ("part of the id", {"q": "r7777"}, np.char.find(ids.astype(str), "r7777") >= 0),
    ):
        text = timed(f"{title}, {rows:,} rows", server, "run", name="long", **asked)
        found = re.search(r"([\d,]+) of [\d,]+ rows; a row", text)
        assert found and int(found[1].replace(",", "")) == int(mask.sum()), title
    timed(f"segments by age, {rows:,} rows", server, "segments", name="long", by="age")
    timed(f"one whole record of {rows:,}", server, "row", name="long", at=str(rows - 1))
    server.shutdown()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--smoke", action="store_true", help="to see that it runs")
    runs, rows = (20, 5_000) if options.parse_args().smoke else (2_000, 1_000_000)
    print("| what | first, s | later, s |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        many_runs(Path(folder) / "runs", runs)
        many_rows(Path(folder) / "rows", rows)


if __name__ == "__main__":
    main()
