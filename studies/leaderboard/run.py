"""Play what is new on the leaderboard, verify it, store it: one archive a row (see `board`).

    python studies/leaderboard/run.py [--only TEXT] [--fresh] [--verify] [--smoke]

Rows that are stored, and whose task and file have not changed, are left alone: adding a row costs
that row. `--verify` unpacks every stored row and verifies it again, from its stored model. Then
`page.py` writes the page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from pathlib import Path

import board

import durometer as du


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="rows whose key contains this")
    options.add_argument("--fresh", action="store_true", help="play again what is stored")
    options.add_argument(
        "--verify", action="store_true", help="verify what is stored, play nothing"
    )
    options.add_argument("--smoke", action="store_true", help="one row, stored elsewhere")
    asked = options.parse_args()
    if asked.smoke:
        with tempfile.TemporaryDirectory() as folder:
            board.RUNS = Path(folder)
            played(board.rows("heart-forest")[0])
        return
    wrong = [row.key for row in board.rows(asked.only) if not _done(row, asked)]
    sys.exit(f"not on the board: {', '.join(wrong)}" if wrong else 0)


def _done(row: board.Row, asked: argparse.Namespace) -> bool:
    """Whether a row stands; one that breaks down does not keep the others from it."""
    try:
        if asked.verify:
            return not looked_at(row)["findings"]
        return (row.current and not asked.fresh) or not played(row)["findings"]
    except Exception:
        print(f"{row.key} broke down:\n{traceback.format_exc(limit=-3)}", flush=True)
        return False


def played(row: board.Row) -> dict:
    """A row from its file to its archive and verdict."""
    with tempfile.TemporaryDirectory() as folder:
        cost = board.play(row, Path(folder) / row.key)
        board.pack(Path(folder) / row.key, row.archive)
    verdict = looked_at(row)
    verdict |= {
        "key": row.key, "title": row.title, "task": row.task.name, "digest": row.digest,
        "sha256": board.sha256(row.archive), "commit": board.commit(), "durometer": du.__version__,
        "cpu_seconds": {what: round(s, 2) for what, s in cost.items()},
    }  # fmt: skip
    row.verdict.write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
    return verdict


def looked_at(row: board.Row) -> dict:
    """The stored row, unpacked elsewhere and verified with its own model."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        verdict = board.verified(row, board.unpack(row.archive, Path(folder)))
    size = row.archive.stat().st_size / 1024
    outcome = "; ".join(verdict["findings"]) or "verified"
    print(
        f"{row.key}: {outcome} ({size:.0f} kB, {time.process_time() - began:.1f} CPU-s)", flush=True
    )
    return verdict


if __name__ == "__main__":
    main()
