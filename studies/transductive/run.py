"""Test-time defences and the attacks that break them (Chen et al. 2022), at a size for two cores.

    python studies/transductive/run.py rmc dann tadv dent url urejectron --seeds 0 1 2
    python studies/transductive/run.py --quick                   # the same on toy sizes

The paper's findings in kind: small networks, subsets of MNIST, URL and GTSRB (the package's own
samples), fewer iterations and steps. Every figure is the referee's, after the defender has moved
with random numbers of its own. Each (study, seed, line) is a file in runs/transductive as soon as
it is played: a study that was killed goes on there, a changed setting is played anew. Tables of all
that is known are in transductive.md beside them, with figure 1 of the paper as SVG.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import games
import numpy as np
import torch
from rejection import PANELS, panels, rejection, urejectron

STUDIES = {
    f.__name__: f for f in (games.rmc, games.dann, games.tadv, games.dent, games.url, urejectron)
}
SOURCES = {name: inspect.getsource(study) for name, study in STUDIES.items()}  # as they run now
# A prototype on MNIST (4-5k training images, eps 0.3, T = 3-4, 30-40 steps).
PROTOTYPE = {
    "rmc": {"static": "0.00", "Transfer": "0.98", "FPA": "0.03", "GMSA-AVG": "0.03"},
    "dann": {
        "static": "0.00", "Transfer": "0.55", "FPA": "0.24", "GMSA-AVG": "0.11",
        "GMSA-MIN": "0.07", "control, transfer": "0.10",
    },
    "tadv": {
        "static": "0.75", "Transfer": "0.83", "FPA": "0.83", "GMSA-AVG": "0.77",
        "GMSA-MIN": "0.78", "public randomness": "0.69",
    },
    "dent": {
        "static": "0.68", "APGD ensemble, transferred": "0.75", "Transfer": "0.82",
        "FPA": "0.83", "GMSA-AVG": "0.82",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Cells:
    """Outcomes by file."""

    folder: Path
    quick: bool

    def get(self, study: str, seed: int, name: str, play: Callable[[], Any] | None) -> Any:
        """What is in the file; played now if it is not there or of other settings."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()
        file = self.folder / f"{study}-{seed}-{slug}.json"
        words = f"{SOURCES[study]}|{self.quick}"
        settings = hashlib.blake2b(words.encode(), digest_size=6).hexdigest()
        if file.exists():
            found = json.loads(file.read_text())
            if found["settings"] == settings:
                return found
        if play is None:
            return None
        began = time.process_time()
        report = play()
        cell = {
            "study": study,
            "seed": seed,
            "line": name,
            "settings": settings,
            "cpu": round(time.process_time() - began, 1),
            "when": datetime.now(UTC).strftime("%Y-%m-%d"),
            "figures": {
                key: [round(float(v), 4) for v in (e.value, e.low, e.high)] + [e.n]
                for key, e in _figures(report).items()
            },
            "flags": [flag.id for flag in report.flags],
            "rejection": rejection(report),
        }
        part = file.with_suffix(".part")
        part.write_text(json.dumps(cell))
        part.replace(file)
        return cell


def _figures(report: Any) -> dict[str, Any]:
    names = ("clean", "robust", "rehearsed", "adaptations", "error", "rejected_clean")
    return {name: e for name, (_, e) in report.shown.items() if name in names}


def told(cell: dict[str, Any]) -> str:
    value, low, high, n = cell["figures"]["robust"]
    flags = f"  flags: {', '.join(cell['flags'])}" if cell["flags"] else ""
    return (
        f"{cell['study']} {cell['seed']}  {cell['line']:<28} robust {value:.3f} "
        f"[{low:.3f}, {high:.3f}] n = {n}  {cell['cpu']:.0f} CPU-s{flags}"
    )


def page(cells: Cells, seeds: Sequence[int]) -> str:
    """All tables, from the files alone."""
    blocks = []
    for study, lines in STUDIES.items():
        found = {
            name: [c for s in seeds if (c := cells.get(study, s, name, None))]
            for name in lines(seeds[0], cells.quick)
        }
        rows = [_row(study, name, seen) for name, seen in found.items() if seen]
        if not rows:
            continue
        head = (
            "| line | accuracy, mean ± standard error | by seed | n per seed | prototype | CPU-s |"
        )
        blocks.append("\n".join([f"### {study}", "", head, "|---|---|---|---|---|---|", *rows]))
        if study == "urejectron":
            panels(found, cells.folder)
            blocks.append(_rejected({k: v for k, v in found.items() if k in PANELS and v}))
    return "\n\n".join(blocks) + "\n"


def _row(study: str, name: str, seen: list[dict[str, Any]]) -> str:
    values = [c["figures"]["robust"][0] for c in seen]
    rows = sorted({c["figures"]["robust"][3] for c in seen})
    n = f"{rows[0]}" if len(rows) == 1 else f"{rows[0]}-{rows[-1]}"
    cpu = np.mean([c["cpu"] for c in seen])
    beside = PROTOTYPE.get(study, {}).get(name, "-")
    by_seed = " ".join(f"{v:.2f}" for v in values)
    return f"| {name} | {_mean(values)} | {by_seed} | {n} | {beside} | {cpu:.0f} |"


def _mean(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.3f}"


def _rejected(found: dict[str, list[dict[str, Any]]]) -> str:
    """Figure 1 as a table."""
    head = ("batch", "score of z", "score of attacked", "rejected")
    head += ("error among accepted", "over all", "z rejected")
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|---|"]
    for name, seen in found.items():
        scores = [_mean([c["rejection"]["scores"][k] for c in seen]) for k in ("clean", "attacked")]
        for share in (0.0, 0.25, 0.5, 0.75):
            row = [f"{share:.2f}"]
            for key in ("error_accepted", "error", "rejected_clean"):
                curves = [c["rejection"]["curve"][key] for c in seen]
                row.append(_mean([c[round(share * (len(c) - 1))] for c in curves]))
            lines.append("| " + " | ".join([name, *scores, *row]) + " |")
            name, scores = "", ["", ""]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="toy sizes, less than a minute")
    parser.add_argument("--out", type=Path, help="default: runs/transductive, or ...-quick")
    asked = parser.parse_args(words)
    if unknown := set(asked.studies) - set(STUDIES):
        parser.error(f"no study {', '.join(unknown)}; there are {', '.join(STUDIES)}")
    torch.set_num_threads(1)
    folder = asked.out or Path("runs/transductive-quick" if asked.quick else "runs/transductive")
    folder.mkdir(parents=True, exist_ok=True)
    cells = Cells(folder, asked.quick)
    for seed in asked.seeds:
        for study in asked.studies or STUDIES:
            for name, play in STUDIES[study](seed, asked.quick).items():
                print(told(cells.get(study, seed, name, play)), flush=True)
    (folder / "transductive.md").write_text(page(cells, asked.seeds), encoding="utf-8")
    print(f"tables and figures: {folder}")


if __name__ == "__main__":
    main()
