"""The house: rooms stay small, one idea each; and every public name shows how it is used."""

import inspect
from collections import Counter
from pathlib import Path
from typing import Any, get_type_hints

import durometer as du

PACKAGE = Path(du.__file__).parent
MODULES = sorted(f for f in PACKAGE.rglob("*.py") if "__pycache__" not in f.parts)
WRITTEN = {".py", ".pyi", ".cpp", ".h", ".css", ".js", ".html", ".toml"}
FILES = sorted(f for f in PACKAGE.rglob("*") if f.suffix in WRITTEN and f.is_file())


def test_no_file_is_longer_than_350_lines():
    long = {str(f.relative_to(PACKAGE)): len(f.read_text().splitlines()) for f in FILES}
    assert {name: lines for name, lines in long.items() if lines > 350} == {}


def test_no_folder_holds_more_than_25_files():
    crowded = Counter(str(f.parent.relative_to(PACKAGE)) for f in FILES)
    assert {room: files for room, files in crowded.items() if files > 25} == {}


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
