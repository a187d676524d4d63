"""Objects of the user's own in Python files: "file.py:name", an object or a function that makes it.

What a reader would get wrong: reading one runs the file. It is for files you trust.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from durometer.core.errors import DurometerError, nearest


def file_of(value: str) -> str:
    """The file that "file.py:name" names, or what is wrong with it."""
    file, colon, name = value.rpartition(":")
    if not (colon and name.isidentifier() and file.endswith(".py")):
        raise DurometerError(f"python = '{value}': expected 'file.py:name'")
    return file


def load(folder: Path, value: str) -> Any:
    """The object that "file.py:name" names; a function without parameters is called."""
    file, _, name = value.rpartition(":")
    path = (folder / file).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise DurometerError(f"python = '{value}': '{path}' cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # so that the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DurometerError(
            f"'{path}' cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise DurometerError(f"'{path}' has no '{name}'{nearest(name, public)}")
    found = getattr(module, name)
    if inspect.isclass(found):
        needed = [p.name for p in inspect.signature(found).parameters.values() if _needed(p)]
        if needed:
            raise DurometerError(
                f"python = '{value}' is a class that needs {', '.join(needed)}; name an object, or "
                "a function without parameters that makes it"
            )
        return found()
    makes = inspect.isfunction(found) and not inspect.signature(found).parameters
    return found() if makes else found


def _needed(p: inspect.Parameter) -> bool:
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
