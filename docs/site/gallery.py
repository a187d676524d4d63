"""The gallery: scripts of `docs/gallery/` run where they changed, written as pages and notebooks.

A page is kept under `build/gallery/` with a key: the script's text, the player's, and the sources
of the package. Only pages whose key changed are played again (`--fresh`: all); two at a time.

What a reader would get wrong: any change of the package plays all pages again, since a page that
was true of yesterday's code is not known to be true of today's. While you write a page, `--stale`
keeps what is there and plays only scripts that changed themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import play

import durometer as du

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "gallery"
MOST = 20.0  # CPU seconds of a page
# First letter of a script's name -> the group of its page.
GROUPS = {
    "a": "Images and networks",
    "b": "What counts as success",
    "c": "Tables and trees",
    "d": "Measurements with noise",
    "e": "Models that adapt",
    "f": "Text",
    "g": "Everyday work",
    "h": "Three stories: a red gate, and how it turned green",
    "i": "Limited access: labels, addresses, thresholds",
    "j": "Proofs",
}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def scripts() -> list[Path]:
    """In the order of the gallery: by name."""
    return sorted(SCRIPTS.glob("*.py"))


def played(
    kept: Path, fresh: bool = False, only: str = "", stale: bool = False
) -> dict[str, dict[str, Any]]:
    """Every page as data, by the script's name; those that changed are played first."""
    wanted = [script for script in scripts() if only in script.stem]
    old = [s for s in wanted if fresh or not _is_current(s, kept / s.stem, stale)]
    with ThreadPoolExecutor(2) as pool:
        failed = [text for text in pool.map(lambda s: _play(s, kept / s.stem), old) if text]
    if failed:
        sys.exit("\n\n".join(failed))
    print(f"gallery: {len(wanted)} pages, {len(old)} of them played now")
    pages = {s.stem: json.loads((kept / s.stem / "page.json").read_text()) for s in wanted}
    slow = [
        f"{name} ({page['seconds']} s)" for name, page in pages.items() if page["seconds"] > MOST
    ]
    if slow:
        print(f"over {MOST:.0f} CPU seconds: {', '.join(slow)}")
    return pages


def _key(script: Path, whole: bool = True) -> str:
    """Of the script and the player; and, after a blank, of the package."""
    text = script.read_text() + Path(play.__file__).read_text()
    own = hashlib.sha256(text.encode()).hexdigest()
    return f"{own} {sources()}" if whole else own


@cache
def sources() -> str:
    """A digest of the package's Python and C++."""
    digest = hashlib.sha256()
    for file in sorted(Path(du.__file__).parent.rglob("*")):
        if file.suffix in {".py", ".cpp", ".h", ".html", ".css", ".js"}:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_current(script: Path, folder: Path, stale: bool) -> bool:
    key = folder / "key"
    if not key.exists() or not (folder / "page.json").exists():
        return False
    return key.read_text().startswith(_key(script, whole=not stale))


def _play(script: Path, folder: Path) -> str:
    """Plays a script in a process of its own; what went wrong, if anything did."""
    threads = dict.fromkeys(THREADS, "1")
    command = [sys.executable, str(HERE / "play.py"), str(script), str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **threads}, check=False
    )
    if done.returncode:
        return f"{script.name} fails:\n{done.stderr[-3000:]}"
    (folder / "key").write_text(_key(script))
    return ""


def navigation(pages: dict[str, dict[str, Any]]) -> list[Any]:
    """The pages for the site's navigation, by group."""
    return [
        {title: [{pages[name]["title"]: f"gallery/{name}.md"} for name in names]}
        for title, names in _grouped(pages)
    ]


def _grouped(pages: dict[str, dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Group -> its pages, in their order; a group is the letter that a name begins with."""
    groups = [(title, [n for n in pages if n[0] == letter]) for letter, title in GROUPS.items()]
    return [(title, names) for title, names in groups if names]


def write(pages: dict[str, dict[str, Any]], kept: Path, folder: Path) -> None:
    """Markdown, notebook, script and figures of every page, and the index with thumbnails."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        for picture in (kept / name).glob("*.png"):
            (folder / picture.name).write_bytes(picture.read_bytes())
        (folder / f"{name}.py").write_bytes((SCRIPTS / f"{name}.py").read_bytes())
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook(page), indent=1))
        (folder / f"{name}.md").write_text(markdown(name, page), encoding="utf-8")
    index = [
        "# Gallery",
        "",
        f"{len(pages)} short pages, each with its output as it came when this site was built. "
        "Every page can be downloaded as a notebook or a script; none needs data of your own.",
        "",
    ]
    for title, names in _grouped(pages):
        cards = [_card(name, pages[name]) for name in names]
        index += [f"## {title}", "", '<div class="gallery" markdown>', "", *cards, "</div>", ""]
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def _card(name: str, page: dict[str, Any]) -> str:
    pictures = [picture for cell in page["cells"] for picture in cell["pictures"]]
    printed = [cell["printed"] for cell in page["cells"] if cell["printed"].strip()]
    if pictures:
        image = _pictures(pictures[-1])
    else:  # what it prints, small
        lines = (printed[-1] if printed else "").rstrip().splitlines()[:14]
        image = "\n".join(["```{ .text .thumb }", *(line[:64] for line in lines), "```"])
    first = page["purpose"].split("\n\n")[0].replace("\n", " ")
    inside = "\n\n".join((image, f"[{page['title']}]({name}.md)", first))
    return f'<div class="card" markdown>\n\n{inside}\n\n</div>\n'


def _pictures(picture: dict[str, str]) -> str:
    """A figure for the light page, and its twin for the dark one."""
    dark = picture["file"].replace(".png", "-dark.png")
    return f"![{picture['alt']}]({picture['file']}#only-light)![{picture['alt']}]({dark}#only-dark)"


def markdown(name: str, page: dict[str, Any]) -> str:
    """The page as a reader sees it."""
    out = [f"# {page['title']}", "", page["purpose"], "", _downloads(name), ""]
    for cell in page["cells"]:
        out += [cell["prose"], ""]
        if cell["code"]:
            out += ["```python", cell["code"], "```", ""]
        if cell["printed"].strip():
            out += ["```text", cell["printed"].rstrip(), "```", ""]
        out += [f"{_pictures(picture)}\n" for picture in cell["pictures"]]
    out += [f"*It took {page['seconds']} CPU seconds.*", ""]
    return "\n".join(out)


def _downloads(name: str) -> str:
    return f"[Download as a notebook]({name}.ipynb) · [as a script]({name}.py)"


def notebook(page: dict[str, Any]) -> dict[str, Any]:
    """The same as a Jupyter notebook (format 4), not yet run."""

    def of(kind: str, text: str) -> dict[str, Any]:
        cell = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
        return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})

    cells = [of("markdown", f"# {page['title']}\n\n{page['purpose']}")]
    for cell in page["cells"]:
        cells += [of("markdown", cell["prose"])] if cell["prose"] else []
        cells += [of("code", cell["code"])] if cell["code"] else []
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
