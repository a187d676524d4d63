"""Play one gallery script: run its cells in order, keep what they print and the figures they draw.

    python docs/site/play.py SCRIPT.py FOLDER

A script opens with a docstring (title, empty line, what it is for) and is cut into cells by `# %%`;
the comment lines that follow the mark are prose. FOLDER gets `page.json` and the figures.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")
INK, PAPER = (0.86, 0.87, 0.90), (0.118, 0.129, 0.161)  # of a figure on a dark page


def cells(source: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Title, what it is for, and the (prose, code) of every cell."""
    tree = ast.parse(source)
    title, _, purpose = (ast.get_docstring(tree) or "").partition("\n\n")
    body = "\n".join(source.splitlines()[tree.body[0].end_lineno :])
    found = []
    for cell in re.split(r"^# %%[^\n]*$", body, flags=re.M):
        lines = cell.strip("\n").splitlines()
        prose = []
        while lines and lines[0].startswith("#"):
            prose.append(lines.pop(0).removeprefix("#").removeprefix(" "))
        if prose or any(line.strip() for line in lines):
            found.append(("\n".join(prose).strip(), "\n".join(lines).strip()))
    return title.strip(), purpose.strip(), found


def play(script: Path, folder: Path) -> None:
    """Runs the cells in one namespace, as a notebook would."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"figure.figsize": (7, 3.6), "figure.dpi": 110, "font.size": 9})
    title, purpose, found = cells(script.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    space: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    said, drawn, began = [], 0, time.process_time()
    for prose, code in found:
        out, pictures = io.StringIO(), []
        with contextlib.redirect_stdout(out):
            _run(code, str(script), space)
        for number in plt.get_fignums():
            figure = plt.figure(number)
            drawn += 1
            name = f"{script.stem}_{drawn}.png"
            figure.savefig(folder / name, bbox_inches="tight")
            _darken(figure)
            figure.savefig(folder / name.replace(".png", "-dark.png"), bbox_inches="tight")
            pictures.append({"file": name, "alt": figure.get_label() or f"{title}, figure {drawn}"})
        plt.close("all")
        said.append({"prose": prose, "code": code, "printed": out.getvalue(), "pictures": pictures})
    seconds = time.process_time() - began
    page = {"title": title, "purpose": purpose, "cells": said, "seconds": round(seconds, 1)}
    (folder / "page.json").write_text(json.dumps(page, indent=1), encoding="utf-8")


def _darken(figure: Any) -> None:
    """The same figure for a dark page: what is black becomes light, what is white becomes dark."""
    from matplotlib import colors

    def turned(color: Any) -> Any:
        try:
            r, g, b, a = colors.to_rgba(color)
        except (TypeError, ValueError):
            return None
        if max(r, g, b) - min(r, g, b) > 0.12 or 0.35 < r < 0.75:
            return None  # a colour, or a grey that both pages bear
        shade = INK if r <= 0.35 else PAPER
        return (*shade, a)

    changes = []  # all are read before any is made: what is turned twice is as it was
    for artist in figure.findobj(lambda artist: not hasattr(artist, "patch")):
        for what in ("color", "facecolor", "edgecolor", "markeredgecolor", "markerfacecolor"):
            get, put = (getattr(artist, f"{verb}_{what}", None) for verb in ("get", "set"))
            new = turned(_single(get())) if get is not None and put is not None else None
            if new is not None:
                changes.append((put, new))
    for put, new in changes:
        put(new)
    for axes in figure.axes:
        axes.tick_params(colors=INK, which="both")


def _single(color: Any) -> Any:
    """The one colour of an artist; None where it has several."""
    rows = getattr(color, "shape", ())
    if len(rows) == 2:
        return color[0] if rows[0] == 1 else None
    return color


def _run(code: str, name: str, space: dict[str, Any]) -> None:
    """Executes a cell; the value of a last expression is printed, as in a notebook."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), space)
        drawn = value[0] if isinstance(value, list | tuple) and len(value) else value
        if value is not None and not type(drawn).__module__.startswith("matplotlib"):
            print(value)


if __name__ == "__main__":
    play(Path(sys.argv[1]), Path(sys.argv[2]))
