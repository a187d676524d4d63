"""`durometer view`: a local, read-only viewer of all runs under a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import say, say_no


def view(
    runs: Annotated[Path, typer.Argument(help="The folder of your runs.", show_default=False)],
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write a static site to this new folder instead, to host anywhere."),
    ] = None,
) -> None:
    """Look at all runs under a folder in a browser: search, rows, comparisons. Ctrl-C ends it.

    [dim]Example:[/dim]  durometer view runs --export site
    """
    if export is not None:
        from durometer.report.view.site import export as write_site

        count, left_out = write_site(runs, export)
        for why in left_out:
            say_no(why)
        say(f"{count} runs in {export / 'index.html'}")
        return
    from durometer.report.view.server import Server

    with Server(runs, port) as server:
        say(f"{runs}: {server.address}")
        say("on this machine only, read-only; Ctrl-C ends it")
        if browser:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")
