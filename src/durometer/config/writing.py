"""A configuration as a file again: what was read, options of a command line included.

What a reader would get wrong: written into the folder of a run, it stands elsewhere than the file
it was read from. Its `folder` says where the model and the data are looked for from there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from durometer.config import build
from durometer.config.config import Config, opened, text_of
from durometer.core import durable_files, toml
from durometer.core.errors import DurometerError


def to_toml(config: Config) -> str:
    """The configuration as a file that reads as the same."""
    tables = {
        "data": build.plain(config.data),
        "model": build.plain(config.model),
    }
    if config.noise is not None:
        tables["noise"] = build.table(config.noise)
        tables["nature"] = dict(config.nature)
    elif config.space is not None:
        tables["space"] = build.table(config.space)
    tables["data"] |= tables["data"].pop("options", {})
    for key in ("goal", "attack", "defense", "game"):
        if getattr(config, key) is not None:
            tables[key] = build.table(getattr(config, key))
    if config.gate is not None:
        tables["gate"] = build.plain(config.gate)
    if config.properties is not None:
        tables["properties"] = build.plain(config.properties)
    if config.evidence:
        tables["evidence"] = dict(config.evidence)
    if config.budget is not None:
        tables["budget"] = build.plain(config.budget)
    top = [toml.line(k, getattr(config, k)) for k in ("seed", "batch", "out", "folder")
           if getattr(config, k) is not None]  # fmt: skip
    if config.also:
        top.append(toml.line("also", [build.table(goal) for goal in config.also]))
    for name, table in tables.items():
        top += ["", f"[{name}]", *(toml.line(k, v) for k, v in table.items())]
    return "\n".join(top) + "\n"


def carry(file: Path, folder: Path) -> None:
    """Write the configuration of one run folder into another, as it is: nothing in it is looked up.

    What a reader would get wrong: reading it as a `Config` would run code that it names, and a
    shard may come from anybody.
    """
    tables, place = opened(text_of(file), file)
    inside = tables.get("folder", "")
    if not isinstance(inside, str):
        raise DurometerError(f"'{file}': folder = {inside!r}; expected text in quotes")
    tables["folder"] = durable_files.path_from(place.folder / inside, folder)
    top = [toml.line(k, v) for k, v in tables.items() if not isinstance(v, dict)]
    for name, table in tables.items():
        if isinstance(table, dict):
            top += ["", f"[{toml.key(name)}]", *(toml.line(k, v) for k, v in table.items())]
    durable_files.write(folder / "config.toml", "\n".join(top) + "\n")


def keep(config: Config, folder: Path) -> None:
    """Write the configuration into the folder of its run, where it finds its files too."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = replace(config, folder=durable_files.path_from(config.place.folder, folder))
        durable_files.write(folder / "config.toml", to_toml(written))
    except OSError as error:
        raise DurometerError(f"cannot write to '{folder}': {error}") from None
