"""`laptime plan`: what a race would run, without running it."""

from __future__ import annotations

from typing import Any

import click

from laptime import api, pages
from laptime.cli.asking import make_asks, takes_an_ask
from laptime.cli.output import page_width
from laptime.cli.printing import emit


@click.command("plan", help="Show what `laptime race` with the same arguments would run, without running it.")
@takes_an_ask
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.pass_context
def command(context: click.Context, /, *, as_json: bool, **given: Any) -> None:
    outlines = [api.outline(ask) for ask in make_asks(context, given)]
    if as_json:
        emit(pages.to_json(outlines if len(outlines) > 1 else outlines[0]))
        return
    for number, outline in enumerate(outlines):
        emit("\n" * bool(number) + pages.plan_as_text(outline, page_width()))
