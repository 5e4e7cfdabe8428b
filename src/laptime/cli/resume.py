"""`laptime resume`: train on where a whole training was ended, and finish with the same report."""

from __future__ import annotations

import click

from laptime import api, pages
from laptime.cli.printing import emit
from laptime.cli.race import conclude, show, train

HELP = """Train on where a whole training was ended: by Ctrl-C, a kill, or a failure.

ID is a record's id or the beginning of one, or `latest`. Each lane goes on from the checkpoint of its last whole lap;
on a processor its curve is the one that it would have had unbroken, to the last digit. Lanes that are done stay as
they are.
"""


@click.command("resume", help=HELP)
@click.argument("identity", metavar="ID", default="latest")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def command(*, identity: str, as_json: bool, quiet: bool) -> int:
    answer = train(lambda tell, warn: api.resume(identity, tell=tell, warn=warn), quiet=quiet)
    if as_json:
        emit(pages.as_json(answer.record))
    else:
        show(answer)
    return conclude([answer])
