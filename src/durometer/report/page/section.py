"""Section: one part of a page, and how parts become one self-contained file.

The markup is in `report/templates` (jinja2, which escapes all it is given): `page.html` is the
file, `parts.html` holds a macro for everything that stands in a section. Python computes what is
shown. The page's own policy allows only its style and script (by their hashes) and no network, so
a hostile name in the data stays text even if it were not escaped, which it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from durometer import __version__

if TYPE_CHECKING:
    from durometer.report.checks import Flag


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    id: str
    title: str
    body: Markup
    text: str = ""
    wide: bool = True  # over the whole page; else beside its neighbour, where there is room


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("durometer.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {"cell": _cell, "compact": _compact}
    return made


@cache
def _source(kind: str) -> tuple[str, str]:
    """The page's style or script, and its hash."""
    text = (files("durometer.report") / "templates" / f"report.{kind}").read_text()
    return text, "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def policy() -> str:
    """What a page that is served may do: its own style and script, its own forms, nothing else."""
    style, script = (_source(kind)[1] for kind in ("css", "js"))
    return (
        f"default-src 'none'; img-src data:; style-src '{style}'; script-src '{script}'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def render(
    title: str,
    verdict: str,
    threat: str,
    sections: Iterable[Section | None],
    bar: Markup = Markup(""),  # noqa: B008 (a constant)
    picture: Markup = Markup(""),  # noqa: B008
    name: str = "",
) -> str:
    """The whole page; sections that have nothing to say are None. `name`: what the page is of."""
    (style, style_hash), (script, script_hash) = _source("css"), _source("js")
    return _templates().get_template("page.html").render(
        title=title,
        verdict=verdict.replace(" %", "\N{NO-BREAK SPACE}%"),
        threat=threat,
        name=name,
        bar=bar,
        picture=picture,
        sections=[s for s in sections if s is not None],
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        style_hash=style_hash,
        script_hash=script_hash,
    )  # fmt: skip


@cache
def explanations() -> dict[str, tuple[str, ...]]:
    """What docs/reference/warnings.md says of each flag; empty where it is missing."""
    place = files("durometer.report") / "templates" / "checks.md"  # put there by hatch_build.py
    clone = Path(__file__).parents[4] / "docs" / "reference" / "warnings.md"
    found = next((p for p in (place, clone) if p.is_file()), None)
    parts = found.read_text(encoding="utf-8").split("\n## ")[1:] if found else []
    return {
        name.strip(): tuple(" ".join(p.split()) for p in text.split("\n\n") if p.strip())
        for name, _, text in (part.partition("\n") for part in parts)
    }


def flagged(flags: Iterable[Flag]) -> Markup:
    """Warnings and notes, each with what it means and what to do, to unfold."""
    known = explanations()
    return draw("flags", [(f, known.get(f.id, ())) for f in flags])


def draw(macro: str, *args: object, **values: object) -> Markup:
    """What a macro of parts.html makes of the values."""
    parts: dict[str, object] = vars(_templates().get_template("parts.html").module)
    made = parts[macro]
    assert callable(made)
    return Markup(str(made(*args, **values)).strip())


def beside(*parts: Markup) -> Markup:
    """Pieces beside each other where the page is wide enough, else below each other."""
    return draw("beside", [p for p in parts if p])


def titled(title: str, body: Markup, text: str = "") -> Markup:
    """A piece under a heading of its own."""
    return draw("titled", title, body, text)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    sortable: str = "",
    further: Iterable[Sequence[object]] = (),
    whole: Sequence[Mapping[str, str]] = (),
) -> Markup:
    """A table that scrolls on a phone; numbers to the right. `sortable` is its id, if it is.

    `further` rows are kept as text in the page, to be found by its search and by sorting. `whole`
    is what a click on each of the first rows shows.
    """
    cells, rest = list(rows), [[_cell(v) for v in row] for row in further]
    number = [all(_is_amount(row[j]) for row in cells) for j in range(len(head))]
    return draw("table", head, cells, number, sortable, rest, [list(w.items()) for w in whole])


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value != value else f"{value:.4g}"


def _compact(rows: Sequence[Sequence[object]]) -> str:
    """As JSON on one line."""
    return json.dumps(rows, default=str, ensure_ascii=False, separators=(",", ":"))
