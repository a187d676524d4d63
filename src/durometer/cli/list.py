"""`durometer list`: everything that can be named in a file."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from durometer.cli.screen import console


class Kind(StrEnum):
    """What can be listed."""

    attacks = "attacks"
    spaces = "spaces"
    noises = "noises"
    goals = "goals"
    losses = "losses"
    defenses = "defenses"
    games = "games"
    datasets = "datasets"


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
) -> None:
    """Everything that can be named in a file: what it does, and its parameters with defaults.

    [dim]Example:[/dim]  durometer list attacks
    """
    from rich.markup import escape
    from rich.table import Table

    from durometer.config.registry import names, origin, parameters, summary

    table = Table("name", "from", "what it does", "parameters", show_lines=True)
    plain = kind is Kind.losses  # a loss is named, never given parameters
    found = names(kind.value)
    if kind is Kind.noises:  # what `parts` of a noise are made of
        found = found | names("marginals")
    for name, noun in found.items():
        wanted = "" if plain else ", ".join(str(p) for p in parameters(noun).values())
        table.add_row(name, origin(noun), escape(summary(noun)), escape(wanted))
    console().print(table)
