"""`assay demo`: three evaluations, from nothing, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.screen import console, show_report


def demo(
    out: Annotated[Path, typer.Option(help="Where to save the reports.")] = Path("runs/demo"),
) -> None:
    """Three short evaluations on real data: digits, traffic signs, web addresses."""
    from assay.demo.tour import play as play_demo

    play_demo(out, show_report, console())
