"""The API reference by noun: every public name of `__init__.pyi` on the page of its kind."""

from __future__ import annotations

import ast
from pathlib import Path

import durometer as du

STUB = Path(du.__file__).with_suffix(".pyi")

# Page -> (title, what it is for, prefixes of the modules whose names belong there, first one wins).
PAGES = {
    "evaluate": ("Evaluate", "What one calls: an evaluation, a sweep, a ladder, a gate, a check.",
                 ("durometer._", "durometer.verification", "durometer.standard")),
    "data": ("Data and models", "What is evaluated: rows with labels, and who answers.",
             ("durometer.data.dataset", "durometer.model", "durometer.datasets")),
    "spaces": ("Spaces", "What may change: balls, patches, tables, words.",
               ("durometer.spaces", "durometer.tables", "durometer.relations")),
    "goals": ("Goals", "What counts as success.", ("durometer.goals",)),
    "games": ("Games", "Who moves when: a fixed model, noise, a defence that adapts.",
              ("durometer.games", "durometer.noise", "durometer.defenses")),
    "attacks": ("Attacks", "How hard is tried.", ("durometer.attacks",)),
    "proofs": ("Proofs", "What decides a row for good.", ("durometer.proofs",)),
    "training": ("Training", "Networks, robust training, hardening.",
                 ("durometer.training", "durometer.architectures", "durometer.losses")),
    "report": ("Reports, runs and gates", "What comes out, and how it is run.", ("durometer",)),
}  # fmt: skip


def public() -> dict[str, str]:
    """Public name -> the module it comes from."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    nodes = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in nodes for alias in node.names}


def write(folder: Path) -> int:
    """One page a noun; how many names are on them."""
    folder.mkdir(parents=True, exist_ok=True)
    names = public()
    placed: dict[str, list[str]] = {page: [] for page in PAGES}
    for name, module in names.items():
        full = f"durometer.{name}" if module == "durometer" else module
        page = next(p for p, (*_, starts) in PAGES.items() if full.startswith(tuple(starts)))
        placed[page].append(full if module == "durometer" else f"{module}.{name}")
    for page, (title, purpose, _) in PAGES.items():
        members = "\n\n".join(f"::: {path}" for path in placed[page])
        (folder / f"{page}.md").write_text(
            f"# {title}\n\n{purpose}\n\n{members}\n", encoding="utf-8"
        )
    return len(names)
