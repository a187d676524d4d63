"""The command line: one file per command, joined here.

It only reads, calls `evaluate` and prints; whatever it can do, a few lines of Python can do too.
Everything heavy is imported inside the commands, so that `durometer --help` answers at once.

What a reader would get wrong: a mistake of the user's ends with one red sentence and exit code 2, a
model that breaks down with exit code 1, Ctrl-C with 130; in the last two cases the rows that were
finished are saved first. Tracebacks are for `--debug`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import durometer
from durometer.cli.compare import compare
from durometer.cli.demo import demo
from durometer.cli.doctor import doctor
from durometer.cli.export import export
from durometer.cli.gate import Gating, gate
from durometer.cli.harden import harden
from durometer.cli.init import init
from durometer.cli.list import list_
from durometer.cli.merge import merge
from durometer.cli.properties import properties
from durometer.cli.repair import repair
from durometer.cli.run import run
from durometer.cli.schema import schema
from durometer.cli.screen import Plain, readable, say_no, take_any_text
from durometer.cli.show import show
from durometer.cli.verify import verify
from durometer.cli.view import view
from durometer.cli.vnnlib import vnnlib
from durometer.core.errors import DurometerError


class _Guarded(TyperGroup):
    """The group of all commands: says errors in a sentence."""

    def get_params(self, ctx: Any) -> list[Any]:
        return readable(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        take_any_text()
        try:
            return super().invoke(ctx)
        except DurometerError as error:
            if ctx.params.get("debug"):
                raise
            say_no(str(error))
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            say_no("stopped by hand")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Guarded,
    name="durometer",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="How robust is this classifier under the threat it really faces?",
    epilog="First time here? Type [bold]durometer demo[/bold]. With a table and a model: "
    "[bold]durometer init[/bold], then [bold]durometer run[/bold] what it wrote.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"durometer {durometer.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Read the options that stand before the command; `_Guarded` looks at `debug`."""


for _command in (init, run, merge, repair, demo, show, view, compare, export, harden):
    app.command(cls=Plain)(_command)
app.command(cls=Gating)(gate)
app.command(cls=Plain)(verify)
app.command("list", cls=Plain)(list_)
app.command(cls=Plain)(schema)
app.command(cls=Plain)(vnnlib)
app.command(cls=Gating)(properties)
app.command(cls=Plain)(doctor)
