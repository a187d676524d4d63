"""Lay out what the site is built from: the pages of `docs/`, and beside them what they link to.

Pages stay readable in the repository, where a link may leave `docs/`; on the site such a link leads
to a copy under `files/`. What a reader would get wrong: nothing is edited under `build/`; it is
laid out anew each time.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs"
LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")  # pages of the site, too


def lay_out(folder: Path) -> None:
    """Every page with its links led to where they are on the site, and the root's own pages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in sorted(PAGES.glob("*.md")):
        (folder / page.name).write_text(_led(page.read_text(encoding="utf-8"), folder), "utf-8")
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        (folder / name).write_text(_led(text, folder), encoding="utf-8")
    shutil.copytree(PAGES / "pictures", folder / "pictures", ignore=shutil.ignore_patterns("*.py"))
    shutil.copytree(PAGES / "site" / "assets", folder / "assets")


def _led(text: str, folder: Path) -> str:
    """The page's text with links that leave `docs/` pointing at copies."""

    def lead(found: re.Match[str]) -> str:
        target, anchor = found[1].removeprefix("../"), found[2] or ""
        if target in BESIDE:
            return f"]({target}{anchor})"
        source = ROOT / target
        copy = folder / "files" / target
        if source.is_dir():
            names = sorted(p.name for p in source.iterdir() if p.suffix in {".py", ".toml", ".md"})
            lines = [f"* [{name}](files/{target}/{name})" for name in names]
            listing = f"{target.replace('/', '_')}.md"
            for name in names:
                _copy(source / name, copy / name)
            (folder / listing).write_text(f"# {target}/\n\n" + "\n".join(lines) + "\n", "utf-8")
            return f"]({listing})"
        _copy(source, copy)
        return f"](files/{target}{anchor})"

    return LINK.sub(lead, text)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
