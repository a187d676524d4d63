"""Draw the house, docs/pictures/house.svg, from the import graph itself.

    python docs/house.py            # writes the picture
    python docs/house.py --check    # exit code 1 where the stored picture is not today's

A storey is a line of the layer contract in pyproject.toml, a room a top-level module of durometer.
A line means "imports"; only those to the next storey are drawn. Type-only imports do not count, as
in the contract.
"""

from __future__ import annotations

import re
import sys
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
WIDE, HIGH, GAP, SIDE = 120, 34, 34, 16


def storeys() -> list[list[str]]:
    """The rooms that exist, highest storey first, as the contract lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    split = ([name.strip(" ()") for name in re.split("[:|]", line)] for line in contract["layers"])
    there = [[n for n in names if exists(n)] for names in split]
    return [sorted(names) for names in there if names]


def exists(room: str) -> bool:
    """Is there such a file or folder?"""
    place = ROOT / "src" / "durometer" / room
    return place.is_dir() or place.with_suffix(".py").exists()


def edges(rooms: set[str]) -> set[tuple[str, str]]:
    """Who imports whom, room by room."""
    graph = grimp.build_graph("durometer", exclude_type_checking_imports=True, cache_dir=None)
    found = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            a, b = (name.split(".")[1] if "." in name else "" for name in (module, other))
            if a != b and a in rooms and b in rooms:
                found.add((a, b))
    return found


def draw() -> str:
    """The picture as SVG."""
    floors = storeys()
    level = {room: k for k, floor in enumerate(floors) for room in floor}
    widest = max(map(len, floors))
    width = 2 * SIDE + widest * WIDE + (widest - 1) * SIDE
    place, boxes = {}, []
    for k, floor in enumerate(floors):
        left = (width - len(floor) * WIDE - (len(floor) - 1) * SIDE) / 2
        for i, room in enumerate(floor):
            x, y = left + i * (WIDE + SIDE), SIDE + k * (HIGH + GAP)
            place[room] = (x + WIDE / 2, y)
            boxes.append(
                f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="6"/>'
                f'<text x="{x + WIDE / 2:g}" y="{y + 21:g}">{escape(room)}</text>'
            )
    lines = []
    for a, b in sorted(edges(set(level))):
        if level[b] - level[a] == 1:
            (x1, y1), (x2, y2) = place[a], place[b]
            lines.append(f'<line x1="{x1:g}" y1="{y1 + HIGH:g}" x2="{x2:g}" y2="{y2:g}"/>')
    height = 2 * SIDE + len(floors) * HIGH + (len(floors) - 1) * GAP
    style = (
        "rect{fill:#f4f6f8;stroke:#44546a}line{stroke:#9aa7b8}"
        "text{font:bold 14px sans-serif;text-anchor:middle;fill:#17202c}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'role="img" aria-label="The rooms of durometer and who imports whom">'
        f"<style>{style}</style>\n" + "\n".join(lines + boxes) + "\n</svg>\n"
    )


def main() -> None:
    """Write the picture, or say whether it is today's."""
    made = draw()
    if "--check" in sys.argv[1:]:
        if not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != made:
            sys.exit(f"{PICTURE.relative_to(ROOT)} is not today's: run python docs/house.py")
        return
    PICTURE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
