"""The house: rooms stay small, one idea each; and every public name shows how it is used."""

from pathlib import Path

import assay

PACKAGE = Path(assay.__file__).parent
MODULES = sorted(f for f in PACKAGE.rglob("*.py") if "__pycache__" not in f.parts)


def test_no_file_is_longer_than_350_lines():
    long = {str(f.relative_to(PACKAGE)): len(f.read_text().splitlines()) for f in MODULES}
    assert {name: lines for name, lines in long.items() if lines > 350} == {}


def test_no_folder_holds_more_than_25_files():
    rooms = {f.parent for f in MODULES}
    crowded = {str(r.relative_to(PACKAGE)): len(list(r.glob("*.py"))) for r in rooms}
    assert {room: files for room, files in crowded.items() if files > 25} == {}


def test_every_file_opens_with_its_idea():
    bare = [f for f in MODULES if f.name != "__init__.py" and not f.read_text().startswith('"""')]
    assert bare == []
