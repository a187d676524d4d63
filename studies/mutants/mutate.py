"""Mutation testing of what decides: is there a test that goes red when a line is wrong?

    make mutants                                   # a few CPU-hours: everything
    OMP_NUM_THREADS=1 python studies/mutants/mutate.py --sample 60 [--only gates] [--seed 0]
    OMP_NUM_THREADS=1 python studies/mutants/mutate.py --named    # those of NAMED: .ci/run

One node of a module's syntax tree is changed (a comparison, a sign, a constant, min for max, a
condition turned round, a call left out), in a copy of the tree, and the tests that guard the module
run until the first failure. A mutant that survives is killed by a new test or explained in
`explained.txt` by its key; it counts as equivalent then.

What a reader would get wrong: libraries are imported once, before the fork; the package itself and
the tests are imported by each child anew, or it would run without the mutation.
"""

from __future__ import annotations

import argparse
import ast
import copy
import fnmatch
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = "src/durometer"
_NETWORKS = ["proofs/test_aten.py", "proofs/test_impostors.py", "proofs/test_networks.py",
             "proofs/test_network_constructs.py"]  # fmt: skip
_TREES = ["proofs/test_bisect.py", "proofs/test_parts.py", "proofs/test_decide.py",
          "proofs/test_exact.py", "proofs/test_separable.py", "proofs/test_ties.py",
          "proofs/test_gaps.py", "proofs/test_vacuous.py", "proofs/test_hard_rows.py"]  # fmt: skip
_LINEAR = ["proofs/test_linear.py", "proofs/test_small_spaces.py", "proofs/test_codes.py"]
GUARDS: dict[str, list[str]] = {  # the first pattern that fits
    "proofs/aten/*.py": _NETWORKS,
    "proofs/bounds/*.py": _NETWORKS[1:],
    "proofs/networks.py": _NETWORKS[1:],
    "proofs/linear.py": _LINEAR,
    "proofs/search/linear_form.py": _LINEAR,
    "proofs/search/interval_max.py": _LINEAR,
    "proofs/search/milp.py": _LINEAR,
    "proofs/enumerate.py": ["proofs/test_enumerate.py", "proofs/test_small_spaces.py"],
    "proofs/text/bag.py": ["proofs/test_bag.py", "proofs/test_text_impostors.py"],
    "proofs/text/*.py": ["proofs/test_words.py", "proofs/test_text_impostors.py"],
    "proofs/trees.py": _TREES,
    "proofs/search/*.py": _TREES,
    "verification/*.py": ["verification"],
    "problem/referee.py": ["problem", "test_evaluate.py"],
    "gates/decide.py": ["gates/test_several_criteria.py", "gates/test_decide.py"],
    "relations/intervals.py": ["relations/test_intervals.py", "relations"],
    "probability/certified/bounds.py": ["probability"],
    "report/stats.py": ["report/test_crossed_bootstrap.py", "report/test_stats.py"],
}
_IMPOSTORS = "proofs/test_impostors.py"
_CONSTRUCTS = "proofs/test_network_constructs.py"
_LOST = "math.log(len(self.criteria) / alpha)"
# One wrong line each that no test saw once: (module, text, what it becomes, the test that sees it).
NAMED: list[tuple[str, str, str, str]] = [
    (
        "proofs/search/box_splitting.py",
        "np.where(whole, np.floor(middle) + 1, middle)",
        "np.where(whole, np.floor(middle) + 2, middle)",
        "proofs/test_bisect.py",
    ),  # a whole number is lost between the halves
    (
        "proofs/aten/curves.py",
        "missed = bend * (",
        "missed = 0 * (",
        "proofs/test_aten.py::test_lines_and_intervals_hold_on_every_curve_in_its_own_precision",
    ),  # of a curve between the points of its grid
    (
        "proofs/aten/program.py",
        "    return torch.where(overflows(unit, size), torch.inf, error)",
        "    return torch.where(overflows(unit, size), torch.inf, 0 * error)",
        f"{_IMPOSTORS}::test_answers_lie_in_the_bounds_of_their_point",
    ),  # no rounding
    (
        "proofs/aten/reader.py",
        "UNIT[kind] not in _HOLDS.get(was, ())",
        "UNIT[kind] > was",
        f"{_IMPOSTORS}::test_answers_lie_in_the_bounds_of_their_point",
    ),  # half precision holds all of bfloat16
    (
        "proofs/aten/reader.py",
        "    if kind in _LIMITS:  #",
        "    if kind in _LIMITS and was == 0.0:\n        return int(source)\n"
        "    if kind in _LIMITS:  #",
        f"{_CONSTRUCTS}::test_a_whole_type_that_is_too_small_wraps_around_inside_the_region",
    ),
    (
        "proofs/aten/rows.py",
        "    check_keeps_nothing(prepared(module), example.detach())\n",
        "",
        f"{_IMPOSTORS}::test_a_network_that_changes_what_it_holds_is_refused",
    ),
    (
        "problem/referee.py",
        "    doubt = logits.abs().amax(1) * referee.slack - 2 * AGREE * size",
        "    doubt = 0 * size",
        "problem/test_confirmation_doubt.py",
    ),
    (
        "problem/referee.py",
        "        self.blocked |= other.blocked\n",
        "",
        "problem/test_absorb.py",
    ),
    ("gates/decide.py", _LOST, "math.log(1 / alpha)", "gates/test_several_criteria.py"),
    (
        "gates/decide.py",
        "return min(crossed, key=",
        "return max(crossed, key=",
        "gates/test_several_criteria.py",
    ),
    (
        "report/stats.py",
        "a, b = (np.bincount(rng.integers(0, n, n), minlength=n) for n in size)",
        "a = np.bincount(rng.integers(0, size[0], size[0]), minlength=size[0])\n"
        "        b = np.ones(size[1])",
        "report/test_crossed_bootstrap.py",
    ),
]
_SWAPS = {"min": "max", "max": "min", "any": "all", "all": "any", "amin": "amax", "amax": "amin",
          "minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor",
          "clamp_min": "clamp_max", "clamp_max": "clamp_min"}  # fmt: skip
