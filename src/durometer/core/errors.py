"""How durometer says no: a bad value (`DurometerError`), or parts that do not fit (`Unsupported`).

Every message names the value that was wrong, what was expected and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DurometerError(Exception):
    """Something the user gave is wrong; the message names it and the fix.

    >>> import durometer as du
    >>> try:
    ...     du.Schema([du.Feature('age', low=0, high=120)], ['agee <= 99'])
    ... except du.DurometerError as error:
    ...     print(error)
    relation 'agee <= 99': no feature 'agee'; did you mean 'age'?
    """


class Unsupported(DurometerError):
    """Each part is fine by itself, but together they cannot work; the message names what would.

    >>> import durometer as du
    >>> try:
    ...     du.evaluate(*du.testing.toy(), space=du.Linf(0.1), attack=du.Walk(20))
    ... except du.Unsupported as error:
    ...     print(error)
    Walk works in L1, L0, patches and windows; use Ray in Linf, Circle in L2, Mirror in a table
    """


class Exhausted(DurometerError):
    """A model can be asked no more: its server is silent, or a limit is reached. What was answered
    is kept.
    """


class Contradiction(DurometerError):
    """A row was proven and broken: one of the two parts that say so has a bug."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: "; did you mean 'x'?", or the list of what is known.

    >>> nearest("APDG", ["PGD", "APGD"])
    "; did you mean 'APGD'?"
    """
    name, names = str(name), sorted(str(n) for n in known)  # a file may hold anything
    close = [n for n in names if n.lower() == name.lower()] or get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return "; known: " + ", ".join(names) if names else ""
