"""`laptime show`: a saved record, as it was printed when the race ended."""

from __future__ import annotations

from functools import partial

import click

from laptime import api, pages
from laptime.cli.output import may_colour, may_draw, page_width
from laptime.cli.printing import emit

HELP = """Show a saved record. ID is a record's id or the beginning of one, a file, or `latest`.

No framework is needed to read a record.
"""


@click.command("show", help=HELP)
@click.argument("identity", metavar="ID", default="latest")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
def command(*, identity: str, as_json: bool) -> None:
    record = api.load(identity)
    page = partial(pages.as_text, record, page_width(), color=may_colour(), blocks=may_draw())
    emit(pages.as_json(record) if as_json else page())
