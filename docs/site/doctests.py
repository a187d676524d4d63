"""Examples in docstrings as code: without a fence Markdown takes `>>>` for a quotation.

An extension of griffe, which reads the sources for the reference; named in `mkdocs.yml`.
"""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts every run of doctest lines into a fence of its own."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its examples (from `>>>` to the next empty line) in fences.

    >>> print(fenced("Doubles.\\n\\n>>> 2 * 2\\n4"))
    Doubles.
    <BLANKLINE>
    ```pycon
    >>> 2 * 2
    4
    ```
    """
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith(">>> ") and not inside:
            out += ["```pycon"] if not out or not out[-1].strip() else ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line.replace("<BLANKLINE>", "") if inside else line)
    return "\n".join([*out, "```"] if inside else out)
