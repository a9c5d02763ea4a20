"""The ``unilab`` command: its parts, and how errors end it.

An error of ``domain.errors`` is one line and exit code 2 for bad input, 1 for a failure; Ctrl-C is 130. Anything else
is a fault of this program and shows its traceback.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from domain.errors import ConfigurationError, DataError, UnilabError
from entrypoints.cli.display import tell
from entrypoints.cli.doctor import doctor
from entrypoints.cli.evaluate import evaluate
from entrypoints.cli.interrupt import INTERRUPTED
from entrypoints.cli.listing import runs, tasks
from entrypoints.cli.motion import motion
from entrypoints.cli.trace import trace
from entrypoints.cli.train import train

BAD_INPUT = 2
FAILURE = 1
OWN = ("adapters", "application", "domain", "entrypoints")

app = typer.Typer(name="unilab", no_args_is_help=False, add_completion=False, pretty_exceptions_enable=False)
app.command("train")(train)
app.command("eval")(evaluate)
app.command("tasks")(tasks)
app.command("runs")(runs)
app.command("doctor")(doctor)
app.add_typer(trace)
app.add_typer(motion)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        try:
            version = metadata.version("unilab")
        except metadata.PackageNotFoundError:
            version = "not installed, runs from its sources"
        typer.echo(f"unilab {version}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def unilab(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Train robot policies: manager-based environments, real physics, runs that can be repeated and resumed."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        code = app(args=list(arguments), prog_name="unilab", standalone_mode=False)
    except (ConfigurationError, DataError) as error:
        return _fail(" ".join(str(error).split()), BAD_INPUT)
    except UnilabError as error:
        # What failed may be in another process, whose traceback comes along.
        return _fail("\n".join((str(error), *getattr(error, "__notes__", ()))), FAILURE)
    except typer.BadParameter as error:
        return _fail(" ".join(error.format_message().split()), BAD_INPUT)
    except typer.TyperException as error:
        return _fail(" ".join(str(error).split()), BAD_INPUT)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OWN:
            raise
        return _fail(f"package '{error.name}' is not installed: run 'make setup', or see 'unilab doctor'", FAILURE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    tell(f"error: {message}", err=True)
    return code


def run() -> None:
    """Entry point of the distribution."""
    sys.exit(main(sys.argv[1:]))
