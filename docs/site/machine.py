"""What a program reads of the site: `llms.txt`, and beside every page its Markdown twin."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import durometer as du


def write(staged: Path, site: Path) -> None:
    """Copies the Markdown beside the HTML and lists it, title by title."""
    lines = [
        f"# durometer {du.__version__}",
        "",
        "> How robust is this classifier under the threat it really faces?",
        "",
    ]
    for page in sorted(staged.rglob("*.md")):
        where = page.relative_to(staged)
        if where.parts[0] == "files":
            continue
        (site / where).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, site / where)
        title = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.M)
        lines.append(f"- [{title[1] if title else where.stem}]({where.as_posix()})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
