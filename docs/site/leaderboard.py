"""The leaderboard's pages for the site: the stored reports, and a page that is theirs."""

from __future__ import annotations

import sys
from pathlib import Path

STUDY = Path(__file__).resolve().parents[2] / "studies" / "leaderboard"


def pages(folder: Path) -> int:
    """Unpacks every stored report; refuses a page that says other than they do."""
    sys.path.insert(0, str(STUDY))  # rows import their neighbours when they are read
    import page

    if page.OUT.read_text(encoding="utf-8") != page.written():
        sys.exit("docs/leaderboard.md is not of the stored rows: run studies/leaderboard/page.py")
    return page.pages(folder)
