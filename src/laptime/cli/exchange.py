"""`laptime import`, `validate` and `export`: records of other machines, and records for other programs."""

from __future__ import annotations

import click

from laptime import api, showing
from laptime.cli.asking import FIELDS
from laptime.cli.completion import complete_record
from laptime.cli.help import Command
from laptime.cli.output import emit_page, page_width
from laptime.cli.printing import emit, emit_json, say
from laptime.errors import UsageError

IMPORT_HELP = """Bring records of other machines into the list, under their own ids.

FILE is a record's file, or a folder of them. All are checked before the first is copied. No record here is replaced:
a record of the same id and content is passed over, one of other content is refused.
"""
VALIDATE_HELP = """Check whether each file is a record: which one, or what is wrong, where, and what to do.

FILE is a file, a folder of records, or a record's id. The exit code is 0 if all are valid, else 1.
"""
EXPORT_HELP = """Write a record for another program.

ID is a record's id or the beginning of one, a file, or `latest`. Without -o it is written here, as ID with an ending.
A client that a target needs is not installed with laptime: the error names the command.
"""
TARGETS = ("csv", "json", "parquet", "pyperf", "tensorboard", "mlflow", "wandb")
TABLES = ("heats", "laps", "answers", "lanes", "windows", "steps")
NOT_VALID = 1


@click.command(
    "import", cls=Command, help=IMPORT_HELP, examples=("laptime import r-2026-11-20-a1b2.json", "laptime import runs/"),
    page="docs/record.md",
)  # fmt: skip
@click.argument("names", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print each file's id and what was done as JSON.")
def import_records(*, names: tuple[str, ...], details: bool, as_json: bool) -> None:
    rows = api.import_records(names)
    if as_json:
        emit_json(showing.to_json(rows))
    else:
        emit_page(showing.imports_as_text(rows, page_width()), rows, details=details)


@click.command(
    "validate", cls=Command, help=VALIDATE_HELP, examples=("laptime validate race.json", "laptime validate runs/"),
    page="docs/record.md",
)  # fmt: skip
@click.argument("names", metavar="FILE...", nargs=-1, required=True, type=click.Path(), shell_complete=complete_record)
@FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def validate(*, names: tuple[str, ...], details: bool, as_json: bool) -> int:
    rows = api.validate(names)
    if as_json:
        emit_json(showing.to_json(rows))
    else:
        emit_page(showing.checks_as_text(rows, page_width()), rows, details=details)
    return 0 if all(row.valid for row in rows) else NOT_VALID


@click.command(
    "export", cls=Command, help=EXPORT_HELP, page="docs/export.md",
    examples=("laptime export latest --to csv", "laptime export r-2026-11-20 --to mlflow -o http://localhost:5000"),
)  # fmt: skip
@click.argument("identity", metavar="ID", shell_complete=complete_record)
@click.option("--to", "target", type=click.Choice(TARGETS), required=True, help="What to write.")
@click.option("--what", type=click.Choice(TABLES), help="The table of csv, json and parquet. [default: heats or laps]")
@click.option("--output", "-o", type=click.Path(), help="The file or folder; for mlflow also a URL; - prints.")
@click.option("--json", "as_json", is_flag=True, help="Print where it was written as JSON.")
def export(*, identity: str, target: str, what: str | None, output: str | None, as_json: bool) -> None:
    row = api.exports[target]
    if what and not row.has_tables:
        raise UsageError(f"--to {target} has no tables, so --what {what} has no meaning", "Leave --what out.")
    if output == "-" and not row.is_text:
        raise UsageError(f"--to {target} cannot be printed", "Name a file or folder with -o.")
    record = api.load(identity)
    if output == "-":
        text = api.export_bytes(record, target, what).decode().rstrip("\n")
        return emit(text) if target == "csv" else emit_json(text)
    place = api.export(record, target, output, what)
    if as_json:
        return emit_json(showing.to_json({"record": record.id, "to": target, "place": place}))
    return say(f"written: {place}")
