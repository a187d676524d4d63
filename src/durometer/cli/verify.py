"""`durometer verify`: a saved run looked at again; what came of it is the exit code.

What a reader would get wrong: `--model` replaces the model and nothing else. The data, the space
and the goal are those of the run's own config.toml, or of the file that --config names; a run that
was made in Python has none, so its data are named too (--data).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from durometer.cli.screen import RunFolder, say
from durometer.core.errors import DurometerError

# 2 is a mistake of the user's, in every command: a folder that is no run, a wrong option.
EXIT = {"verified": 0, "contradicted": 1, "consistent": 3, "unreadable": 4}
MODEL = "The model to ask: a file (its kind as by [model] path), or file.py:name."
NOTHING = (None, None, None, None)  # no model, data, space, goal: files and figures only
DATA = "The rows, where the run has no config.toml: .npz, .csv, .parquet, or file.py:name."


def verify(
    folder: RunFolder,
    model: Annotated[str | None, typer.Option(help=MODEL)] = None,
    data: Annotated[str | None, typer.Option(help=DATA)] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A run file: its model is asked unless --model names one, on its data."),
    ] = None,
    attestation: Annotated[
        Path | None,
        typer.Option(help="A file of export --format intoto, to be compared with run and files."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The public key (PEM) that must have signed it.")
    ] = None,
) -> None:
    """Check a run: every file's hash, every figure; with a model every adversarial example too.

    Exit code 0: verified, every proof re-checked by its certificate. 1: contradicted. 3:
    consistent, but some proofs were not checked, or not all of the attestation was compared. 4: the
    records cannot be read. (2: a mistake in the command.)

    [dim]Examples:[/dim]  durometer verify runs/first
              durometer verify runs/first --model model.joblib
              durometer verify runs/first --attestation runs/first/attestation.json --key key.pub
    """
    from durometer.verification.attestations import check
    from durometer.verification.verify import verify as look

    if attestation is None:
        asked = _asked(folder, model, data, config)
        own, rows, space, goal = asked or NOTHING
        made = look(folder, own, rows, space, goal, key=key)
    else:
        files = _files(model, data, config)
        asked = None
        if model is not None or config is not None:  # --data alone is compared, not asked
            attested = check(folder, attestation, key, files)
            if not attested.wrong:  # nothing is loaded from files that are not the attested ones
                asked = _asked(folder, model, data, config)
        own, rows, space, goal = asked or NOTHING
        made = look(folder, own, rows, space, goal, attestation, key, files)
    say(str(made))
    raise typer.Exit(EXIT[made.status])


def _files(model: str | None, data: str | None, config: Path | None) -> dict[str, str]:
    """SHA-256 of the files that the user names; nothing in them is loaded or run."""
    from durometer.config.config import with_files
    from durometer.config.models import Model
    from durometer.config.models import named as as_model
    from durometer.config.sources import Data
    from durometer.config.sources import named as as_data

    if config is not None:
        return dict(with_files(config, model, data).provenance.sources)
    found: dict[str, str] = {}
    if model is not None:
        named: dict[str, Any] = dict([as_model(model)])
        found |= Model(**named).sources()
    if data is not None:
        rows: dict[str, Any] = dict([as_data(data)])
        found |= Data(**rows).sources()
    return found


def _asked(
    folder: Path, model: str | None, data: str | None, config: Path | None
) -> tuple[Any, Any, Any, Any] | None:
    """The model, the data, the space and the goal to look with; None: files and figures only."""
    from durometer.config.config import of_run, with_files
    from durometer.config.models import Model
    from durometer.config.models import named as as_model
    from durometer.config.sources import Data
    from durometer.config.sources import named as as_data

    if model is None and config is None:
        if data is not None:
            raise DurometerError("--data without a model: give --model, or --config")
        return None
    file = config or folder / "config.toml"
    if config is None and not file.exists():
        if data is None:
            raise DurometerError(
                f"'{folder}' has no config.toml (it was made in Python): name its rows with --data"
            )
        tables: list[dict[str, Any]] = [dict([as_model(str(model))]), dict([as_data(data)])]
        own, rows = Model(**tables[0]), Data(**tables[1])
        own.check(Path())
        rows.check(Path())
        return own.load(), rows.load(), None, None
    asked = with_files(file, model, data) if config else of_run(folder, str(model), data)
    target, opened = asked.load()
    threat = asked.threat(opened)
    return target, opened, threat.space, asked.goal
