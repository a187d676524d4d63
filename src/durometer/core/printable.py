"""Text from data as a terminal may see it: control characters and marks of direction escaped.

A class, an id or the name of a model may come from whoever wrote the data. Raw, an escape sequence
in it could clear the screen, rewrite the lines above or change what is pasted, and a right-to-left
mark could make a sentence read otherwise than it is.

What a reader would get wrong: a carriage return is one of them, a line break and a tab are not.
"""

from __future__ import annotations

import re

_RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""The text with such characters written as escapes.

    >>> printable("\x1b[2Jloans\u202e")
    '\\x1b[2Jloans\\u202e'
    """
    return _RAW.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
