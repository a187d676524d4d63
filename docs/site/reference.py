"""The API reference by noun: every public name of `__init__.pyi` on the page of its kind."""

from __future__ import annotations

import ast
from pathlib import Path

import assay as ay

STUB = Path(ay.__file__).with_suffix(".pyi")

# Page -> (title, what it is for, prefixes of the modules whose names belong there, first one wins).
PAGES = {
    "evaluate": ("Evaluate", "What one calls: an evaluation, a sweep, a ladder, a gate, a check.",
                 ("assay._", "assay.verification", "assay.attacks.standard")),
    "data": ("Data and models", "What is evaluated: rows with labels, and who answers.",
             ("assay.data", "assay.model", "assay.datasets")),
    "spaces": ("Spaces", "What may change: balls, patches, tables, words.",
               ("assay.spaces", "assay.tables", "assay.relations")),
    "goals": ("Goals", "What counts as success.", ("assay.goals",)),
    "games": ("Games", "Who moves when: a fixed model, noise, a defence that adapts.",
              ("assay.games", "assay.noise", "assay.defenses")),
    "attacks": ("Attacks", "How hard is tried.", ("assay.attacks",)),
    "proofs": ("Proofs", "What decides a row for good.", ("assay.proofs",)),
    "training": ("Training", "Networks, robust training, hardening.",
                 ("assay.training", "assay.architectures", "assay.losses")),
    "report": ("Reports, runs and gates", "What comes out, and how it is run.", ("assay",)),
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
        full = f"assay.{name}" if module == "assay" else module
        page = next(p for p, (*_, starts) in PAGES.items() if full.startswith(tuple(starts)))
        placed[page].append(full if module == "assay" else f"{module}.{name}")
    for page, (title, purpose, _) in PAGES.items():
        members = "\n\n".join(f"::: {path}" for path in placed[page])
        (folder / f"{page}.md").write_text(
            f"# {title}\n\n{purpose}\n\n{members}\n", encoding="utf-8"
        )
    return len(names)
