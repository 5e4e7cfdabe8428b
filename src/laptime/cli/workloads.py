"""`laptime workloads`: the built-in trainings, or one of them whole."""

from __future__ import annotations

import click

from laptime import api, pages
from laptime.cli.output import page_width
from laptime.cli.printing import emit

HELP = """List the built-in trainings, or show NAME whole: layers, loss, optimizer, protocol, published results.

The table of layers has the output shape of one item, channels last, and the parameters that training changes.
"""


@click.command("workloads", help=HELP)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects, or the named one, as JSON.")
def command(*, name: str | None, as_json: bool) -> None:
    if name is None:
        emit(pages.to_json(api.workloads) if as_json else pages.workloads_as_text(page_width()))
    else:
        emit(pages.to_json(pages.workload_row(name)) if as_json else pages.workload_as_text(name, page_width()))
