"""The house in numbers: what the source of two checkouts is made of, side by side.

    python studies/house.py                    the table of this checkout
    python studies/house.py --before 43e7bc0   beside a commit of its history
    python studies/house.py --walks [--before 43e7bc0] [--libraries FOLDER] [--smoke]
                                               five evaluations: modules, calls between them

The table is read from the syntax tree and the import graph; nothing of the package is run. The
walks run each evaluation twice and count the second one, with a model and data made anew, so that
imports are left out. FOLDER holds what the old commit imports and this one does not.

What a reader would get wrong: an importer is a module that names another one in any import, also
inside a function; a knot is a set of modules each of which reaches all others. Parameters count as
documented where the docstring has a line `name: ...` for them, or, in old checkouts, names them at
all: both columns are printed.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parents[1]
OWN = ("self", "cls")


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    options.add_argument("--before", help="a commit to compare with")
    options.add_argument("--walks", action="store_true", help="play the five walks and count calls")
    options.add_argument("--libraries", help="folder on the path of the old checkout")
    options.add_argument("--smoke", action="store_true", help="the first walk alone")
    asked = options.parse_args()
    if asked.walks:
        return walks(asked)
    columns = {"now": measured(ROOT)}
    if asked.before:
        with tempfile.TemporaryDirectory() as folder:
            archive = ["git", "archive", asked.before, "src"]
            files = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
            columns = {asked.before: measured(Path(folder)), **columns}
    show("measured", columns)


def show(title: str, columns: dict[str, dict[str, int]]) -> None:
    """A table with a column a checkout."""
    print(f"| {title} | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name in columns["now"]:
        print(f"| {name} | " + " | ".join(f"{c[name]:,}" for c in columns.values()) + " |")


def measured(tree: Path) -> dict[str, int]:
    """Every count of one checkout.

    Args:
        tree: Folder that holds `src/`.
    """
    (package,) = (p.parent for p in (tree / "src").glob("*/__init__.py"))
    sources = {p: p.read_text(encoding="utf-8") for p in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    stubs = [p.read_text(encoding="utf-8") for p in package.rglob("*.pyi")]
    native = [p.read_text(encoding="utf-8") for e in ("cpp", "h") for p in package.rglob(f"*.{e}")]
    nodes = [(p, n) for p, t in trees.items() for n in ast.walk(t)]
    calls = [n for _, n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    asked = [c for c in calls if c.func.id in ("getattr", "hasattr")]  # type: ignore[attr-defined]
    docs, parameters, in_lines, named, ours = 0, 0, 0, 0, defined(trees)
    for text in sources.values():
        docs += text.count("\n")
    for doc, names in public(package, trees):
        parameters += len(names)
        in_lines += sum(bool(re.search(rf"^\s*(?:[\w*, ]+, )?\*{{0,2}}{n}\b[^:\n]*: \S", doc, re.M))
                        for n in names)  # fmt: skip
        named += sum(bool(re.search(rf"\b{n}\b", doc)) for n in names)
    lazy, typed = graph(package, types=False), graph(package, types=True)
    return {
        "lines of Python (.py, .pyi)": docs + sum(s.count("\n") for s in stubs),
        "of them code": sum(code_lines(sources[p], trees[p]) for p in sources),
        "lines of C++": sum(s.count("\n") for s in native),
        "modules": len(sources),
        "modules with one importer": len(list(one_importer(typed))),
        "`Any`": sum(isinstance(n, ast.Name) and n.id == "Any" for _, n in nodes),
        "lines with `dict[str, Any]`": sum(
            "dict[str, Any]" in line for s in sources.values() for line in s.splitlines()
        ),
        "getattr and hasattr": len(asked),
        "of them with a constant name": sum(
            len(c.args) > 1 and isinstance(c.args[1], ast.Constant) for c in asked
        ),
        "isinstance": sum(c.func.id == "isinstance" for c in calls),  # type: ignore[attr-defined]
        "private names of other modules": sum(foreign(t, ours) for t in trees.values()),
        "knots of imports": len(knots(lazy)),
        "modules in the largest": max(map(len, knots(lazy)), default=0),
        "knots, type-only imports too": len(knots(typed)),
        "modules in the largest, types too": max(map(len, knots(typed)), default=0),
        "public parameters": parameters,
        "with a line of their own": in_lines,
        "named in the docstring": named,
    }


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that are neither blank, comment nor docstring."""
    doc: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                doc |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(s.strip()) and s.strip()[0] != "#" and k not in doc for k, s in lines)


