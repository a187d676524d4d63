"""The house: one name, every file opens with its idea, every public name shows how it is used."""

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import durometer as du
from durometer.core import capabilities

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


# Of other libraries, which offer no public way; nothing of our own may stand here.
FOREIGN = {
    "_forward_hooks", "_forward_pre_hooks", "_version", "_schema", "_ops", "_overloadname", "_C",
    "_ConvNd", "_curve_scorer", "_get_pos_label", "_predictors", "_raw_predict_init",
    "_baseline_prediction", "_replace", "_exit", "_orig_mod",
}  # fmt: skip


def test_no_module_touches_anothers_private():
    found = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                own |= {t.id for t in targets if isinstance(t, ast.Name)}
        for node in ast.walk(tree):
            name, on = "", None
            if isinstance(node, ast.Attribute):
                name, on = node.attr, node.value
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("durometer"):
                name = next((a.name for a in node.names if a.name.startswith("_")), "")
            private = name.startswith("_") and not name.startswith("__")
            mine = isinstance(on, ast.Name) and on.id in ("self", "cls")
            if private and not mine and name not in own | FOREIGN:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {name}")
    assert found == []


def test_type_only_imports_go_down_as_all_others_do():
    """import-linter leaves out what stands under TYPE_CHECKING; between rooms it closes no knot."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    house = next(c for c in contracts["contracts"] if c["name"].startswith("the house"))
    storey = {
        room.strip(): height
        for height, line in enumerate(reversed(house["layers"]))
        for room in re.split("[:|]", line)
    }
    up, seen = [], 0
    for path in MODULES:
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for block in ast.walk(ast.parse(path.read_text())):
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
                names = [n.module or "" for n in ast.walk(block) if isinstance(n, ast.ImportFrom)]
                rooms = [n.split(".")[1] for n in names if n.startswith("durometer.")]
                seen += len(rooms)
                up += [f"{here} -> {room}" for room in rooms if storey[room] > storey[here]]
    assert seen > 20 and up == []


def test_a_hook_is_asked_for_by_its_protocol():
    """`getattr(noun, "hook", default)` finds what no protocol promises."""
    hooks = {
        name
        for kind in vars(capabilities).values()
        if getattr(kind, "_is_protocol", False) and kind.__module__ == capabilities.__name__
        for name in vars(kind)
        if not name.startswith("_")
    } - {"name", "schema", "start"}  # words that other libraries' objects have, too
    assert {"description", "cpu_only", "unrolled"} <= hooks
    asked = re.compile(rf'(?:getattr|hasattr)\([^,()]+, "({"|".join(sorted(hooks))})"')
    assert [f"{p.name}: {m[0]}" for p in MODULES for m in asked.finditer(p.read_text())] == []
