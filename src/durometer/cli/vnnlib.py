"""`durometer vnnlib`: a VNN-LIB property of an ONNX network, answered in one word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import say

UNKNOWN = 3  # exit code: neither a counterexample nor a proof


def vnnlib(
    network: Annotated[Path, typer.Argument(help="The network: an .onnx file.")],
    property_file: Annotated[Path, typer.Argument(metavar="PROPERTY", help="A .vnnlib file.")],
    seconds: Annotated[float, typer.Option(help="CPU time, in seconds.")] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the counterexample goes; default: PROPERTY.counterexample here."),
    ] = None,
) -> None:
    """Answer a VNN-LIB property: sat (with a counterexample), unsat (proven) or unknown.

    Exit code 0: sat or unsat. 3: unknown. (2: a mistake in the command or a file.)

    [dim]Example:[/dim]  durometer vnnlib net.onnx robust.vnnlib --seconds 30
    """
    from durometer.proofs.vnnlib.decide import decide

    answer = decide(network, property_file, seconds)
    say(answer.verdict)
    if answer.verdict == "sat":
        file = out or Path(f"{property_file.stem}.counterexample")
        file.write_text(answer.counterexample(), encoding="utf-8")
        say(f"counterexample in {file}")
    elif answer.verdict == "unknown":
        say(answer.why)
        raise typer.Exit(UNKNOWN)
