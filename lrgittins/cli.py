"""The command ``lrgittins``: a group whose commands are loaded when they are called for.

Exit code 0, or 2 with one message on stderr for bad input; results go to stdout, progress and warnings to stderr.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from . import __version__
from ._cli_common import InternalError, discard_stdout, examples, plain_streams

# Command -> (module, name of the click command in it, help line): loading `--help` loads no numerics.
COMMANDS = {
    "demo": ("_cli_demo", "demo", "Both halves on bundled real data, in under a minute."),
    "check": ("_cli_ranking", "check", "What an intake finds in a vote file, without fitting."),
    "rank": ("_cli_ranking", "rank", "Certified task-specific leaderboard from a vote file."),
    "select": ("_cli_selection", "select", "Replay a response matrix: which policy finds the best arm for the least money."),
    "roots": ("_cli_selection", "roots", "Root schedule of one arm: its Gittins index at every stage."),
    "warmup": ("_cli_warmup", "warmup", "Compile every kernel ahead of time."),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f".{module}", __package__), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("lrgittins demo", "lrgittins rank votes.csv --top-k 5", "lrgittins rank --help"),
)
@click.version_option(__version__, prog_name="lrgittins")
def cli() -> None:
    """Certified task-specific leaderboards from pairwise votes, and cost-aware choice of what to evaluate next."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code and never lets bad input end in a traceback."""
    plain_streams()
    try:
        result: Any = cli.main(args=None if argv is None else list(argv), prog_name="lrgittins", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except click.ClickException as error:
        error.show()
        return 1 if isinstance(error, InternalError) else 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("lrgittins: interrupted", err=True)
        return 130
    except BrokenPipeError:
        discard_stdout()
        return 0
