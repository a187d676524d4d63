"""`durometer harden`: refit the model of a TOML file against its own counterexamples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from durometer.cli.screen import say
from durometer.core.errors import DurometerError


def harden(
    file: Annotated[Path, typer.Argument(help="A TOML file; its [data] is trained on.")],
    out: Annotated[Path, typer.Option(help="Where the hardened model is saved, as joblib.")] = Path(
        "hardened.joblib"
    ),
    max_loss: Annotated[float, typer.Option(help="Accuracy that may be lost.")] = 0.015,
    min_proven: Annotated[
        float | None,
        typer.Option(help="Instead: the most accurate model with this share proven."),
    ] = None,
    max_vacuous: Annotated[
        float, typer.Option(help="Share of proofs that may hang on what nobody can move.")
    ] = 1.0,
    max_loss_of: Annotated[
        list[str] | None,
        typer.Option(help="Accuracy that one class may lose besides, e.g. legitimate=0.01."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability with which the losses are kept on fresh rows.")
    ] = 0.95,
    rounds: Annotated[int, typer.Option(help="At most so many refits.", min=1)] = 40,
    most: Annotated[int, typer.Option(help="Training rows attacked a round.", min=1)] = 500,
    folder: Annotated[
        Path | None, typer.Option(help="Keep every round here; a run that was cut off goes on.")
    ] = None,
) -> None:
    """Refit a model so that an attacker finds less; save it, and before and after on one page.

    The file is that of a run whose data are the rows to train on (`split = "train"`). The page
    lies beside the model, with the ending .html.

    [dim]Example:[/dim]  durometer harden loans_run.toml --max-loss 0.01 --out hardened.joblib
    """
    import joblib

    from durometer.config.config import read
    from durometer.data.parquet import Parquet
    from durometer.goals.goal import Goal
    from durometer.model.classifier import source_of
    from durometer.training.hardening import harden as refit

    config = read(file)
    model, data = config.load()
    if isinstance(data, Parquet):
        raise DurometerError(f"'{file}': training needs all rows at once; read them with path =")
    threat = config.threat(data)
    if threat.space is None:
        raise DurometerError(f"'{file}' has no [space]: against what is the model to be hardened?")
    hardened = refit(
        source_of(model), data, threat.space,
        cast(Goal, threat.goal),  # a quota is refused
        max_loss=_losses(max_loss, max_loss_of or []), min_proven=min_proven,
        max_vacuous=max_vacuous, confidence=confidence, rounds=rounds, most=most, folder=folder,
        seed=config.seed,
    )  # fmt: skip
    say(str(hardened))
    joblib.dump(hardened.model, out)
    page = hardened.save_page(out.with_suffix(".html"))
    say(f"saved in {out}: round {hardened.chosen}; before and after: {page}")


def _losses(every: float, by_class: list[str]) -> dict[str, float]:
    """`["legitimate=0.01"]` beside the loss over all rows."""
    found = {"all": every}
    for text in by_class:
        name, sign, size = text.rpartition("=")
        try:
            found[name] = float(size)
        except ValueError:
            sign = ""
        if not sign:
            raise DurometerError(f"--max-loss-of '{text}': expected CLASS=SHARE, e.g. spam=0.01")
    return found
