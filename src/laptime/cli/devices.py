"""`laptime devices`: what there is to train on."""

from __future__ import annotations

import click

from laptime import api
from laptime.cli.output import page_width
from laptime.cli.printing import emit


@click.command(
    "devices",
    help="List the processor and what each installed framework sees, and why something cannot be used.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def command(*, as_json: bool) -> None:
    machine = api.devices()
    emit(api.to_json(api.device_rows(machine)) if as_json else api.devices_as_text(machine, page_width()))