def defined(trees: dict[Path, ast.Module]) -> set[str]:
    """Every name that some module of the package defines."""
    return set().union(*map(names, trees.values()))


def names(tree: ast.Module) -> set[str]:
    """Functions, classes, variables and attributes that a module defines."""
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.attr)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own |= {t.id for t in targets if isinstance(t, ast.Name)}
    return own


def foreign(tree: ast.Module, ours: set[str]) -> int:
    """How often a module touches a private name that only another module of the package defines."""
    theirs, found = ours - names(tree), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id in OWN
            found += private(node.attr) and not mine and node.attr in theirs
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += sum(private(alias.name) and alias.name in theirs for alias in node.names)
    return found


def private(name: str) -> bool:
    """Whether a name is private, and no special method."""
    return name.startswith("_") and not name.startswith("__")


def public(package: Path, trees: dict[Path, ast.Module]) -> Iterator[tuple[str, list[str]]]:
    """Docstring and parameters of every public class, its fields and methods, and function."""
    listed = next(iter(package.glob("__init__.pyi")), None)
    wanted = set()
    if listed:
        for node in ast.walk(ast.parse(listed.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                wanted |= {(node.module or "", alias.name) for alias in node.names}
    for path, tree in trees.items():
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in tree.body:
            if (module, getattr(node, "name", "")) not in wanted:
                continue
            doc = (
                ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef) else ""
            )
            if isinstance(node, ast.FunctionDef):
                yield doc or "", arguments(node)
            elif isinstance(node, ast.ClassDef):
                fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign)
                          and isinstance(n.target, ast.Name) and n.target.id[0] != "_"
                          and "ClassVar" not in ast.unparse(n.annotation)]  # fmt: skip
                yield doc or "", fields
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name[0] != "_":
                        yield ast.get_docstring(inner) or "", arguments(inner)


def arguments(function: ast.FunctionDef) -> list[str]:
    """The names a caller may pass."""
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return [one.arg for one in every if one.arg not in OWN and one.arg[0] != "_"]


def graph(package: Path, types: bool) -> dict[str, set[str]]:
    """Who imports whom, module by module.

    Args:
        package: Folder of the package.
        types: Whether imports under TYPE_CHECKING count.
    """
    sys.path.insert(0, str(package.parent))
    try:
        built: Any = grimp.build_graph(
            package.name, exclude_type_checking_imports=not types, cache_dir=None
        )
    finally:
        sys.path.pop(0)
    return {m: built.find_modules_directly_imported_by(m) for m in built.modules}


def one_importer(imports: dict[str, set[str]]) -> Iterator[str]:
    """Modules, not packages, that one other module imports."""
    packages = {m.rpartition(".")[0] for m in imports}
    for module in sorted(set(imports) - packages):
        if sum(module in theirs for theirs in imports.values()) == 1:
            yield module


