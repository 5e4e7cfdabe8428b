"""`laptime devices`: what there is to train on, and what it can do at most."""

from __future__ import annotations

import click

from laptime import api, pages
from laptime.cli.main import complain
from laptime.cli.output import page_width
from laptime.cli.printing import emit
from laptime.errors import StoreError

EXIT_UNSAVED = 3
HELP = """List what there is to train on, and what each framework sees of it.

First processor, memory and every card with what it has to do now, whether or not a framework sees it; then what each
installed framework can use, and why something cannot be used.

With --measure, what each usable device can do at most is measured and kept: large matrix products in each precision
that it has, and a copy within its memory, by each framework that has its own; the best is the device's. It takes
seconds on an idle machine, and tells little on a busy one. Races then say how near to the limit each lane comes.

With --json a list of objects: a row a device of a framework (with the `card` that it is), then one of kind "processor"
and one a card (kind "card"), MIG instances with their `parent`.
"""


@click.command("devices", help=HELP)
@click.option("--measure", is_flag=True, help="Measure what each device can do at most.")
@click.option("--framework", "frameworks", multiple=True, help="Ask this framework alone; may be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def command(*, measure: bool, frameworks: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    machine = api.devices(frameworks or None)
    unsaved: list[StoreError] = []
    limits = api.kept_peaks(machine)
    if measure:
        limits = api.measure_peaks(machine, _say_nothing if quiet else _tell, unsaved.append)
    if as_json:
        emit(pages.to_json(api.add_limits(pages.device_rows(machine), machine, limits)))
    else:
        told = pages.peaks_as_text(limits, page_width())
        emit("\n".join(filter(None, (pages.devices_as_text(machine, page_width()), told))))
    for error in unsaved:
        complain(error)
    return EXIT_UNSAVED if unsaved else 0


def _tell(words: str) -> None:
    click.echo(words, err=True)


def _say_nothing(_words: str) -> None:
    """Show no progress."""
