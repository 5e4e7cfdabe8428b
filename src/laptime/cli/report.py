"""`laptime report`: records as one HTML page to look at, or as Markdown, CSV, JSON, SVG or PNG."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from laptime import api, showing
from laptime.cli.completion import complete_record
from laptime.cli.help import Command
from laptime.cli.printing import emit, say

REPORT_HELP = """Show records as one HTML page that needs no network: charts, findings, machine, settings.

ID is a record's id or the beginning of one, a file, or `latest`. The page is written next to you, as ID.html; with
-o it is written there, and `-o -` prints it. SVG and PNG are a folder with a file for each chart.
"""


@click.command(
    "report",
    cls=Command,
    help=REPORT_HELP,
    examples=("laptime report", "laptime report r-2026-11-20 -o race.html --open"),
    page="docs/report.md",
)
@click.argument("identities", metavar="[ID]...", nargs=-1, shell_complete=complete_record)
@click.option("--output", "-o", type=click.Path(), help="The file or folder to write; - prints.")
@click.option("--format", "form", type=click.Choice(showing.FORMATS), help="By default what -o ends with, or html.")
@click.option("--open", "opens", is_flag=True, help="Then show it in the browser.")
def report(*, identities: tuple[str, ...], output: str | None, form: str | None, opens: bool) -> None:
    records = [api.load(each) for each in identities or ("latest",)]
    made = showing.as_files(records, showing.format_of(form, output))
    if output == "-":
        emit(showing.only_text(made))
        return
    place = Path(output or made.name)
    api.write_files(place, made.files, is_folder=made.is_folder)
    say(f"written: {place}")
    if opens and not webbrowser.open(place.resolve().as_uri()):
        say(f"laptime: no browser was found; open {place.resolve().as_uri()}")
