"""`laptime devices`: what there is to train on."""

from __future__ import annotations

import click

from laptime import api
from laptime.cli.output import page_width
from laptime.cli.printing import emit

HELP = """List what there is to train on, and what each framework sees of it.

First processor, memory and every card with what it has to do now, whether or not a framework sees it; then what each
installed framework can use, and why something cannot be used.

With --json a list of objects: a row a device of a framework (with the `card` that it is), then one of kind "processor"
and one a card (kind "card"), MIG instances with their `parent`.
"""


@click.command("devices", help=HELP)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def command(*, as_json: bool) -> None:
    machine = api.devices()
    emit(api.to_json(api.device_rows(machine)) if as_json else api.devices_as_text(machine, page_width()))
