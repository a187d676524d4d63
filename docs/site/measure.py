"""How the documentation stands: words, diary marks, long pages, undocumented parameters, blocks.

python docs/site/measure.py

Exit code 1 where a guide has a diary mark or more than 250 lines. A diary mark is a date, a word
about a busy machine, or an aim that was missed: those belong to the benchmark pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import stage

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("start", "how-to", "understand", "index.md")
DIARY = re.compile(
    r"20\d\d-\d\d-\d\d|the day before|\bmissed\b|\bprototype|busy machine|jobs per core"
    r"|jobs each|the one before|an earlier version|a first version|until today|\bmended\b"
    r"|\bCPU-s\b|in a trial|not built|seed \d+ alone|at a load of",
)
LONGEST = 250


def guides() -> list[Path]:
    """The pages that a user reads to get something done."""
    return [page for page in stage.pages() if page.parts[0] in GUIDES]


def marks(page: Path) -> list[str]:
    """The diary marks of a page."""
    return DIARY.findall((stage.PAGES / page).read_text(encoding="utf-8"))


def blocks() -> tuple[int, int, int]:
    """Code blocks that are run, whose output is compared, and all of them."""
    sys.path.insert(0, str(ROOT / "tests" / "docs"))
    import test_code_blocks

    found = [b for page in test_code_blocks.PAGES for b in test_code_blocks.blocks(page)]
    run = [b for b in found if not b.why]
    return len(run), sum(b.kind == "console" or b.out is not None for b in run), len(found)


def undocumented() -> int:
    """Public parameters without a line in a docstring."""
    sys.path.insert(0, str(ROOT / "tests"))
    import test_docstrings

    found = test_docstrings.PUBLIC.items()
    return sum(len(list(test_docstrings.complaints(name, thing))) for name, thing in found)


def main() -> None:
    """Prints the figures."""
    texts = {page: (stage.PAGES / page).read_text(encoding="utf-8") for page in stage.pages()}
    words = {page: len(text.split()) for page, text in texts.items()}
    diary = {page: found for page in guides() if (found := marks(page))}
    long = {page: n for page in guides() if (n := texts[page].count("\n")) > LONGEST}
    run, compared, count = blocks()
    print(f"pages {len(texts)}, of them guides {len(guides())}")
    print(f"words {sum(words.values())}, of them in guides {sum(words[p] for p in guides())}")
    print(f"diary marks in guides {sum(map(len, diary.values()))}")
    print(*(f"  {page}: {', '.join(found)}" for page, found in diary.items()), sep="\n", end="")
    print(f"guides over {LONGEST} lines {len(long)} {dict(long) or ''}")
    print(f"public parameters without description {undocumented()}")
    print(f"code blocks run {run} of {count}, output compared {compared}")
    sys.exit(bool(diary or long))


if __name__ == "__main__":
    main()
