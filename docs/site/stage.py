"""Lay out what the site is built from: the pages of `docs/`, and beside them what they link to.

Pages stay readable in the repository, where a link may leave `docs/`; on the site such a link leads
to a copy under `files/`. `docs/archive/` stays in the repository: what was tried is for developers.
What a reader would get wrong: nothing is edited under `build/`; it is laid out anew each time.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs"
LINK = re.compile(r"\]\(((?!https?:|mailto:)[^)#\s]+)(#[^)\s]*)?\)")
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")  # pages of the site, too
LEFT_OUT = ("archive", "gallery", "site", "pictures")  # not pages, or not of the site


def pages() -> list[Path]:
    """Every page of the site that is written by hand, in the order of its path."""
    found = (page.relative_to(PAGES) for page in PAGES.rglob("*.md"))
    return sorted(page for page in found if page.parts[0] not in LEFT_OUT)


def lay_out(folder: Path) -> None:
    """Every page with its links led to where they are on the site, and the root's own pages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in pages():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        text = (PAGES / page).read_text(encoding="utf-8")
        (folder / page).write_text(_led(text, Path("docs", page), page, folder), "utf-8")
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        (folder / name).write_text(_led(text, Path(name), Path(name), folder), encoding="utf-8")
    shutil.copytree(PAGES / "pictures", folder / "pictures", ignore=shutil.ignore_patterns("*.py"))
    shutil.copytree(PAGES / "site" / "assets", folder / "assets")


def _led(text: str, source: Path, place: Path, folder: Path) -> str:
    """A page's text with links that leave the site pointing at copies.

    `source` is where the page stands in the repository, `place` where it stands on the site.
    """

    def lead(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / found[1]))
        return f"]({os.path.relpath(_on_site(target, folder), place.parent)}{found[2] or ''})"

    return LINK.sub(lead, text)


def _on_site(target: Path, folder: Path) -> Path:
    """Where a file of the repository is on the site; what is no part of it is copied there."""
    inside = target.relative_to("docs") if target.is_relative_to("docs") else None
    if inside is not None and (inside.parts or ("",))[0] != "archive":
        return inside
    if target.as_posix() in BESIDE:
        return target
    copy = Path("files", target)
    if not (ROOT / target).is_dir():
        _copy(ROOT / target, folder / copy)
        return copy
    names = sorted(p.name for p in (ROOT / target).iterdir() if p.suffix in {".py", ".toml", ".md"})
    for name in names:
        _copy(ROOT / target / name, folder / copy / name)
    lines = [f"* [{name}]({copy.as_posix()}/{name})" for name in names]
    listing = Path(f"{target.as_posix().replace('/', '_')}.md")
    (folder / listing).write_text(f"# {target}/\n\n" + "\n".join(lines) + "\n", "utf-8")
    return listing


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
