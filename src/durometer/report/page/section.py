"""Section: one part of a page, and how parts become one self-contained file.

SVG drawn in Python, a little script for tooltips, legends, sorting and filtering, pictures inside.
The page's own policy allows only that very style and script (by their hashes) and no network, so
a hostile name in the data stays text even if it were not escaped, which it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, Template
from markupsafe import Markup

from durometer import __version__


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    id: str
    title: str
    body: Markup
    text: str = ""
    wide: bool = True  # over the whole page; else beside its neighbour, where there is room


@cache
def _parts() -> tuple[Template, str, str]:
    folder = files("durometer.report") / "templates"
    style, script = ((folder / f"report.{kind}").read_text() for kind in ("css", "js"))
    template = Environment(autoescape=True).from_string((folder / "report.html").read_text())
    return template, style, script


def render(
    title: str,
    verdict: str,
    threat: str,
    sections: Iterable[Section | None],
    bar: Markup | None = None,
    picture: Markup | None = None,
) -> str:
    """The whole page; sections that have nothing to say are None."""
    template, style, script = _parts()
    return template.render(
        title=title,
        verdict=verdict.replace(" %", "\N{NO-BREAK SPACE}%"),
        threat=threat,
        bar=bar or "",
        picture=picture or "",
        sections=[s for s in sections if s is not None],
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def joined(parts: Iterable[Any]) -> Markup:
    """Pieces one after the other; plain text among them is escaped."""
    return Markup("").join(parts)


def beside(*parts: Markup) -> Markup:
    """Pieces beside each other where the page is wide enough, else below each other."""
    held = joined(Markup("<div>{}</div>").format(part) for part in parts if part)
    return Markup("<div class=beside>{}</div>").format(held)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    sortable: str = "",
    further: Iterable[Sequence[Any]] = (),
) -> Markup:
    """A table that scrolls on a phone; numbers to the right. `sortable` is its id, if it is.

    `further` rows are kept as text in the page, to be found by its search and by sorting.
    """
    rows = [[_cell(v) for v in row] for row in rows]
    number = [all(isinstance(r[j], _Number) for r in rows) for j in range(len(head))]
    top = joined(
        Markup("<th{}>{}</th>").format(
            Markup(" class=n") if number[j] else "",
            Markup("<button>{}</button>").format(name) if sortable else name,
        )
        for j, name in enumerate(head)
    )
    body = joined(
        Markup("<tr>{}</tr>").format(
            joined(
                Markup("<td{}>{}</td>").format(Markup(" class=n") if number[j] else "", v)
                for j, v in enumerate(row)
            )
        )
        for row in rows
    )
    name = Markup(" id={} class=sortable").format(sortable) if sortable else ""
    frame = Markup("<div class='scroll{}'><table{}><thead><tr>{}</tr></thead><tbody>{}</tbody>")
    made = frame.format(" long" if sortable else "", name, top, body) + Markup("</table></div>")
    rest = [[str(_cell(v)) for v in row] for row in further]
    if not rest:
        return made
    kept = Markup("<template id='{}-further'>{}</template>")
    return made + kept.format(sortable, json.dumps(rest, ensure_ascii=False, separators=(",", ":")))


class _Number(str):
    """Text of a number."""


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return _Number(f"{value:,}")
    return _Number("–" if value != value else f"{value:.4g}")