_COMPARES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
             ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
             ast.IsNot: ast.Is}  # fmt: skip
_BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
           ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed module."""

    module: str  # below src/durometer
    where: str  # class and function
    line: int
    change: str
    text: str  # of the module

    @property
    def key(self) -> str:
        return f"{self.module} :: {self.where} :: {self.change}"


def mutants(module: str) -> Iterator[Mutant]:
    """All of a module, in the order of its text."""
    tree = ast.parse((ROOT / SOURCE / module).read_text())
    for at, (node, where) in enumerate(_nodes(tree)):
        for kind in range(_kinds(node)):
            changed = copy.deepcopy(tree)
            target = _nth(changed, at)
            before = _said(target)
            after = _change(target, kind)
            if after is not None:
                yield Mutant(module, where, getattr(node, "lineno", 0), f"{before} -> {after}",
                             ast.unparse(changed))  # fmt: skip


def _nodes(tree: ast.AST, where: str = "") -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            own = f"{where}.{child.name}".strip(".")
            for statement in child.body:  # neither annotations nor decorators
                yield statement, own
                yield from _nodes(statement, own)
        elif where and not isinstance(child, ast.Raise | ast.JoinedStr | ast.AnnAssign):
            yield child, where
            yield from _nodes(child, where)


def _nth(tree: ast.AST, at: int) -> ast.AST:
    return next(node for k, (node, _) in enumerate(_nodes(tree)) if k == at)


def _kinds(node: ast.AST) -> int:
    return 1 if isinstance(
        node, ast.Compare | ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Constant | ast.If | ast.Call
        | ast.AugAssign | ast.Expr
    ) else 0  # fmt: skip


def _said(node: ast.AST) -> str:
    shown = node.test if isinstance(node, ast.If) else node
    return " ".join(ast.unparse(shown).split())[:90]


def _change(node: ast.AST, kind: int) -> str | None:  # noqa: C901 (a list of changes)
    """Change a node in its place; what it is now, None: nothing to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARES:
        node.ops[0] = _COMPARES[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        if any(isinstance(s, ast.Constant) and isinstance(s.value, str) for s in (
                node.left, node.right)):  # fmt: skip
            return None
        node.op = _BINARY[type(node.op)]()
    elif isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
        node.op = _BINARY[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op
        if not isinstance(node.op, ast.UAdd):
            return None  # `not` is covered by the condition, ~ by the comparison below it
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value = node.value + 1 if isinstance(node.value, int) else node.value * 4 or 1.0
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Call):
        name = node.func
        held = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
        if held not in _SWAPS:
            return None
        if isinstance(name, ast.Attribute):
            name.attr = _SWAPS[held]
        elif isinstance(name, ast.Name):
            name.id = _SWAPS[held]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        node.value = ast.Constant(None)
    else:
        return None
    return _said(node)


def modules() -> list[tuple[str, list[str]]]:
    found = []
    for path in sorted((ROOT / SOURCE).rglob("*.py")):
        name = str(path.relative_to(ROOT / SOURCE))
        guards = next((t for p, t in GUARDS.items() if fnmatch.fnmatch(name, p)), None)
        if guards and path.stat().st_size > 200:
            found.append((name, guards))
    return found


def copied(to: Path) -> None:
    """The tracked files, and the compiled kernels beside them."""
    wanted = ["src", "tests", "studies", "pyproject.toml", "hatch_build.py"]
    kept = subprocess.run(["git", "ls-files", "-z", *wanted], cwd=ROOT, capture_output=True,
                          check=True, text=True)  # fmt: skip
    native = [str(p.relative_to(ROOT)) for p in (ROOT / SOURCE / "kernels").glob("_native*")]
    for name in [*kept.stdout.strip("\0").split("\0"), *native]:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def tried(tree: Path, module: str, text: str, guards: list[str], seconds: float) -> str:
    """ "killed", "survived", or "timeout" (which counts as killed)."""
    path = tree / SOURCE / module
    kept = path.read_text()
    path.write_text(text)
    began = time.monotonic()
    try:
        child = os.fork()
        if child == 0:
            _run(tree, guards)
        while time.monotonic() - began < seconds:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout"
    finally:
        path.write_text(kept)


def _run(tree: Path, guards: list[str]) -> None:
    """In the child: the tests, on the copy."""
    code = 1
    try:
        import pytest

        os.setsid()
        os.chdir(tree)
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(tree / "src"), str(tree)]
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p",
                            "no:randomly", *(f"tests/{g}" for g in guards)])  # fmt: skip
    finally:
        os._exit(int(code))