def knots(imports: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that reach each other, packages' own `__init__` left out."""
    reach: dict[str, set[str]] = {}
    for start in imports:
        seen, stack = set(), [start]
        while stack:
            for other in imports[stack.pop()]:
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        reach[start] = seen
    found: list[set[str]] = []
    for module in imports:
        if module in reach[module] and not any(module in knot for knot in found):
            found.append({m for m in imports if m in reach[module] and module in reach[m]})
    return found


# Each walk: what it makes anew, then the evaluation that is counted. `P` is the package.
WALKS = {
    "network, Linf, default attack": """
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
x = torch.rand(24, 8, generator=torch.Generator().manual_seed(1))
data = P.Dataset(x, net(x).argmax(1))
go = lambda: P.evaluate(net, data, space=P.Linf(0.05), progress=False)
""",
    "XGBoost on URL, default attack": """
from xgboost import XGBClassifier
split = P.datasets.url()
x, y = split.train.x.numpy(), split.train.y.numpy()
model = XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1).fit(x, y)
data = split.test.take(range(6))
go = lambda: P.evaluate(model, data, space=data.schema.space(eps=0.5), progress=False)
""",
    "forest under noise": """
from sklearn.ensemble import RandomForestClassifier
rng = np.random.default_rng(0)
x = rng.normal(size=(200, 4)); y = (x[:, 0] + x[:, 1] > 0).astype(int)
model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(x, y)
game = P.Nature(model, P.Normal(sd=0.2))
data = P.Dataset(x[:24], y[:24])
go = lambda: P.evaluate(game, data, progress=False)
""",
    "test-time defence, GMSA": """
torch.manual_seed(0)
first, last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)
net = torch.nn.Sequential(first, torch.nn.BatchNorm1d(16), torch.nn.ReLU(), last).eval()
x = torch.rand(32, 8, generator=torch.Generator().manual_seed(1))
data = P.Dataset(x, net(x).argmax(1))
game = P.Transductive(P.defenses.TENT(net), batch=32)
attack = P.GMSA(P.PGD(10), iterations=2)
go = lambda: P.evaluate(game, data, space=P.Linf(0.05), attack=attack, progress=False)
""",
    "command line, store and page": """
from importlib import import_module
app = import_module(P.__name__ + ".cli").app
out = tempfile.mkdtemp()
command = ["run", str(ROOT / "examples" / "grades.toml"), "--rows", "10", "--out", out + "/run"]
go = lambda: app(command, standalone_mode=False)
""",
}
COUNT = """
import contextlib, io, os, sys, tempfile, threading
from collections import Counter
from importlib import import_module
from pathlib import Path
import numpy as np, torch
ROOT = Path(sys.argv[1]); P = import_module(sys.argv[2]); source = sys.stdin.read()
home = str(Path(P.__file__).parent) + os.sep
calls, touched, inner = Counter(), set(), Counter()
def seen(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(home):
        here = frame.f_code.co_filename
        touched.add(here)
        if os.sep + "relations" + os.sep in here:
            inner["relations"] += 1
        by = frame.f_back.f_code.co_filename if frame.f_back else ""
        if by.startswith(home) and by != here:
            calls[by, here] += 1
for counted in (False, True):
    exec(source)
    if counted:
        threading.setprofile(seen); sys.setprofile(seen)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        go()
    sys.setprofile(None); threading.setprofile(None)
print(len(touched), sum(calls.values()), inner["relations"])
if os.environ.get("SHOW"):
    for (a, b), n in calls.most_common(25): print(n, a[len(home):], b[len(home):], file=sys.stderr)
"""


def walks(asked: argparse.Namespace) -> None:
    """Play every walk in both checkouts and print the counts."""
    columns: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        trees = {"now": ROOT}
        if asked.before:
            files = subprocess.run(
                ["git", "archive", asked.before], cwd=ROOT, capture_output=True, check=True
            ).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
            subprocess.run([sys.executable, "hatch_build.py"], cwd=folder, check=True)
            trees = {asked.before: Path(folder), **trees}
        for name, tree in trees.items():
            (package,) = (p.parent for p in (tree / "src").glob("*/__init__.py"))
            paths = [str(tree / "src"), *([asked.libraries or ""] if tree != ROOT else [])]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            columns[name] = {}
            for title, source in list(WALKS.items())[: 1 if asked.smoke else None]:
                done = subprocess.run(
                    [sys.executable, "-c", COUNT, str(tree), package.name],
                    input=source, env=environment, capture_output=True, text=True, check=False,
                )  # fmt: skip
                if done.returncode:
                    sys.exit(f"{name}, {title}\n{done.stderr[-2000:]}")
                sys.stderr.write(done.stderr if "SHOW" in os.environ else "")
                modules, calls, relations = map(int, done.stdout.split())
                columns[name] |= {
                    f"{title}: modules": modules,
                    f"{title}: calls from module to module": calls,
                }
                if relations:
                    columns[name][f"{title}: calls of relations/"] = relations
    show("walk", columns)


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the docstring."""


if __name__ == "__main__":
    main()
