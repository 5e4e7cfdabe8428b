"""The command `laptime`: finds the module of a command when it is asked for, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import math
import signal
import sys
import time
from typing import Any, NoReturn

import click

from laptime.cli.printing import ReaderGone
from laptime.errors import LaptimeError

# Name, and the line that `laptime --help` shows: the modules are opened only when used, so that help is instant.
COMMANDS = {
    "race": "Which lane is faster, by how much, and did they learn the same?",
    "resume": "Train on where a whole training was ended.",
    "why": "Where does the time go, what limits it, and what does each remedy gain? By experiment.",
    "profile": "Where does a step go? Operators by time and memory, kernels, and a trace.",
    "plan": "Show what a race would run, without running it.",
    "workloads": "List the built-in trainings.",
    "data": "List, make or remove the data that is made where none is given.",
    "devices": "List what there is to train on, and why something cannot be used.",
    "doctor": "Is each device really usable by each framework? If not: the one cause, and the command.",
    "list": "List saved records, newest first.",
    "show": "Show a saved record.",
}
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
EXIT_READER_GONE = 141
DEAF_S = 2.0


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports each only when it runs."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"laptime.cli.{cmd_name}").command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"no command '{args[0]}'; commands: {', '.join(COMMANDS)}", ctx) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laptime")
def group() -> None:
    """How long does a training take on each device you have, and by what proven factor is one faster?

    `laptime race` alone races a known network on every usable device, as its authors wrote it and at its best,
    and answers within about a minute.
    """


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell lets `laptime race &` ignore it
        signal.signal(signal.SIGINT, Interrupts())
    try:
        code = _run()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more would break into Python's own way out
    sys.exit(code)


def _run() -> int:
    try:
        code = group.main(prog_name="laptime", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except LaptimeError as error:
        complain(error)
        return error.exit_code
    except ReaderGone:
        return EXIT_READER_GONE
    return code if isinstance(code, int) else 0


def complain(error: LaptimeError) -> None:
    """Say on stderr what was wrong and the way out."""
    click.echo(f"laptime: {error.says}", err=True)
    if error.hint:
        click.echo(f"  {error.hint}", err=True)


class Interrupts:
    """Hears Ctrl-C. Who presses it twice means the same: the second must not break into the ending that the first
    began, which ends the children and saves the record.
    """

    def __init__(self) -> None:
        self._heard_s = -math.inf

    def __call__(self, _number: int, _frame: object) -> None:
        now_s = time.monotonic()
        if now_s - self._heard_s > DEAF_S:
            self._heard_s = now_s
            raise KeyboardInterrupt


def _terminate(_number: int, _frame: object) -> NoReturn:
    sys.exit(EXIT_TERMINATED)


if __name__ == "__main__":
    main()
