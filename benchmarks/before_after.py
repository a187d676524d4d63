"""Did a change of the house cost speed or move a record? Two checkouts, one machine, in turn.

    python benchmarks/before_after.py [COMMIT] [--rounds 2] [--only tables examples ...] [--smoke]
                                      [--libraries FOLDER]

COMMIT (default: the last one of 0.2) is laid out beside this checkout. What it imports and this one
does not (numba) is taken from FOLDER (`pip install --no-deps --target FOLDER numba llvmlite`). The
benchmarks of *each* checkout are then run in turn, before, after, before, after, ..., and of every
figure that they print the best of the rounds is kept: a ratio against a peer in the same process,
which does not depend on who else is at work; CPU time where the peer is our own. Then the runs of
`examples/` are played by both and their records compared row by row. A run that draws its rows
(`rows = ...`) draws others since streams have purposes, so only rows that both played are compared,
and their number is said.

Ends with exit code 1 where a ratio is worse by more than 5 % or a record differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent.parent
BEFORE = "43e7bc0"
WORSE = 1.05

# The same sizes for both; short, for they are run `rounds` times twice.
PARTS = {
    "tables": ["benchmarks/tables.py"],
    "search": ["benchmarks/search.py", "--rows", "60", "--peer-rows", "8", "--threads", "1"],
    "lp": [
        *("benchmarks/lp_strength.py", "--rows", "100", "--queries", "1000"),
        *("--only", "PGD", "APGD", "Square", "--networks", "standard"),
    ],
    "trees": ["benchmarks/trees.py", "--quick", "--only", "b"],
}
# Models that durometer did not train (its demo networks are other ones since streams have purposes)
# and rows enough that some were drawn by both.
EXAMPLES = {
    "own_model.toml": 400,
    "grades.toml": 300,
    "trees_url_xgboost.toml": 150,
    "noise.toml": 150,
}
COMPARED = (
    "clean", "final", "success", "distance", "margin", "forwards", "backwards",
    "probability_low", "probability_high",
)  # fmt: skip
ROUNDING = 1e-9
LIBRARIES: list[str] = []


class Figure(NamedTuple):
    """One ratio against a peer; `speedup` says that higher is better."""

    name: str
    value: float
    speedup: bool


def main() -> None:
    """Both checkouts in turn, then the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    options.add_argument("commit", nargs="?", default=BEFORE)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--only", nargs="*", default=[*PARTS, "examples"])
    options.add_argument(
        "--smoke", action="store_true", help="this checkout against itself, tables only"
    )
    options.add_argument("--libraries", type=Path, help="on the path of the old checkout")
    asked = options.parse_args()
    if asked.libraries:
        LIBRARIES.append(str(asked.libraries.resolve()))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # hours: show each part
    with tempfile.TemporaryDirectory() as folder:
        before = HERE if asked.smoke else lay_out(asked.commit, Path(folder) / "before")
        parts = ["tables"] if asked.smoke else [part for part in asked.only if part in PARTS]
        bad = [line for part in parts for line in timed(part, before, asked.rounds, asked.smoke)]
        if "examples" in asked.only and not asked.smoke:
            bad += records(before, Path(folder))
    if bad and not asked.smoke:
        sys.exit("\n".join(["", "worse than before:", *bad]))


def lay_out(commit: str, folder: Path) -> Path:
    """The files of a commit, its kernels compiled where it has any of its own to compile."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=HERE, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"commit {commit} is not in this clone: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    if (folder / "hatch_build.py").exists():
        subprocess.run([sys.executable, "hatch_build.py"], cwd=folder, check=True)
    return folder


def run(tree: Path, arguments: list[str], cwd: Path | None = None) -> str:
    """What a command of a checkout prints, with that checkout's code."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = [str(tree / "src"), *(LIBRARIES if tree != HERE else [])]
    environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    # lp_strength ends with 1 where a bound of its own is missed; its table is there all the same.
    if not done.stdout:
        sys.exit(f"{tree}: {' '.join(arguments)}\n{done.stderr[-3000:]}")
    return done.stdout