def _libraries() -> None:
    for name in ("torch", "pandas", "sklearn.ensemble", "scipy.optimize", "scipy.stats", "xgboost",
                 "lightgbm", "hypothesis", "pytest", "torch.export"):  # fmt: skip
        __import__(name)
    import torch

    torch.set_num_threads(1)


def explained() -> dict[str, str]:
    lines = Path(__file__).with_name("explained.txt").read_text().splitlines()
    pairs = (line.split(" ## ", 1) for line in lines if " ## " in line)
    return {key.strip(): why.strip() for key, why in pairs}


def named() -> list[tuple[Mutant, list[str]]]:
    found = []
    for module, before, after, guard in NAMED:
        text = (ROOT / SOURCE / module).read_text()
        assert text.count(before) >= 1, f"{module} no longer has {before!r}"
        found.append((Mutant(module, "named", 0, f"{before} -> {after}",
                             text.replace(before, after, 1)), [guard]))  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, help="so many mutants, drawn; default: all")
    parser.add_argument("--named", action="store_true", help="the fixed list that CI runs")
    parser.add_argument("--only", default="", help="modules whose path has this in it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120.0, help="for the tests of one mutant")
    options = parser.parse_args()
    if options.named:
        chosen = named()
    else:
        chosen = [(m, g) for name, g in modules() if options.only in name for m in mutants(name)]
        if options.sample:
            random.Random(options.seed).shuffle(chosen)
            chosen = chosen[: options.sample]
    known, counts = explained(), Counter[tuple[str, str]]()
    _libraries()
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        sound: set[tuple[str, ...]] = set()
        for mutant, guards in chosen:
            if tuple(guards) not in sound:  # or every mutant would be "killed" by the copy itself
                own = (ROOT / SOURCE / mutant.module).read_text()
                came = tried(Path(folder), mutant.module, own, guards, 900.0)
                if came != "survived":
                    raise RuntimeError(f"the tests {guards} do not pass unchanged: {came}")
                sound.add(tuple(guards))
            if mutant.key in known:
                counts[mutant.module, "explained"] += 1
                continue
            found = tried(Path(folder), mutant.module, mutant.text, guards, options.seconds)
            counts[mutant.module, found] += 1
            print(f"{found}: {mutant.key} (line {mutant.line})", flush=True)
    kinds = ("killed", "timeout", "survived", "explained")
    print("\n| module | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for module in sorted({m for m, _ in counts}):
        print(f"| {module} | " + " | ".join(str(counts[module, k]) for k in kinds) + " |")
    total = {k: sum(n for (_, kind), n in counts.items() if kind == k) for k in kinds}
    print("| all | " + " | ".join(str(total[k]) for k in kinds) + " |")
    sys.exit(bool(options.named and total["survived"]))


if __name__ == "__main__":
    main()
