"""`durometer gate`: passed (exit code 0), failed (1), undecided (2), or could not run (3).

What a reader would get wrong: 2 is what every other command ends with after a mistake of the
user's. Here it would be taken for "undecided", so that mistakes, also of the command line, end
with 3 like a model that breaks down.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from durometer.cli.screen import Plain, say, say_no
from durometer.core.errors import DurometerError

BROKEN = 3


class Gating(Plain):
    """A command whose mistakes have an exit code of their own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except Exception as error:
            if getattr(error, "exit_code", None) == 2:  # a wrong option, a missing argument
                error.exit_code = BROKEN  # type: ignore[attr-defined]
            raise


def gate(
    ctx: typer.Context,
    what: Annotated[Path, typer.Argument(help="A run file (.toml), or the folder of a run.")],
    criterion: Annotated[
        list[str] | None,
        typer.Option("--criterion", "-c", help="Instead of the file's [gate], e.g. 'robust >= .8'"),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="How often a decision may be wrong; default: 0.05.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to save; default: the file's `out`, or runs/NAME.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="At most so many rows.", min=1)] = None,
    workers: Annotated[int, typer.Option(help="Worker processes on this machine.", min=1)] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was cut off.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in that folder.")] = False,
    summary: Annotated[
        Path | None, typer.Option(help="A summary in markdown, for a pull request.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="The decisions as JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(help="What fails as SARIF 2.1.0.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Decide whether a model clears its bounds.

    Exit code: 0 passed, 1 failed, 2 undecided, 3 could not run.

    Rows are played in random order, and no more of them than the decision needs.

    [dim]Example:[/dim]  durometer gate loans_run.toml -c "robust >= 0.5" --summary gate.md
    """
    from durometer.gates import writers

    asked = {"summary": summary, "junit": junit, "sarif": sarif}
    files = {kind: file for kind, file in asked.items() if file is not None}
    try:
        outcome = _decided(what, criterion, alpha, out, rows, workers, resume, force, quiet)
        for kind, file in files.items():
            writers.write(file, writers.text(kind, outcome, str(what)))
    except typer.Exit:
        raise
    except Exception as error:
        said = (
            str(error) if isinstance(error, DurometerError) else f"{type(error).__name__}: {error}"
        )
        say_no(f"gate: could not run, nothing is decided: {said}")
        for kind, file in files.items():
            with suppress(DurometerError):  # a file that cannot be written may be what broke
                writers.write(file, writers.text(kind, said, str(what)))
        if ctx.find_root().params.get("debug"):
            raise
        raise typer.Exit(BROKEN) from None
    say(str(outcome))
    if outcome.folder is not None and outcome.folder != what:
        say(f"saved in {outcome.folder}")
    raise typer.Exit(outcome.exit_code)


def _decided(
    what: Path, criterion: list[str] | None, alpha: float | None, out: Path | None,
    rows: int | None, workers: int, resume: bool, force: bool, quiet: bool,
) -> Any:  # fmt: skip
    from durometer._gate import gate as decide
    from durometer.cli.run import save
    from durometer.config.config import Gate, read
    from durometer.core.spec import Provenance
    from durometer.run.run import Run

    if what.suffix != ".toml":
        return decide(what, criterion, alpha=alpha)
    config = read(what)
    if criterion:
        config = replace(config, gate=Gate(tuple(criterion)))
    if alpha is not None and config.gate is not None:
        config = replace(config, gate=replace(config.gate, alpha=alpha))
    if rows is not None:
        config = replace(config, data=replace(config.data, rows=rows))
    folder = out or Path(config.out or Path("runs") / what.stem)
    run = Run(folder, resume, workers=workers, force=force, provenance=Provenance("durometer gate"))
    outcome = decide(config, run=run, progress=False if quiet else None)
    report = outcome.report
    if report is None:  # claims only
        return outcome
    if any(f.id == "interrupted" for f in report.flags):
        raise DurometerError("stopped by hand; --resume goes on")
    save(report, folder, config)
    return outcome
