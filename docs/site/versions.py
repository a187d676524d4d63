"""A shelf of sites, one folder a version: what a host serves, so that readers can switch.

    python docs/site/build.py --shelf FOLDER

puts the site of this version into `FOLDER/0.3.0`, lists it in `FOLDER/versions.json`, which the
theme's selector reads, and leads `FOLDER/index.html` to the newest version. Building a version
again replaces it; the others stay as they are.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

LEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><title>durometer</title>\n'


def shelve(site: Path, shelf: Path, version: str) -> list[str]:
    """Put a built site on the shelf; the versions that stand there now, newest first."""
    shelf.mkdir(parents=True, exist_ok=True)
    coming = shelf / f".{version}.coming"
    shutil.rmtree(coming, ignore_errors=True)
    shutil.copytree(site, coming)
    shutil.rmtree(shelf / version, ignore_errors=True)
    coming.rename(shelf / version)
    standing = sorted(
        (p.name for p in shelf.iterdir() if (p / "index.html").is_file() and p.name[0] != "."),
        key=_order,
        reverse=True,
    )
    entries = [
        {"version": name, "title": name, "aliases": ["latest"] if name == standing[0] else []}
        for name in standing
    ]
    _write(shelf / "versions.json", json.dumps(entries, indent=1) + "\n")
    newest = f"{standing[0]}/index.html"
    refresh = f'<meta http-equiv="refresh" content="0; url={newest}">'
    _write(shelf / "index.html", f'{LEAD}{refresh}\n<a href="{newest}">durometer</a>\n')
    return standing


def _order(version: str) -> tuple[tuple[int, str], ...]:
    """0.10.0 is newer than 0.9.1: parts that are numbers are compared as numbers."""
    parts = version.split(".")
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def _write(file: Path, text: str) -> None:
    """Whole or not at all: somebody may be reading."""
    half = file.with_name(f".{file.name}.half")
    half.write_text(text, encoding="utf-8")
    os.replace(half, file)
