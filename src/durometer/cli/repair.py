"""`durometer repair`: every file of a run checked, damaged ones set aside."""

from __future__ import annotations

from durometer.cli.screen import RunFolder, say


def repair(folder: RunFolder) -> None:
    """Check every file of a run; set damaged ones aside, so that --resume plays them again.

    [dim]Example:[/dim]  durometer repair runs/first
    """
    from durometer.run.repair import repair as mend
    from durometer.run.store import Store

    for text in (found := mend(folder)):
        say(text)
    if not found:
        say(f"nothing is wrong with '{folder}'")
    if (unfinished := Store(folder).facts.unfinished) is not None:
        finished, chunks = unfinished
        say(f"{finished} of {chunks} chunks are finished: durometer run FILE --resume goes on")
