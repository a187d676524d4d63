"""The prosecutor: does any proof fall to a search that shares no code with it?

    OMP_NUM_THREADS=1 python studies/proofs/prosecute.py [--hours 0.1] [--rows N] [--seed 0]
        [--kind networks|tables|records|texts] [--only NAME] [--write FILE.json]
        [--add FILE.json ...]

Random networks (every construct of `prosecution/networks.py`, arguments and weights drawn), tables
with gaps, categories and relations under trees and linear models of every reader, networks on
records of such tables (without gaps), and texts, each in random spaces. Every row that a proof
calls proven is attacked: by corners, samples and gradient steps on the module itself, by all
records of a grid, by all sentences. Membership is restated in plain numbers and compared with
`region.contains`. Prints wrong / proven and refusals for each construct; exits with 1 if a proof
falls. `--seed` starts other cases; `--add` prints several written runs together.
`PROSECUTED=NAME` prosecutes an older package of that name.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from prosecution import play_networks, play_records, play_tables, play_text
from prosecution.judged import Count
from prosecution.networks import CONSTRUCTS
from prosecution.play_records import NETWORKS
from prosecution.play_text import TEXTS
from prosecution.tree_models import KINDS

PLAYS = {
    "networks": (play_networks.play, CONSTRUCTS),
    "tables": (play_tables.play, KINDS),
    "records": (play_records.play, NETWORKS),
    "texts": (play_text.play, TEXTS),
}
Counts = dict[str, dict[str, Count]]


def prosecute(
    kinds: list[str], seed: int, hours: float, rows: int | None, only: str = ""
) -> Counts:
    """One case of each construct after the other, with the next seed, until time or rows are up."""
    found: Counts = {k: {name: Count() for name in PLAYS[k][1] if only in name} for k in kinds}
    until = time.process_time() + 3600 * hours
    while True:
        for kind in kinds:
            for name, count in found[kind].items():
                if time.process_time() > until:
                    return found
                try:
                    count.add(PLAYS[kind][0](name, seed))
                except Exception as error:
                    raise RuntimeError(f"{kind}, {name}, seed {seed}") from error
        seed += 1
        if rows is not None and sum(c.proven for f in found.values() for c in f.values()) >= rows:
            return found


def print_counts(found: Counts) -> int:
    """The table; how many proofs fell."""
    every = [c for counts in found.values() for c in counts.values()]
    for kind, counts in found.items():
        print(f"\n| {kind} | wrong / proven | rows | of these with gaps | points | refused |")
        print("|---|---|---|---|---|---|")
        for name, c in counts.items():
            why = f" ({' '.join(c.said.split())[:90]})" if c.refused else ""
            fell = f" seeds {c.fallen}" if c.fallen else ""
            print(f"| {name} | {c.wrong} / {c.proven}{fell} | {c.rows} | {c.gaps} | {c.points} | "
                  f"{c.refused} of {c.cases}{why} |")  # fmt: skip
    wrong, proven = sum(c.wrong for c in every), sum(c.proven for c in every)
    with_proofs = {k: sum(c.proven > 0 for c in f.values()) for k, f in found.items()}
    gapped = sum(c.gaps > 0 for c in found.get("tables", {}).values())
    print(f"\n{wrong} of {proven} proven rows overturned ({sum(c.rows for c in every)} rows asked, "
          f"{sum(c.points for c in every)} points tried, {sum(c.disputed for c in every)} of them "
          f"disputed by region.contains); constructs with proven rows: {with_proofs}; kinds of "
          f"table model with proven rows that have gaps: {gapped}")  # fmt: skip
    return wrong


def _added(files: list[str]) -> Counts:
    total: Counts = {}
    for path in files:
        for kind, counts in json.loads(Path(path).read_text()).items():
            for name, count in counts.items():
                total.setdefault(kind, {}).setdefault(name, Count()).add(Count(**count))
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.1, help="CPU hours")
    parser.add_argument("--rows", type=int, help="stop once so many rows were proven")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=PLAYS, action="append")
    parser.add_argument("--only", default="", help="constructs whose name has this in it")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--add", nargs="*", default=[])
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = _added(options.add) if options.add else prosecute(
        options.kind or list(PLAYS), options.seed, options.hours, options.rows, options.only
    )  # fmt: skip
    if options.write:
        options.write.write_text(json.dumps(
            {k: {n: asdict(c) for n, c in f.items()} for k, f in found.items()}))  # fmt: skip
    sys.exit(print_counts(found) > 0)


if __name__ == "__main__":
    main()
