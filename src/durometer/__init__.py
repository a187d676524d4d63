"""durometer: how robust is this classifier under the threat it really faces?

    import durometer as du
    report = du.evaluate(net, data, space=du.Linf(8 / 255))

Names are loaded when first used, so that `import durometer` costs milliseconds, not torch. Which
names there are says the stub beside this file, once, for this loader and for type checkers alike.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.3.0"  # the one place: pyproject.toml and the site read it here


def _homes() -> dict[str, str]:
    """Public name -> the module it comes from, as `__init__.pyi` has them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: str(node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_HOMES = _homes()
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from durometer.core.errors import nearest

        raise AttributeError(f"durometer has no '{name}'{nearest(name, _HOMES)}", name=name)
    home = _HOMES[name]
    module = None if home == "durometer" else import_module(home)
    value = getattr(module, name, None) if module else None
    if value is None:  # a module of that name, not a name in it
        value = import_module(f"{home}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
