"""`laptime list`, `show` and `remove`: all saved records, one of them as it was printed, and away with some."""

from __future__ import annotations

import click

from laptime import api, pages
from laptime.cli.completion import complete_record
from laptime.cli.help import Command
from laptime.cli.output import may_draw, page_width
from laptime.cli.printing import emit, emit_json
from laptime.cli.questions import DETAILS, emit_record

SHOW_HELP = """Show a saved record. ID is a record's id or the beginning of one, a file, or `latest`.

No framework is needed to read a record.
"""
REMOVE_HELP = """Remove saved records, with their checkpoints and traces. ID is a record's id, or the beginning of one.

A record that is still running is refused. If one of the records cannot be removed, none is.
"""


@click.command("list", help="List saved records, newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def list_records(*, as_json: bool) -> None:
    rows = api.records()
    if as_json:
        emit_json(pages.to_json(rows))
    else:
        emit(pages.records_as_text(rows, page_width()))


@click.command("show", cls=Command, help=SHOW_HELP, examples=("laptime show", "laptime show r-2026-11-20 --details"))
@click.argument("identity", metavar="ID", default="latest", shell_complete=complete_record)
@DETAILS
@click.option("--charts", is_flag=True, help="Print all that laptime report draws, with bars and sparklines.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
def show_record(*, identity: str, as_json: bool, details: bool, charts: bool) -> None:
    record = api.load(identity)
    if as_json:
        emit_json(pages.as_json(record))
    elif charts:
        emit(pages.as_charts(record, page_width(), blocks=may_draw()))
    else:
        emit_record(record, details=details)


@click.command("remove", help=REMOVE_HELP)
@click.argument("identities", metavar="ID...", nargs=-1, required=True, shell_complete=complete_record)
@click.option("--json", "as_json", is_flag=True, help="Print the removed ids as JSON.")
def remove_records(*, identities: tuple[str, ...], as_json: bool) -> None:
    removed = api.remove_records(identities)
    if as_json:
        emit_json(pages.to_json(removed))
    else:
        emit("\n".join(f"removed {each}" for each in removed))
