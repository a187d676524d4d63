"""How many of 200 tampered copies of a run `durometer verify` finds, and what an untouched one
costs.

    python benchmarks/verify.py            # 10,000 rows, 200 copies
    python benchmarks/verify.py --smoke

Seven kinds of change. One byte of a file, a figure of the document and a hash in it (the document's
own digest made to fit) are changed by somebody without the means to fit the rest; an input, a
label, an answer or the model by somebody who saves the run anew, so that every digest fits and only
the model can tell.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import durometer as du
from durometer.core.records import Records
from durometer.report.evidence import digest
from durometer.report.report import Report

KINDS = ("byte", "figure", "hash", "input", "label", "answer", "model")


def run(rows, folder):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, rows)
    x = (rng.random((rows, 6)) * 0.6).astype(np.float32)
    x[np.arange(rows), y] += 0.3
    net = torch.nn.Linear(6, 3, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.eye(6)[:3] * 4)
    data = du.Dataset(x, y)
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5), progress=False)
    return net, data, report, report.save(folder)


def tamper(kind, rng, report, folder, net):
    """Change a copy; the model to ask afterwards."""
    c = {k: v.copy() for k, v in report.records.columns.items()}
    x, row = report.adversarial.copy(), int(rng.choice(np.flatnonzero(c["success"])))
    if kind == "byte":
        path = rng.choice(sorted(p for p in folder.iterdir() if p.is_file()))
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        return net
    if kind in ("figure", "hash"):
        path = folder / "evidence.json"
        content = json.loads(path.read_text())
        if kind == "figure":
            figure = content["figures"][rng.integers(len(content["figures"]))]
            figure[rng.choice(["value", "low", "high"])] += 0.01
        else:
            files = content["integrity"]["files"]
            name, at = rng.choice(sorted(files)), int(rng.integers(64))
            files[name] = files[name][:at] + "0f"[files[name][at] == "0"] + files[name][at + 1 :]
        content["digest"] = digest(content)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False))
        return net
    if kind == "model":
        other = torch.nn.Linear(6, 3, bias=False)
        with torch.no_grad():
            other.weight.copy_(net.weight)
            other.weight[rng.integers(3), rng.integers(3)] += 1e-3
        return other
    if kind == "input":
        x[row, rng.integers(6)] += 0.25
    else:
        name = {"label": "y", "answer": rng.choice(["clean", "final"])}[kind]
        c[name][row] = (c[name][row] + 1) % 3
    Report(report.spec, Records(c, x), report.flags, examples=report.examples).save(folder)
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--copies", default="0:200", help="only these, e.g. 0:50; all: 0:200")
    asked = parser.parse_args()
    rows, copies = (300, "0:14") if asked.smoke else (10_000, asked.copies)
    chosen = range(*map(int, copies.split(":")))
    with tempfile.TemporaryDirectory() as place:
        net, data, report, folder = run(rows, Path(place) / "run")
        began = time.process_time()
        whole = du.verify(folder, net, data)
        seconds = time.process_time() - began
        print(f"untouched, {whole.checked}: {bool(whole)}, {seconds:.1f} CPU-s")
        found, made = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        for k in chosen:
            copy, kind = Path(place) / "copy", KINDS[k % len(KINDS)]
            shutil.copytree(folder, copy)
            model = tamper(kind, np.random.default_rng([1, k]), report, copy, net)
            found[kind] += bool(du.verify(copy, model, data).findings)
            made[kind] += 1
            shutil.rmtree(copy)
    each = {kind: f"{found[kind]} of {made[kind]}" for kind in KINDS}
    print(f"found {sum(found.values())} of {len(chosen)} tampered copies: {each}")


if __name__ == "__main__":
    main()
