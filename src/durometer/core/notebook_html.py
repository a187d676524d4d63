"""What a notebook shows of a noun: small tables as HTML, everything in them escaped.

A notebook has no style sheet of ours, so what little style there is stands in the tags. Text from
data (names of columns and classes) is text here, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

COLOURS = {"proven": "#1f5fbf", "open": "#a9c4ec", "broken": "#b3400a", "wrong": "#6b4a3a"}


def here() -> bool:
    """Whether this is a notebook, that is, whether output may be HTML."""
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell" or "google.colab" in sys.modules


def text(said: Any, tag: str = "p") -> str:
    """A sentence.

    >>> text("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<{tag}>{escape(str(said))}</{tag}>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = 60) -> str:
    """A table; the first `most` of its rows."""
    lines = list(rows)
    top = "".join(text(h, "th") for h in head)
    body = "".join(f"<tr>{''.join(text(v, 'td') for v in line)}</tr>" for line in lines[:most])
    more = text(f"and {len(lines) - most:,} more") if len(lines) > most else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}"


def bar(counts: dict[str, tuple[str, int]]) -> str:
    """Kind -> (what it is called, rows), as one bar with a legend."""
    whole = max(1, sum(n for _, n in counts.values()))
    parts = "".join(
        f'<div style="width:{100 * n / whole:.2f}%;background:{COLOURS[kind]}"></div>'
        for kind, (_, n) in counts.items()
    )
    legend = "; ".join(f"{n:,} {name}" for name, n in counts.values())
    return f'<div style="display:flex;height:1.2em;max-width:48em">{parts}</div>{text(legend)}'
