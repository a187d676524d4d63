"""The command line: one file per command, joined here.

It only reads, calls `evaluate` and prints; whatever it can do, a few lines of Python can do too.
Everything heavy is imported inside the commands, so that `assay --help` answers at once.

What a reader would get wrong: a mistake of the user's ends with one red sentence and exit code 2, a
model that breaks down with exit code 1, Ctrl-C with 130; in the last two cases the rows that were
finished are saved first. Tracebacks are for `--debug`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import assay
from assay.cli.compare import compare
from assay.cli.demo import demo
from assay.cli.export import export
from assay.cli.gate import Gating, gate
from assay.cli.harden import harden
from assay.cli.list import list_
from assay.cli.merge import merge
from assay.cli.repair import repair
from assay.cli.run import run
from assay.cli.schema import schema
from assay.cli.screen import say_no, take_any_text
from assay.cli.show import show
from assay.cli.verify import verify
from assay.errors import AssayError


class _Guarded(TyperGroup):
    """The group of all commands: says errors in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        take_any_text()
        try:
            return super().invoke(ctx)
        except AssayError as error:
            if ctx.params.get("debug"):
                raise
            say_no(str(error))
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            say_no("stopped by hand")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Guarded,
    name="assay",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="How robust is this classifier under the threat it really faces?",
    epilog="First time here? Type [bold]assay demo[/bold]. Then copy a file of examples/ and "
    "[bold]assay run[/bold] it.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assay {assay.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Read the options that stand before the command; `_Guarded` looks at `debug`."""


for _command in (run, merge, repair, demo, show, compare, export, harden):
    app.command()(_command)
app.command(cls=Gating)(gate)
app.command()(verify)
app.command("list")(list_)
app.command()(schema)
