"""`laptime show` and `remove`: a saved record as it was printed, and away with some."""

from __future__ import annotations

import time
import webbrowser
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import click

from laptime import api
from laptime.api import showing
from laptime.cli.listing import complete_record, complete_target
from laptime.cli.main import Command
from laptime.cli.output import ALL_FIELDS, emit_page, may_draw, page_width
from laptime.cli.printing import emit, emit_json, say
from laptime.cli.progress import Display
from laptime.cli.questions import SHOW_DETAILS, OfKind, emit_record
from laptime.model.ask import NewSet
from laptime.model.errors import ExitCode, UsageError
from laptime.model.option_kinds import ITEMS, parse_items
from laptime.model.record import Exported, WrittenReport

SHOW_HELP = """Show a saved record. ID is a record's id or the beginning of one, a file, `latest`, or `@label`.

No framework is needed to read a record.
"""
NOT_OURS = "This record bears no signature of yours: its words and figures are what its file says."
REMOVE_HELP = """Remove saved records, with their checkpoints and traces. ID is a record's id, or the beginning of one.

A record that is still running is refused. If one of the records cannot be removed, none is.
"""


@click.command("show", cls=Command, help=SHOW_HELP, examples=("laptime show", "laptime show r-2026-11-20 --details"))
@click.argument("identity", metavar="ID", default="latest", shell_complete=complete_record)
@SHOW_DETAILS
@click.option("--charts", is_flag=True, help="Print all that laptime report draws, with bars and sparklines.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
def show_record(*, identity: str, as_json: bool, details: bool, charts: bool) -> None:
    record = api.load(identity)
    if not as_json and not api.is_ours(record, identity):
        say(NOT_OURS)  # before its words, which others chose
    if as_json:
        emit_json(showing.as_json(record))
    elif charts:
        emit(showing.as_charts(record, page_width(), blocks=may_draw()))
    else:
        emit_record(record, details=details)


@click.command("remove", help=REMOVE_HELP)
@click.argument("identities", metavar="ID...", nargs=-1, required=True, shell_complete=complete_record)
@click.option("--json", "as_json", is_flag=True, help="Print the removed ids as JSON.")
def remove_records(*, identities: tuple[str, ...], as_json: bool) -> None:
    removed = api.remove_records(identities)
    if as_json:
        emit_json(showing.to_json(removed))
    else:
        emit("\n".join(f"removed {identity}" for identity in removed))


# `laptime import`, `validate` and `export`: records of other machines, and records for other programs.

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
TO_HELP = "What to write: csv, json, parquet, pyperf; with laptime-trackers tensorboard, mlflow, wandb."
TABLE_NAMES = ("heats", "laps", "answers", "lanes", "windows", "steps")


@click.command(
    "import", cls=Command, help=IMPORT_HELP, examples=("laptime import r-2026-11-20-a1b2.json", "laptime import runs/"),
    page="docs/record.md",
)  # fmt: skip
@click.argument("names", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@ALL_FIELDS
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
@ALL_FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def validate(*, names: tuple[str, ...], details: bool, as_json: bool) -> int:
    rows = api.validate(names)
    if as_json:
        emit_json(showing.to_json(rows))
    else:
        emit_page(showing.checks_as_text(rows, page_width()), rows, details=details)
    return ExitCode.ANSWERED if all(row.valid for row in rows) else ExitCode.NO


@click.command(
    "export", cls=Command, help=EXPORT_HELP, page="docs/export.md",
    examples=("laptime export latest --to csv", "laptime export r-2026-11-20 --to mlflow -o http://localhost:5000"),
)  # fmt: skip
@click.argument("identity", metavar="ID", shell_complete=complete_record)
@click.option("--to", "target", metavar="TARGET", required=True, shell_complete=complete_target, help=TO_HELP)
@click.option(
    "--what", type=click.Choice(TABLE_NAMES), help="The table of csv, json and parquet. [default: heats or laps]"
)
@click.option("--output", "-o", type=click.Path(), help="The file or folder; for mlflow also a URL; - prints.")
@click.option("--json", "as_json", is_flag=True, help="Print where it was written as JSON.")
def export(*, identity: str, target: str, what: str | None, output: str | None, as_json: bool) -> None:
    row = api.find_export(target)
    if what and not row.has_tables:
        raise UsageError(f"--to {target} has no tables, so --what {what} has no meaning", "Leave --what out.")
    if output == "-" and as_json:
        raise UsageError(f"-o - prints the {target} itself, and --json where it was written", "leave one of them out")
    if output == "-" and not row.is_text:
        raise UsageError(f"--to {target} cannot be printed", "Name a file or folder with -o.")
    record = api.load(identity)
    if output == "-":
        text = api.export_bytes(record, target, what).decode().rstrip("\n")
        return emit(text) if target == "csv" else emit_json(text)
    place = api.export(record, target, output, what)
    if as_json:
        return emit_json(showing.to_json(Exported(record.id, target, place)))
    return say(f"written: {place}")


# `laptime report`: records as one HTML page to look at, or as Markdown, CSV, JSON, SVG or PNG.

REPORT_HELP = """Show records as one HTML page that needs no network: charts, findings, machine, settings.

ID is a record's id or the beginning of one, a file, or `latest`. It is written as ID.html, or where -o
names; `-o -` prints it. SVG and PNG are a folder with a file for each chart. --card makes one picture of 1200 x 630
with the answer, to share; --badge a small one for a README.
"""


@click.command(
    "report",
    cls=Command,
    help=REPORT_HELP,
    examples=("laptime report", "laptime report r-2026-11-20 -o race.html --open", "laptime report --card -o race.png"),
    page="docs/report.md",
)
@click.argument("identities", metavar="[ID]...", nargs=-1, shell_complete=complete_record)
@click.option("--output", "-o", type=click.Path(), help="The file or folder to write; - prints.")
@click.option(
    "--format", "form", type=click.Choice(showing.REPORT_FORMATS), help="By default what -o ends with, or html."
)
@click.option("--card", is_flag=True, help="One picture with the answer, to share: SVG, or PNG.")
@click.option("--badge", is_flag=True, help="A badge with the answer, for a README: SVG, or PNG.")
@click.option("--dark", is_flag=True, help="A dark card.")
@click.option("--open", "opens", is_flag=True, help="Then show it in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print where it was written as JSON.")
def report(
    *, identities: tuple[str, ...], output: str | None, form: str | None, opens: bool, as_json: bool, **picture: bool
) -> None:
    if output == "-" and as_json:
        raise UsageError("-o - prints the report itself, and --json where it was written", "leave one of them out")
    records = [api.load(identity) for identity in identities or ("latest",)]
    made = showing.made_report(records, form, output, **picture)
    if output == "-":
        emit(showing.only_text(made))
        return
    place = Path(output or made.name)
    api.write_files(place, made.files, is_folder=made.is_folder)
    if as_json:
        emit_json(showing.to_json(WrittenReport(tuple(record.id for record in records), str(place), tuple(made.files))))
    else:
        say(f"written: {place}")
    if opens and not webbrowser.open(place.resolve().as_uri()):
        say(f"laptime: no browser was found; open {place.resolve().as_uri()}")


# `laptime workloads`: the built-in trainings. `laptime data`: list, make or remove the data made for them.

WORKLOADS_HELP = """\
List the built-in trainings, or show NAME whole: layers, loss, optimizer, protocol, published results.

The table of layers has the output shape of one item, channels last, and the parameters that training changes.
"""
DATA_HELP = """List, make or remove the data that laptime makes where none is given.

Data is made once for each workload and kept in laptime's cache folder (in the folder that LAPTIME_CACHE names:
laptime/data). WHAT is a built-in workload (`laptime workloads`), NAME a set as `laptime data list` shows it. Data of
your own is given to a race by --data, and is never touched.
"""
ITEM_COUNT = replace(ITEMS, name="N|all", of_text=partial(parse_items, refusal="is not a count above 0, nor 'all'"))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print objects as JSON.")


@click.command("workloads", help=WORKLOADS_HELP)
@click.argument("name", required=False)
@ALL_FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects, or the named one, as JSON.")
def workloads(*, name: str | None, details: bool, as_json: bool) -> None:
    names = [workload.name for workload in api.workloads]
    found = [*map(showing.workload_row, names)] if name is None else showing.workload_row(name)
    if as_json:
        emit_json(showing.to_json(found))
        return
    width = page_width()
    page = showing.workloads_as_text(width) if name is None else showing.workload_as_text(name, width)
    emit_page(page, found, details=details)


@click.group("data", help=DATA_HELP, invoke_without_command=True)
@ALL_FIELDS
@AS_JSON
@click.pass_context
def data(context: click.Context, *, details: bool, as_json: bool) -> None:
    if context.invoked_subcommand is None:
        _show_sets(details=details, as_json=as_json)


@data.command("list", help="List what was made: counts, size, whether it is whole, and where it is.")
@ALL_FIELDS
@AS_JSON
def list_sets(*, details: bool, as_json: bool) -> None:
    _show_sets(details=details, as_json=as_json)


@data.command("make", help="Make the data of WHAT, unless it is there.")
@click.argument("what")
@click.option(
    "--items",
    type=OfKind(ITEM_COUNT),
    help="How many training items: a count, or all that were published.",
)
@AS_JSON
def make(*, what: str, items: int | None, as_json: bool) -> None:
    there = {made_set.name for made_set in api.made_data() if made_set.state == "whole"}
    began = time.monotonic()
    with Display(quiet=False) as display:
        made = api.make_data(what, items, display.show)
    seconds = time.monotonic() - began
    was_there = made.name in there
    if as_json:
        emit_json(showing.to_json(NewSet(**asdict(made), seconds=round(seconds, 3), was_there=was_there)))
    else:
        emit(showing.made_as_text(made, seconds, was_there=was_there))


@data.command("remove", help="Remove the made data called NAME.")
@click.argument("name")
@AS_JSON
def remove(*, name: str, as_json: bool) -> None:
    removed = api.remove_data(name)
    if as_json:
        emit_json(showing.to_json(removed))
    else:
        emit(showing.removed_as_text(removed))


def _show_sets(*, details: bool, as_json: bool) -> None:
    rows = api.made_data()
    if as_json:
        emit_json(showing.to_json(rows))
    else:
        emit_page(showing.made_data_as_text(rows, page_width()), rows, details=details)
