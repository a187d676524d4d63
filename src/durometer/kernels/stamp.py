"""The stamp of the compiled kernels: a hash of their sources, compiled into the library.

A library whose stamp is not that of the sources beside it is older than them. `hatch_build.py` runs
this file by its path, before anything is installed: it may import only the standard library.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
SUFFIX = {"darwin": "dylib", "win32": "dll"}


def library(platform: str) -> Path:
    """Where the library of this checkout or wheel stands; `platform` is `sys.platform`."""
    return Path(__file__).parent / f"_native.{SUFFIX.get(platform, 'so')}"


def stamp() -> str | None:
    """The hash of the C++ sources; None in a wheel, which carries none."""
    files = sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.h")])
    if not files:
        return None
    names = [p.relative_to(SOURCES).as_posix().encode() for p in files]
    texts = [p.read_bytes().replace(b"\r\n", b"\n") for p in files]
    parts = [name + b"\0" + text for name, text in zip(names, texts, strict=True)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def carries(path: Path, mark: str) -> bool:
    """Is this library compiled from the sources with this stamp? Read without loading it."""
    return path.exists() and f"durometer-native-{mark}".encode() in path.read_bytes()
