"""`laptime resume`: a training that was ended goes on."""

from __future__ import annotations

from functools import partial

import click

from laptime import api
from laptime.cli.listing import complete_record
from laptime.cli.main import Command
from laptime.cli.questions import QUIET, RECORD_AS_JSON, SHOW_DETAILS, conclude, takes, tell, with_progress

RESUME_HELP = """Go on with a training that was ended: by Ctrl-C, a kill, or a failure.

ID is a record's id or the beginning of one. Each lane goes on from the checkpoint of its last whole lap.
"""
RESUME_MORE = """\
On a processor the curve is then the one of an unbroken training, to the last digit. Lanes that are done stay as
they are. Refused with exit code 2: a training of your own whose sources have changed since (the file and all that
it imports from its own folder), and one whose checkpoint is gone, so that finished laps would be trained again.
"""


@click.command(
    "resume",
    cls=Command,
    help=RESUME_HELP,
    examples=("laptime resume", "laptime resume r-2026-11-20"),
    more=RESUME_MORE,
)
@click.argument("identity", metavar="ID", default="latest", shell_complete=complete_record)
@click.option("--changed", is_flag=True, help="Go on although its sources changed; the record notes it.")
@click.option("--again", is_flag=True, help="Train laps again whose checkpoint is gone or damaged.")
@click.option("--trust", metavar="ID", help="Go on with this record, although it was not made here by you.")
@takes(SHOW_DETAILS, RECORD_AS_JSON, QUIET)
def resume(
    *, identity: str, changed: bool, again: bool, trust: str | None, as_json: bool, quiet: bool, details: bool
) -> int:
    answer = with_progress(partial(api.resume, identity, changed=changed, again=again, trust=trust), quiet=quiet)
    tell(answer, as_json=as_json, details=details)
    return conclude(answer)
