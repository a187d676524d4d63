"""The house: one name, every file opens with its idea, every public name shows how it is used."""

import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import durometer as du

PACKAGE = Path(du.__file__).parent
ROOT = Path(__file__).parents[1]
MADE = {"build", "dist", "node_modules", "site", "__pycache__"}  # not part of the tree
MODULES = sorted(f for f in PACKAGE.rglob("*.py") if "__pycache__" not in f.parts)


def test_nothing_holds_the_old_name():
    """Nowhere in the tree but in the history; also not inside a longer name."""
    old = re.compile(b"as" + b"say", re.IGNORECASE)
    found = []
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if any(p.startswith(".") or p in MADE for p in parts) or path.name == "CHANGELOG.md":
            continue
        if old.search(str(parts).encode()) or (path.is_file() and old.search(path.read_bytes())):
            found.append("/".join(parts))
    assert found == []


def test_every_file_opens_with_its_idea():
    bare = [f for f in MODULES if f.name != "__init__.py" and not f.read_text().startswith('"""')]
    assert bare == []


VOCABULARIES = (
    *("architectures", "datasets", "defenses", "losses", "masks", "noise", "orders"),
    *("relations", "testing", "training"),
)


def public():
    """Every public name, and what the vocabularies define themselves."""
    for name in dir(du):
        thing = getattr(du, name)
        if name in VOCABULARIES:
            for inner in getattr(thing, "__all__", None) or sorted(vars(thing)):
                noun = getattr(thing, inner)
                if getattr(thing, "__all__", None) or (
                    getattr(noun, "__module__", "") == thing.__name__ and inner[0] != "_"
                ):
                    yield f"{name}.{inner}", noun
        elif not inspect.ismodule(thing) and not name.startswith("__"):
            yield name, thing


def test_every_public_name_shows_how_it_is_used():
    silent = []
    for name, thing in public():
        if inspect.ismodule(thing):
            continue
        shown = [line for line in (inspect.getdoc(thing) or "").splitlines() if ">>> " in line]
        if not shown or any("+SKIP" in line for line in shown):
            silent.append(name)
    assert silent == []


def test_no_parameter_of_evaluate_is_anything():
    hints = get_type_hints(du.evaluate)
    assert [name for name, hint in hints.items() if hint is Any] == []
