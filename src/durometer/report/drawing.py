"""How a noun becomes a page, without knowing the pages: `report/__init__.py` says who draws what.

So the figures of a report never depend on how they are shown, and a page is an ordinary function of
the noun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DRAWN_BY: dict[str, Callable[[Any], str]] = {}  # kind of noun -> noun -> page


def html(noun: Any) -> str:
    """The noun as one self-contained page."""
    return DRAWN_BY[type(noun).__name__](noun)
