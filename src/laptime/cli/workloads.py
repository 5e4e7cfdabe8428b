"""`laptime workloads`: the built-in trainings."""

from __future__ import annotations

import click

from laptime import api
from laptime.cli.output import page_width
from laptime.cli.printing import emit


@click.command("workloads", help="List the built-in trainings: network, batch, protocol, published results.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def command(*, as_json: bool) -> None:
    emit(api.to_json(api.workloads) if as_json else api.workloads_as_text(page_width()))
