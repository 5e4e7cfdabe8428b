"""`laptime workloads`: the built-in trainings. `laptime data`: list, make or remove the data made for them."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from laptime import api, showing
from laptime.cli.asking import FIELDS, ItemCount
from laptime.cli.output import emit_page, page_width
from laptime.cli.printing import emit, emit_json, say

WORKLOADS_HELP = """\
List the built-in trainings, or show NAME whole: layers, loss, optimizer, protocol, published results.

The table of layers has the output shape of one item, channels last, and the parameters that training changes.
"""
DATA_HELP = """List, make or remove the data that laptime makes where none is given.

Data is made once for each workload and kept in laptime's cache folder (in the folder that LAPTIME_CACHE names:
laptime/data). WHAT is a built-in workload (`laptime workloads`), NAME a set as `laptime data list` shows it. Data of
your own is given to a race by --data, and is never touched.
"""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print objects as JSON.")


@click.command("workloads", help=WORKLOADS_HELP)
@click.argument("name", required=False)
@FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects, or the named one, as JSON.")
def workloads(*, name: str | None, details: bool, as_json: bool) -> None:
    found = api.workloads if name is None else showing.workload_row(name)
    if as_json:
        emit_json(showing.to_json(found))
        return
    width = page_width()
    page = showing.workloads_as_text(width) if name is None else showing.workload_as_text(name, width)
    emit_page(page, found, details=details)


@click.group("data", help=DATA_HELP, invoke_without_command=True)
@FIELDS
@AS_JSON
@click.pass_context
def data(context: click.Context, *, details: bool, as_json: bool) -> None:
    if context.invoked_subcommand is None:
        _show_sets(details=details, as_json=as_json)


@data.command("list", help="List what was made: counts, size, whether it is whole, and where it is.")
@FIELDS
@AS_JSON
def list_sets(*, details: bool, as_json: bool) -> None:
    _show_sets(details=details, as_json=as_json)


@data.command("make", help="Make the data of WHAT, unless it is there.")
@click.argument("what")
@click.option(
    "--items",
    type=ItemCount("N|all", "is not a count above 0, nor 'all'"),
    help="How many training items: a count, or all that were published.",
)
@AS_JSON
def make(*, what: str, items: int | None, as_json: bool) -> None:
    there = {each.name for each in api.made_data() if each.state == "whole"}
    began = time.monotonic()
    made = api.make_data(what, items, say)
    seconds = time.monotonic() - began
    was_there = made.name in there
    if as_json:
        emit_json(showing.to_json({**asdict(made), "seconds": round(seconds, 3), "was_there": was_there}))
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
