"""The CAA paper's tables and figures, re-run on URL; its attacks on trees, LCLD and CTU-13 besides.

    python studies/caa/run.py                                    # full
    python studies/caa/run.py --quick                            # the same on toy sizes
    python studies/caa/run.py --only clean table3 table4         # some of it
    python studies/caa/run.py --models moeva_published_models.npz --only published
    python studies/caa/run.py --loans FOLDER --only loans        # train on real loans
    python studies/caa/run.py --show                             # the tables from what is there

Every cell (one attack, one model, one seed) is kept in --out as soon as it is done, so a killed
study goes on where it was. Rows are valid phishing addresses of the test part, right or wrong: a
wrong one counts against the model, as in the paper. L2, eps 0.5, the authors' relations
("published": six of the 14 hold always) and the relations as meant.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.metadata import version
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "benchmarks")]
import budgets  # noqa: E402
import loans  # noqa: E402
import tables  # noqa: E402
from page import Page  # noqa: E402
from study import QUICK, TINY, Size, Study  # noqa: E402

TABLES = {
    "clean": tables.clean,
    "table3": tables.table3,
    "trees": tables.trees,
    "table4": tables.table4,
    "table7": tables.table7,
    "table2": tables.table2,
    "table8": budgets.table8,
    "table9": budgets.table9,
    "table10": budgets.table10,
    "figures": budgets.figures,
    "published": tables.published,
    "loans": loans.table,
}


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="toy sizes, a few minutes")
    options.add_argument("--tiny", action="store_true", help="smaller still: does it run?")
    options.add_argument("--show", action="store_true", help="compute nothing, show what is there")
    options.add_argument("--only", nargs="+", choices=TABLES)
    options.add_argument("--models", help="moeva_published_models.npz, for LCLD and CTU-13")
    options.add_argument("--loans", type=Path, help="folder of the two sets of loans (loans.py)")
    options.add_argument("--out", type=Path, help="default: runs/caa, or runs/caa-quick")
    given = options.parse_args(argv)
    torch.set_num_threads(1)
    size = TINY if given.tiny else QUICK if given.quick else Size()
    out = given.out or Path("runs/caa-quick" if given.quick else "runs/caa")
    study = Study(out, size, given.models, given.show, given.loans)
    lacking = {"published": not given.models, "loans": not given.loans}
    for name in given.only or ():
        if lacking.get(name):
            raise SystemExit(f"{name} needs --{'models' if name == 'published' else 'loans'}")
    about = f"durometer {version('durometer')}, torch {torch.__version__}, {size!r}"
    page = Page(out, about)
    for name in given.only or [n for n in TABLES if not lacking.get(n)]:
        TABLES[name](study, page)
        page.write()
    spent = time.process_time() / 60
    print(f"{out / 'caa.md'} and {out / 'caa.html'}, {spent:.1f} CPU minutes this time")


if __name__ == "__main__":
    main()
