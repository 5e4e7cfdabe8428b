"""`laptime import`, `validate` and `export`: records of other machines, and records for other programs."""

from __future__ import annotations

import click

from laptime import api, pages
from laptime.cli.completion import complete_record
from laptime.cli.help import Command
from laptime.cli.output import page_width
from laptime.cli.printing import emit, emit_json

IMPORT_HELP = """Bring records of other machines into the list, under their own ids.

FILE is a record's file, or a folder of them. All are checked before the first is copied. No record here is replaced:
a record of the same id and content is passed over, one of other content is refused.
"""
VALIDATE_HELP = """Check whether each file is a record: which one, or what is wrong, where, and what to do.

FILE is a file, a folder of records, or a record's id. The exit code is 0 if all are valid, else 1.
"""
NOT_VALID = 1


@click.command(
    "import", cls=Command, help=IMPORT_HELP, examples=("laptime import r-2026-11-20-a1b2.json", "laptime import runs/"),
    page="docs/record.md",
)  # fmt: skip
@click.argument("names", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print each file's id and what was done as JSON.")
def import_records(*, names: tuple[str, ...], as_json: bool) -> None:
    rows = api.import_records(names)
    if as_json:
        emit_json(pages.to_json(rows))
    else:
        emit(pages.imports_as_text(rows, page_width()))


@click.command(
    "validate", cls=Command, help=VALIDATE_HELP, examples=("laptime validate race.json", "laptime validate runs/"),
    page="docs/record.md",
)  # fmt: skip
@click.argument("names", metavar="FILE...", nargs=-1, required=True, type=click.Path(), shell_complete=complete_record)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def validate(*, names: tuple[str, ...], as_json: bool) -> int:
    rows = api.validate(names)
    if as_json:
        emit_json(pages.to_json(rows))
    else:
        emit(pages.checks_as_text(rows, page_width()))
    return 0 if all(row.valid for row in rows) else NOT_VALID
