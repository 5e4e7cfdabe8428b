"""`laptime list`: saved records, newest first."""

from __future__ import annotations

import click

from laptime import api, pages
from laptime.cli.output import page_width
from laptime.cli.printing import emit


@click.command("list", help="List saved records, newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def command(*, as_json: bool) -> None:
    rows = api.records()
    emit(pages.to_json(rows) if as_json else pages.records_as_text(rows, page_width()))
