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

if TYPE_CHECKING:
    from durometer.report.report import Report


def reproduce_command(report: Report, files: Mapping[str, str], folder: Path) -> str:
    """The command of a run that came from a file, the call of one that was made in Python."""
    spec = report.spec
    if "config.toml" in files and spec.command:
        here = path_from(folder, Path())
        words = [*spec.command.split(), f"{here}/config.toml", "--out", f"{here}-again"]
        if spec.shard:
            words += ["--shard", "/".join(map(str, spec.shard))]
        return f"cd {shlex.quote(path_from(Path(), folder))} && {shlex.join(words)}"
    target = "MODEL" if spec.game_type == "Static" else spec.text("game")
    named = ("space", "noise", "goal", "attack", "budget", "seed", "batch")
    given = [f"{k}={spec.text(k)}" for k in named if spec.text(k)]
    call = ", ".join([target, "DATA", *given])
    if spec.order == "random" and spec.gate:
        criteria, alpha = list(spec.gate.criteria), spec.gate.alpha
        return f"made in Python: du.gate(du.Job({call}), {criteria}, {alpha})"
    return f"made in Python: du.evaluate({call})"
