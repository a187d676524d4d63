"""`assay harden`: refit the trees of a TOML file against their exact counterexamples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.errors import AssayError


def harden(
    file: Annotated[Path, typer.Argument(help="A TOML file; its [data] is trained on.")],
    out: Annotated[Path, typer.Option(help="Where the hardened model is saved, as joblib.")] = Path(
        "hardened.joblib"
    ),
    rounds: Annotated[int, typer.Option(help="At most so many refits.", min=1)] = 15,
    max_loss: Annotated[float, typer.Option(help="Accuracy that may be lost.")] = 0.015,
    most: Annotated[
        int | None, typer.Option(help="Training rows attacked a round; default: all.", min=1)
    ] = None,
) -> None:
    """Refit a model of trees so that an attacker finds less; save it and print the path.

    The file is that of a run whose data are the rows to train on (`split = "train"`).

    [dim]Example:[/dim]  assay harden loans.toml --max-loss 0.01 --out loans.joblib
    """
    import joblib

    from assay.config.config import read
    from assay.training.hardening import harden as refit

    config = read(file)
    model, data = config.load()
    options = config.options(data)
    if options["space"] is None:
        raise AssayError(f"'{file}' has no [space]: against what is the model to be hardened?")
    hardened = refit(
        getattr(model, "source", model), data, options["space"], options["goal"],
        rounds=rounds, max_loss=max_loss, most=most, seed=config.seed,
    )  # fmt: skip
    typer.echo(str(hardened))
    joblib.dump(hardened.model, out)
    typer.echo(f"saved in {out}: round {hardened.chosen}")
