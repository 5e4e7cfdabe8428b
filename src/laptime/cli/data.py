"""`laptime data`: the data that was made on the spot - list it, make it, remove it."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from laptime import api, pages
from laptime.cli.output import page_width
from laptime.cli.printing import emit

HELP = """List, make or remove the data that laptime makes where none is given.

Data is made once for each workload and kept in the cache folder (LAPTIME_CACHE says another). WHAT is a built-in
workload (`laptime workloads`), NAME a set as `laptime data list` shows it. Data of your own is given to a race by
--data, and is never touched.
"""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print objects as JSON.")


class Items(click.ParamType[int]):
    """A count, or `all` for as many as were published."""

    name = "N|all"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value == "all":
            return 0
        if str(value).isdecimal() and int(str(value)) > 0:
            return int(str(value))
        return int(self.fail(f"{value!r} is not a count above 0, nor 'all'", param, ctx))


@click.group("data", help=HELP, invoke_without_command=True)
@AS_JSON
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    if context.invoked_subcommand is None:
        _show_sets(as_json=as_json)


@command.command("list", help="List what was made: counts, size, whether it is whole, and where it lies.")
@AS_JSON
def list_sets(*, as_json: bool) -> None:
    _show_sets(as_json=as_json)


@command.command("make", help="Make the data of WHAT, unless it is there.")
@click.argument("what")
@click.option("--items", type=Items(), help="How many training items: a count, or all that were published.")
@AS_JSON
def make(*, what: str, items: int | None, as_json: bool) -> None:
    there = {each.name for each in api.made_data() if each.state == "whole"}
    began = time.monotonic()
    made = api.make_data(what, items, lambda says: click.echo(says, err=True))
    seconds = time.monotonic() - began
    was_there = made.name in there
    if as_json:
        emit(pages.to_json({**asdict(made), "seconds": round(seconds, 3), "was_there": was_there}))
    else:
        emit(pages.made_as_text(made, seconds, was_there=was_there))


@command.command("remove", help="Remove the made data called NAME.")
@click.argument("name")
@AS_JSON
def remove(*, name: str, as_json: bool) -> None:
    removed = api.remove_data(name)
    emit(pages.to_json(removed) if as_json else pages.removed_as_text(removed))


def _show_sets(*, as_json: bool) -> None:
    rows = api.made_data()
    emit(pages.to_json(rows) if as_json else pages.made_data_as_text(rows, page_width()))
