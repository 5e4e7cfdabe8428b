"""`laptime doctor`: is each device really usable by each framework; if not, the one cause and the exact command."""

from __future__ import annotations

from pathlib import Path

import click

from laptime import api, pages
from laptime.cli.output import may_colour, page_width
from laptime.cli.printing import emit

HELP = """Tell whether each device here can really be used by each installed framework.

What the hardware and its drivers say is held against what each framework sees. For a device that is not used, one
cause is named and the command that mends it. Nothing is trained; a small product of matrices is computed on every
device that can be used. Exit code 0: all can be used; 5: not all.
"""
EXIT_NOT_WELL = 5


@click.command("doctor", help=HELP)
@click.option("--data", type=click.Path(path_type=Path), help="A folder with training data: on what disk does it lie?")
@click.option("--framework", "frameworks", multiple=True, help="Ask this framework alone; may be given several times.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole checkup as JSON.")
def command(*, data: Path | None, frameworks: tuple[str, ...], quiet: bool, as_json: bool) -> int:
    checkup = api.doctor(data, _say_nothing if quiet else _tell, frameworks=frameworks or None)
    page = pages.to_json(checkup) if as_json else pages.checkup_as_text(checkup, page_width(), color=may_colour())
    emit(page)
    return 0 if checkup.is_well else EXIT_NOT_WELL


def _tell(words: str) -> None:
    click.echo(words, err=True)


def _say_nothing(_words: str) -> None:
    """Show no progress."""
