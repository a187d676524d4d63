"""`durometer demo`: one short scene per pillar, from nothing, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import console, show_report


def demo(
    out: Annotated[Path, typer.Option(help="Where to save the reports.")] = Path("runs/demo"),
) -> None:
    """Four short scenes on real data: web addresses, traffic signs, noise, a test-time defence.

    [dim]Example:[/dim]  durometer demo --out runs/demo
    """
    from durometer.demo.tour import play as play_demo

    play_demo(out, show_report, console())
