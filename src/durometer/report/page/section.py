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
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from durometer import __version__

if TYPE_CHECKING:
    from durometer.report.checks import Flag
    from durometer.report.stats import Estimate


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    id: str
    title: str
    body: Markup
    text: str = ""
    wide: bool = True  # over the whole page; else beside its neighbour, where there is room


@dataclass(frozen=True)
class Column:
    """A column of a long table, a value per row."""

    values: Sequence[object]
    number: bool = False


@dataclass(frozen=True)
class Whole:
    """What a click on each of the first rows of a long table opens."""

    fields: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()  # a value per field
    same: Sequence[tuple[str, str]] = ()  # fields that are the same in all rows
    changed: Mapping[int, Mapping[str, object]] = field(default_factory=dict)  # by row


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
        sections=arranged(sections),
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


def percent(share: float) -> str:
    """A share as every page writes it; what is not all is not called 100 %.

    >>> percent(0.3476).replace("\N{NO-BREAK SPACE}", " "), percent(0.9999), percent(0.0001)
    ('34.8 %', 'over 99.9\\xa0%', '0.01\\xa0%')
    """
    text = f"{100 * share:.1f}"
    if text == "100.0" and share < 1:
        text = "over 99.9"
    if text == "0.0" and share > 0:
        text = f"{100 * share:.1g}"
    return f"{text}\N{NO-BREAK SPACE}%"


def written(e: Estimate, rate: bool = True) -> tuple[str, str]:
    """A figure and its interval as every page writes them."""
    if e.value != e.value:
        return "–", "–"
    if rate:
        ends = [percent(v).removesuffix("\N{NO-BREAK SPACE}%") for v in (e.low, e.high)]
        return percent(e.value), f"{ends[0]} – {ends[1]}\N{NO-BREAK SPACE}%"
    value, low, high = (
        f"{v:.1e}" if 0 < abs(v) < 1e-3 else f"{v:,.4g}" if abs(v) < 1e4 else f"{v:,.0f}"
        for v in (e.value, e.low, e.high)
    )
    return value, f"{low} – {high}"


def arranged(sections: Iterable[Section | None]) -> list[Section]:
    """Sections with something to say; of those half as wide, two stand beside each other.

    A half one moves up to the half one before it; one that stays alone has the whole width.
    """
    rest, found = [s for s in sections if s is not None], list[Section]()
    while rest:
        first = rest.pop(0)
        at = next((i for i, s in enumerate(rest) if not s.wide), None)
        if first.wide or at is None:
            found.append(replace(first, wide=True))
        else:
            found += [first, rest.pop(at)]
    return found


def beside(*parts: Markup) -> Markup:
    """Pieces beside each other where the page is wide enough, else below each other."""
    return draw("beside", [p for p in parts if p])


def titled(title: str, body: Markup, text: str = "") -> Markup:
    """A piece under a heading of its own."""
    return draw("titled", title, body, text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], sortable: str = "") -> Markup:
    """A table that scrolls on a phone; numbers to the right. `sortable` is its id, if it is."""
    cells = list(rows)
    number = [all(_is_amount(row[j]) for row in cells) for j in range(len(head))]
    return draw("table", head, cells, number, sortable, None, None)


def long_table(name: str, columns: Mapping[str, Column], drawn: int, whole: Whole) -> Markup:
    """A table to sort and to search: the first rows are drawn, the others kept as text, a column
    at a time. `name` is its id; `whole` is what a click on each of the first rows opens."""
    each = [[_cell(v) for v in c.values] for c in columns.values()]
    first = list(zip(*(c[:drawn] for c in each), strict=True))
    rest = [_column(c[drawn:]) for c in each]
    further = rest if any(len(c) > drawn for c in each) else None
    opened = {"fields": whole.fields, "rows": whole.rows, "same": whole.same,
              "changed": whole.changed} if whole.rows else None  # fmt: skip
    number = [c.number for c in columns.values()]
    return draw("table", [*columns], first, number, name, further, opened)


def _column(values: Sequence[object]) -> object:
    """Values that come again are said once, with the place of each row's own."""
    known = list(dict.fromkeys(values))
    if len(known) > len(values) // 3:
        return values
    place = {v: i for i, v in enumerate(known)}
    return {"values": known, "at": [place[v] for v in values]}


def _is_amount(value: object) -> bool:
    if isinstance(value, str):
        return value.endswith("\N{NO-BREAK SPACE}%") or value == "–"
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value != value else f"{value:.4g}"


def _compact(rows: object) -> str:
    """As JSON on one line."""
    return json.dumps(rows, default=str, ensure_ascii=False, separators=(",", ":"))
