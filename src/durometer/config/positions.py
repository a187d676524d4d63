"""Lines: where each key of a TOML text stands, so that an error can point at it.

The standard library reads TOML but forgets the places. This walks over a text that `tomllib` has
already accepted, so it need not judge, only count: it knows keys, tables, arrays and strings, and
skips everything else. A place is a path, e.g. ("attack", "attacks", 1, "steps").
"""

from __future__ import annotations

import re
import tomllib

Path = tuple[str | int, ...]
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.S
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")


def lines(text: str) -> dict[Path, int]:
    """The line (from 1) of every key, table and array element.

    >>> lines("seed = 1\\n[attack]\\ntype = 'PGD'\\n")[("attack", "type")]
    3
    """
    return _Walk(text).whole()


def line_of(places: dict[Path, int], path: Path) -> int:
    """The line of a path, or of the nearest thing around it that has one."""
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 1)


class _Walk:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: dict[Path, int] = {}
        self._line, self._counted = 1, 0

    def whole(self) -> dict[Path, int]:
        table: Path = ()
        counts: dict[Path, int] = {}  # arrays of tables: how many so far
        while self._skip():
            if not self._next("["):
                self._pair(table)
                continue
            double = self._next("[")
            table = ()
            keys = self._key()
            for k, key in enumerate(keys, 1):
                table = (*table, key)
                # A header below an array of tables speaks of the array's last element.
                if table in counts and not (double and k == len(keys)):
                    table = (*table, counts[table] - 1)
            if double:
                counts[table] = counts.get(table, 0) + 1
                self._mark(table)
                table = (*table, counts[table] - 1)
            self._mark(table)
            self.at += 2 if double else 1
        return self.found

    def _skip(self) -> bool:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at < len(self.text)

    def _next(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def _mark(self, path: Path) -> None:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        self.found.setdefault(path, self._line)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._skip()
            match = _STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)
            if match is None:
                return parts
            self.at = match.end()
            word = match.group()
            parts.append(tomllib.loads(f"k = {word}")["k"] if word[0] in "\"'" else word)
            self._skip()
            if not self._next("."):
                return parts

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for key in self._key():
            path = (*path, key)
            end, self.at = self.at, start
            self._mark(path)
            self.at = end
        self._next("=")
        self._skip()
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._next("["):
            k = 0
            while self._skip() and not self._next("]"):
                self._mark((*path, k))
                self._value((*path, k))
                self._skip()
                self._next(",")
                k += 1
        elif self._next("{"):
            while self._skip() and not self._next("}"):
                self._pair(path)
                self._skip()
                self._next(",")
        else:
            match = _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at)
            self.at = match.end() if match else self.at + 1
