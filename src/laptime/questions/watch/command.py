"""`laptime watch`: run a command as it is, and print where the time of its training went."""

from __future__ import annotations

from pathlib import Path

import click

from laptime import api
from laptime.api import showing
from laptime.cli.main import Command
from laptime.cli.output import is_terminal, may_draw
from laptime.cli.printing import MESSAGES, complain, say
from laptime.cli.progress import Display, message_width
from laptime.cli.questions import options_for, takes
from laptime.model.ask import Ask
from laptime.model.errors import LaptimeError, StoreError
from laptime.model.watched import watch_of

WATCH_HELP = """Run COMMAND unchanged, and print where the time of its training went.

Its input, output, terminal, signals and exit code are its own. The summary comes at its end, on stderr.
"""
WATCH_MORE = """\
An agent is brought into each Python process of the command by its environment (PYTHONPATH), and notes when batches
are fetched, backward passes and optimizer steps begin and end, and what Keras calls for each batch. Nothing is added
to the model, and nothing is printed. A process that is no Python, or that was started with -I or -E, cannot be seen:
the summary then has the reason, and the figures of the whole command only.
"""
NOT_SHOWN = "laptime: --live shows nothing here: it needs a terminal on which COMMAND does not print, as with > FILE"


@click.command(
    "watch",
    cls=Command,
    help=WATCH_HELP,
    examples=(
        "laptime watch python train.py --epochs 3",
        "laptime watch --live -- torchrun --nproc-per-node 2 train.py > log",
    ),
    page="docs/watch.md",
    more=WATCH_MORE,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@click.option("--json", "json_file", metavar="FILE", type=click.Path(), help="Write the record as JSON to FILE.")
@click.option("--live", is_flag=True, help="Show on the terminal how far it is, if COMMAND prints elsewhere.")
@click.option("--details", is_flag=True, help="Print all that was seen.")
@click.option("--quiet", "-q", is_flag=True, help="Print no summary; the record is saved.")
@takes(*options_for("watch"))
def watch(
    *, command: tuple[str, ...], json_file: str | None, live: bool, details: bool, quiet: bool, label: str | None,
    sensors: tuple[str, ...] | None,
) -> int:  # fmt: skip
    ask = Ask(what=command[0], command=command, label=label, sensors=sensors)
    unsaved: list[StoreError] = []
    unwritten: LaptimeError | None = None
    is_shown = live and MESSAGES.isatty() and not is_terminal()
    if live and not is_shown:
        say(NOT_SHOWN)
    with Display(quiet=not is_shown) as display:
        record = api.answer("watch", ask, show=display.show if is_shown else None, warn=unsaved.append)
    if json_file is not None:
        try:
            api.write_files(Path(json_file), {json_file: showing.as_json(record).encode()}, is_folder=False)
        except LaptimeError as error:  # the command has run: its summary and its exit code are there
            unwritten = error
    if not quiet:
        blocks = may_draw(MESSAGES.encoding)
        view = showing.View(message_width(), kept=not unsaved, blocks=blocks, details=details)
        say(showing.as_text(record, view))
    for laptime_error in (*unsaved[-1:], *filter(None, [unwritten])):
        complain(laptime_error)
    return watch_of(record).exit_code or 0
