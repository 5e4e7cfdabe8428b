"""`laptime plan`: what a race would run, without running it."""

from __future__ import annotations

from typing import Any

import click

from laptime import api
from laptime.cli.asking import make_ask, takes_an_ask
from laptime.cli.output import page_width
from laptime.cli.printing import emit


@click.command("plan", help="Show what `laptime race` with the same arguments would run, without running it.")
@takes_an_ask
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(*, as_json: bool, **given: Any) -> None:
    planned = api.plan(make_ask(given))
    emit(api.to_json(planned) if as_json else api.plan_as_text(planned, page_width()))
