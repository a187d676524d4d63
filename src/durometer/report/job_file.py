"""How a run that was made in Python is repeated: the script it was made by, and its job as a file.

The job is everything that was asked, as a run file, but for the model and the data, which Python
has made: whoever repeats it names them. Their hashes stand beside, so that a run on something else
is seen.

What a reader would get wrong: a script counts only where Python was given one. In a notebook, under
a test runner or in an installed program there is none, and none is made up.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from durometer.core import toml
from durometer.core.durable_files import path_from
from durometer.core.errors import DurometerError
from durometer.core.spec import Spec

NAME = "job.toml"


def script_command(folder: Path) -> str:
    """The command that runs the script of this process, from a folder; "" where there is none."""
    found = getattr(sys.modules.get("__main__"), "__file__", None)  # a module need not have one
    if not isinstance(found, str) or not found.endswith(".py"):
        return ""
    script = Path(found).resolve()
    installed = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve() / "lib"}
    if not script.is_file() or any(script.is_relative_to(place) for place in installed):
        return ""
    here, name = path_from(Path(), folder), path_from(script, Path())
    return f"cd {shlex.quote(here)} && python {shlex.quote(name)}"


def call_in_python(spec: Spec) -> str:
    """The call that makes the run, with MODEL and DATA in their places."""
    target = "MODEL" if spec.game_type == "Static" else spec.text("game")
    named = ("space", "noise", "goal", "attack", "budget", "seed", "batch")
    given = [f"{k}={spec.text(k)}" for k in named if spec.text(k)]
    call = ", ".join([target, "DATA", *given])
    if spec.order == "random" and spec.gate:
        criteria, alpha = list(spec.gate.criteria), spec.gate.alpha
        return f"du.gate(du.Job({call}), {criteria}, {alpha})"
    return f"du.evaluate({call})"


def job_toml(spec: Spec) -> str:
    """What was asked as a run file; "" where a part of it cannot be written to one."""
    space = {k: v for k, v in (spec.space or {}).items() if k != "schema" and v is not None}
    needs_schema = spec.space is not None and "schema" in spec.space
    tables: dict[str, object] = {
        "space": space or None, "noise": spec.noise, "goal": spec.goal, "attack": spec.attack,
        "budget": spec.budget, "evidence": dict(spec.evidence) or None,
    }  # fmt: skip
    if spec.game_type == "Nature":
        tables["nature"] = {k: v for k, v in spec.game.items() if k != "type" and v is not None}
    elif spec.game_type != "Static":
        return ""  # a defender is code
    lines = [
        "# What this run asked, but for the model and the data, which were made in Python:",
        "# name them below, then run  durometer run job.toml",
        f"# model: {_comment(spec.model)}, hash {_comment(spec.model_hash)}",
        f"# data: {_comment(spec.data)}, {spec.rows} rows, hash {_comment(spec.data_hash)}",
        toml.line("seed", spec.seed),
        toml.line("batch", spec.batch),
        "",
        "[data]",
        'python = "FILE.py:DATA"  # a du.Dataset in that file, or a function that makes one',
        *(['schema = "SCHEMA.toml"'] * needs_schema),
        "",
        "[model]",
        'python = "FILE.py:MODEL"  # the model, or a function that makes it',
    ]
    try:
        for name, table in tables.items():
            if isinstance(table, dict):
                lines += ["", f"[{name}]"]
                lines += [toml.line(k, v) for k, v in _given(table).items()]
    except DurometerError:
        return ""
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _given(value: object) -> dict[str, object]:
    """A table without what is None: TOML has no such value, and it is the default."""
    assert isinstance(value, dict)
    return {str(k): _plain(v) for k, v in value.items() if v is not None}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return _given(value)
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
