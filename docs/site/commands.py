"""The reference of the command line and of the keys of a run file, written from the code itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import reference
import typer

from durometer.cli.app import app
from durometer.config import config, models, sources
from durometer.config.registry import KINDS, implied, names
from durometer.games.nature import Nature
from durometer.problem.budget import Budget
from durometer.report.evidence import SCOPE

# Section of a file -> (its class, what it is)
SECTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "data": (sources.Data, ""),
    "model": (models.Model, ""),
    "model.request": (models.Request, ""),
    "budget": (Budget, ""),
    "gate": (config.Gate, ""),
    "nature": (Nature, "What `Nature` takes besides the model and the noise."),
}
# A table with a `type` -> the kind of noun that it names
TYPED = {"space": "spaces", "noise": "noises", "goal": "goals", "attack": "attacks",
         "defense": "defenses", "game": "games"}  # fmt: skip
TOP = {
    "seed": ("int", "0", "Every random number depends on it and on each row's id."),
    "batch": ("int", "", "Rows at a time. Left out: as many as are fastest."),
    "out": ("text", "", "Where the report goes, from where you stand. Left out: runs/NAME."),
    "folder": ("text", "", "Where files that are read are looked for, seen from the file."),
    "also": ("list of goals", "[]", "Further goals, attacked in the same way, in the same report."),
}  # fmt: skip


def write(folder: Path) -> int:
    """`reference/cli.md` and `reference/keys.md`; how many commands there are."""
    folder.mkdir(parents=True, exist_ok=True)
    group: Any = typer.main.get_command(app)
    (folder / "cli.md").write_text(_cli(group), encoding="utf-8")
    (folder / "keys.md").write_text(_keys(), encoding="utf-8")
    return len(group.commands)


def _cli(group: Any) -> str:
    lines = [
        "# Command line",
        "",
        "`durometer COMMAND --help` prints the same. Exit codes, unless a command says others:",
        "0 done, 1 the model broke down, 2 a mistake in the command or a file, 130 Ctrl-C.",
        "",
        "| command | |",
        "|---|---|",
    ]
    shown = {n: c for n, c in group.commands.items() if not c.hidden}
    for name, command in shown.items():
        first = _plain(command.help or "").partition("\n\n")[0]
        lines.append(f"| [`{name}`](#{name}) | {' '.join(first.split())} |")
    for name, command in shown.items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        usage = " ".join(_argument(p) for p in arguments)
        call = f"durometer {name} {usage}".strip() + (" [OPTIONS]" if options else "")
        lines += ["", f"## {name}", "", "```text", call, "```", "", _plain(command.help or ""), ""]
        if command.params:
            lines += ["| | type | default | meaning |", "|---|---|---|---|"]
        lines += [_row(p) for p in (*arguments, *options) if not getattr(p, "hidden", False)]
    return "\n".join(lines) + "\n"


def _argument(parameter: Any) -> str:
    name = parameter.name.upper()
    many = " ..." if parameter.nargs == -1 else ""
    return f"{name}{many}" if parameter.required else f"[{name}{many}]"


def _row(p: Any) -> str:
    """A parameter of a command as a row of its table."""
    flag = getattr(p, "is_flag", False)
    called = (
        ", ".join([*p.opts, *p.secondary_opts]) if p.param_type_name == "option" else p.name.upper()
    )
    default = p.default
    if callable(default) or default is None or (flag and default is False) or default == ():
        default = ""
    kind = "" if flag else _kind(p.bare_type())
    needed = (
        "*required*"
        if p.required
        else f"`{getattr(default, 'value', default)}`"
        if default != ""
        else ""
    )
    said = reference.cell(_plain(getattr(p, "help", "") or ""))
    if getattr(p, "multiple", False) and "repeatable" not in said:
        said += " Repeatable."
    return f"| `{called}` | {kind} | {needed} | {said} |"


def _kind(bare: Any) -> str:
    """A type in the words of a command line."""
    if inspect.isclass(bare) and issubclass(bare, Enum):
        return " or ".join(f"`{member.value}`" for member in bare)
    return {int: "number", float: "number", str: "text"}.get(
        bare, getattr(bare, "__name__", "").lower()
    )


def _plain(help_: str) -> str:
    """A help text without the marks of the terminal; examples as code."""
    text = re.sub(r"\[/?(?:dim|bold|italic|cyan|green|red|yellow)\]", "", inspect.cleandoc(help_))
    text = text.replace("\\[", "[").replace("\b", "")
    return re.sub(r"Example:\s+(durometer .+)", r"For example: `\1`", text)


def _keys() -> str:
    lines = [
        "# Keys of a run file",
        "",
        "Every key that a TOML file may hold. How a file is built up, with an example:",
        "[configuration files](configuration.md).",
        "",
        "## Top of the file",
        "",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for key, (kind, default, meaning) in TOP.items():
        lines.append(f"| `{key}` | {kind} | {f'`{default}`' if default else ''} | {meaning} |")
    for section, (made_by, said) in SECTIONS.items():
        lines += ["", f"## [{section}]", ""]
        doc = reference.parsed(made_by.__doc__ or "")
        lines += [said or doc.lead, "", "| key | type | default | meaning |", "|---|---|---|---|"]
        taken = inspect.signature(made_by).parameters
        for name, meaning in doc.sections.get("Args", []):
            if (
                name.startswith("_")
                or name not in taken
                or (section == "nature" and name in ("model", "noise"))
            ):
                continue
            kind, default = reference.typed(taken[name])
            lines.append(f"| `{name}` | {kind} | {default} | {reference.cell(meaning)} |")
    lines += [
        "",
        "## [evidence]",
        "",
        "All text: " + ", ".join(f"`{s}`" for s in (*SCOPE, "tags")) + ".",
    ]
    lines += ["", "## [sweep]", "", "Lists of values for any key, written with dots: "
              "[sweeps](../how-to/scale.md#sweeps)."]  # fmt: skip
    public = reference.Site().pages
    for section, kind in TYPED.items():
        lines += [
            "",
            f"## [{section}]",
            "",
            "`type` is one of these, every other key one of its parameters.",
            "",
            "| type | |",
            "|---|---|",
        ]
        for name, noun in names(kind).items():
            page = public.get(name)
            called = f"[`{name}`](../api/{page})" if page else f"`{name}`"
            lead = reference.parsed(inspect.getdoc(noun) or "").lead
            filled = implied(noun)
            told = f" ({', '.join(sorted(filled))}: filled in by the run)" if filled else ""
            lines.append(f"| {called} | {reference.cell(lead)}{told} |")
    assert set(TYPED.values()) <= set(KINDS)
    return "\n".join(lines) + "\n"
