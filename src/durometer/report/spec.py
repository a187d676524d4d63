"""What was asked, read from a spec: who plays, for what, by which attacks. Fields, never text.

A spec holds each noun as a table (`durometer.core.serialization`): "game", "space", "goal",
"attack", "noise", and None where there is none. Version 0.1 held their `repr`; `current` reads
those as tables, so that nothing else must know of them.

What a reader would get wrong: the type of a goal says nothing of its meaning unless it is one of
ours. A goal `mypackage:UntargetedAmong` is not untargeted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from durometer.core.serialization import Table, format_spec
from durometer.report import wording

Spec = Mapping[str, Any]
NOUNS = ("game", "space", "goal", "attack", "noise", "budget")
_RENAMED = {
    "untargeted": "Untargeted",
    "targeted": "Targeted",
    "group": "Group",
    "random_target": "RandomTarget",
    "least_likely": "LeastLikely",
    "by_md": "ByMD",
    "by_prior": "ByPrior",
    "by_chance": "ByChance",
}
_FIRST = {"Linf": "eps", "L2": "eps", "L1": "eps", "L0": "eps", "Quantised": "inner"}


def kind(spec: Spec, noun: str) -> str:
    """The type of the game, the goal, ...; "" where there is none."""
    given = spec.get(noun)
    return str(given["type"]) if isinstance(given, Mapping) else ""


def untargeted(spec: Spec) -> bool:
    """Any wrong class counts; so it is where nothing is said."""
    return kind(spec, "goal") in ("Untargeted", "")


def unattacked(spec: Spec) -> bool:
    """Nobody attacks, and the spec says so."""
    return "attack" in spec and spec["attack"] is None


def model_name(spec: Spec, first: bool = False) -> str:
    """The model as its owner calls it; nobody knows "torch Sequential". `first`: in a sentence.

    >>> model_name({"model": "loans"}), model_name({"model": "a b", "model_kind": "a b"}, True)
    ('loans', 'The model')
    """
    called = str(spec.get("model") or "")
    if called and called != spec.get("model_kind"):
        return called
    return "The model" if first else "the model"


def setting(first: Spec, second: Spec) -> wording.Setting:
    """What two runs have in common; a model whose hash is unknown is not the same as another."""

    def same(*keys: str) -> bool:
        return all(first.get(k) == second.get(k) for k in keys)

    known = first.get("model_hash") not in (None, "", "unknown")
    return wording.Setting(
        same_model=known and same("model_hash", "model_kind", "game"),
        same_attack=same("attack", "budget"),
        same_question=same("space", "goal", "game", "quota"),
    )


def information(spec: Spec) -> str:
    """What the attacker of a transductive game knows."""
    game = spec.get("game")
    return str(game.get("information", "start")) if isinstance(game, Mapping) else ""


def in_text(spec: Spec, key: str) -> str:
    """A value of the spec for people."""
    given = spec.get(key)
    if given is None:
        return ""
    return format_spec(given) if isinstance(given, Mapping | list) else str(given)


def current(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec as this version writes it, from any version's.

    >>> current({"game": "Static", "goal": "targeted(target=3)", "attack": ""})["goal"]
    {'type': 'Targeted', 'target': 3}
    """
    if not isinstance(spec.get("game"), str):
        return spec
    read = {k: _of_0_1(spec[k]) for k in NOUNS if isinstance(spec.get(k), str)}
    if read["game"] and "nature" in spec:
        read["game"] = read["game"] | spec["nature"]
    threat = str(spec.get("threat", ""))
    if read.get("space") and "may change" not in threat:
        threat = f"The attacker moves in {spec['space']}. {threat}".strip()
    rest = {k: v for k, v in spec.items() if k != "nature"}
    return rest | read | {"attacks": _attacks(str(spec.get("attack", ""))), "threat": threat}


def _attacks(text: str) -> list[str]:
    """Names in a 0.1 attack's text that are attacks: its orders were the lower-case ones."""
    return list(dict.fromkeys(re.findall(r"\b([A-Z]\w*)\(", text)))


def _of_0_1(text: str) -> Table | None:
    """A `repr` of version 0.1 as a table; of one that is no Python, the type and the text."""
    if not text:
        return None
    try:
        made = _table(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        made = None
    if isinstance(made, dict):
        return made
    found: Table = {"type": text.split("(")[0], "repr": text}
    if known := re.search(r"information='(\w+)'", text):
        found["information"] = known[1]
    return found


def _table(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):  # "Static", "Nature"; else a constant such as inf
        return float(node.id) if node.id in ("inf", "nan") else {"type": node.id}
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        found: Table = {"type": _RENAMED.get(name, name)}
        if len(node.args) == 1 and name in _FIRST:
            found[_FIRST[name]] = _table(node.args[0])
        elif node.args:
            found["attacks" if name in ("Then", "Worst") else "args"] = [
                _table(a) for a in node.args
            ]
        return found | {str(k.arg): _table(k.value) for k in node.keywords}
    if isinstance(node, ast.List | ast.Tuple):
        return [_table(e) for e in node.elts]
    return ast.literal_eval(node)