def timed(part: str, before: Path, rounds: int, smoke: bool) -> Iterator[str]:
    """Prints the ratios of a benchmark before and after; yields those that are worse."""
    arguments = [*PARTS[part], *(["--smoke"] if smoke else [])]
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for side, tree in (("before", before), ("after", HERE)):
            for figure in READERS[part](run(tree, arguments)):
                seen = best.setdefault(figure.name, {"speedup": figure.speedup})
                pick = max if figure.speedup else min
                seen[side] = pick(seen.get(side, figure.value), figure.value)
    print(f"\n{part}: {' '.join(arguments)}")
    for name, seen in best.items():
        if not {"before", "after"} <= seen.keys():
            print(f"  {name:50} only {'before' if 'before' in seen else 'after'}")
            continue
        change = (
            seen["before"] / seen["after"] if seen["speedup"] else seen["after"] / seen["before"]
        )
        ratios = f"{seen['before']:10.2f} -> {seen['after']:10.2f}"
        print(f"  {name:50} {ratios}  {'speed-up' if seen['speedup'] else 'cost':8}  x{change:.2f}")
        if change > WORSE:
            yield f"{part}: {name} x{change:.2f}"


def read_tables(text: str) -> Iterator[Figure]:
    """`URL: CAPGD 304 ms per 1,000 rows, PGD ... 111 ms, ratio 2.75`: CPU time, for both are ours.

    Where the peer is our own too, the ratio gets worse as soon as the peer gets better.
    """
    for line in text.splitlines():
        if found := re.match(r"(.*?): CAPGD (\d+) ms.* (\d+) ms, ratio", line):
            yield Figure(f"{found[1]}: CAPGD, ms", float(found[2]), False)
            yield Figure(f"{found[1]}: PGD, ms", float(found[3]), False)
        elif found := re.match(r"(.*?): (\d+) ms; one by one", line):
            yield Figure(f"{found[1]}, ms", float(found[2]), False)


def read_search(text: str) -> Iterator[Figure]:
    """The columns robust, wall s, CPU s; the ratio is taken again, the printed one is rounded."""
    cpu = {
        m[1].strip(): float(m[2])
        for m in re.finditer(r"^([^\d\n]{20,}?) +[\d.]+ +[\d.]+ +([\d.]+)", text, re.M)
    }
    peer = next((seconds for name, seconds in cpu.items() if name.startswith("pymoo")), None)
    for name, seconds in cpu.items():
        if peer and not name.startswith("pymoo"):
            yield Figure(name, peer / seconds, True)


def read_lp(text: str) -> Iterator[Figure]:
    """`APGD  1.01  +0.00   adv-lib`: time over the peer's."""
    for found in re.finditer(r"^(\w+) +([\d.]+) +[+-][\d.]+ +(\S+)$", text, re.M):
        yield Figure(f"{found[1]} / {found[3]}", float(found[2]), False)


def read_trees(text: str) -> Iterator[Figure]:
    """`| model | within 1e-4 | ours, median | worst | draws | ...`: draws over ours."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[2].endswith("ms"):
            ours, draws = (float(cell.split()[0].replace(",", "")) for cell in (cells[2], cells[4]))
            yield Figure(cells[0], 1000 * draws / ours, True)


READERS = {"tables": read_tables, "search": read_search, "lp": read_lp, "trees": read_trees}


def records(before: Path, folder: Path) -> list[str]:
    """Plays the examples in both checkouts and compares what was stored of every shared row."""
    bad = []
    print("\nrecords of the examples (numbers: equal to 1e-9)")
    for example, most in EXAMPLES.items():
        tables = {}
        for side, tree in (("before", before), ("after", HERE)):
            out = str(folder / side / Path(example).stem)
            command = ["-m", next((tree / "src").glob("*/__init__.py")).parent.name]  # its old name
            few = ["--rows", str(most), "--out", out]
            run(tree, [*command, "run", f"examples/{example}", *few])
            run(tree, [*command, "export", out, "--out", out + ".csv"])
            tables[side] = pd.read_csv(out + ".csv").set_index("id")
        rows = tables["before"].index.intersection(tables["after"].index)
        columns = [c for c in COMPARED if all(c in table for table in tables.values())]
        old, new = (tables[side].loc[rows, columns].to_numpy(float) for side in ("before", "after"))
        differ = ~np.isclose(old, new, rtol=ROUNDING, atol=ROUNDING, equal_nan=True).all(axis=1)
        shared = f"{differ.sum()} of the {len(rows)} rows played by both differ"
        print(f"  {example:26} {shared} ({', '.join(columns)})")
        if differ.any():
            bad.append(f"{example}: records of {list(rows[differ][:5])} ...")
    return bad


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the docstring."""


if __name__ == "__main__":
    main()
