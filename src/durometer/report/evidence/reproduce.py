"""How a run is repeated: the command, for whoever stands in the folder of the run; or the call.

    cd ../.. && durometer gate runs/loans/config.toml --out runs/loans-again

What a reader would get wrong: config.toml holds the run as it was played, options of the command
line included, and where its files are; the model and the data are not in the folder, but looked for
where they were. Their hashes say whether they are still the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from durometer.core.durable_files import path_from
from durometer.report.spec import in_text, kind

if TYPE_CHECKING:
    from durometer.report.report import Report


def reproduce_command(report: Report, files: Mapping[str, str], folder: Path) -> str:
    """The command of a run that came from a file, the call of one that was made in Python."""
    spec = report.spec
    if "config.toml" in files and spec.get("command"):
        here = path_from(folder, Path())
        words = [*str(spec["command"]).split(), f"{here}/config.toml", "--out", f"{here}-again"]
        if spec.get("shard"):
            words += ["--shard", "/".join(map(str, spec["shard"]))]
        return f"cd {shlex.quote(path_from(Path(), folder))} && {shlex.join(words)}"
    target = "MODEL" if kind(spec, "game") == "Static" else in_text(spec, "game")
    named = ("space", "noise", "goal", "attack", "budget", "seed", "batch")
    given = [f"{k}={in_text(spec, k)}" for k in named if spec.get(k) is not None]
    call = ", ".join([target, "DATA", *given])
    if spec.get("order") == "random" and spec.get("gate"):
        asked = spec["gate"]
        return f"made in Python: du.gate(du.Job({call}), {asked['criteria']}, {asked['alpha']})"
    return f"made in Python: du.evaluate({call})"
