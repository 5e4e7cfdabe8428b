"""`laptime devices`: the devices and their peaks, and with `--check` whether each framework can really use each one."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from laptime import api
from laptime.api import showing
from laptime.cli.main import Command
from laptime.cli.output import ALL_FIELDS, emit_page, may_colour, page_width
from laptime.cli.printing import complain, emit_json, say, say_nothing
from laptime.cli.questions import QUIET
from laptime.model.errors import ExitCode, StoreError, UsageError

DEVICES_HELP = """List what there is to train on, and what each framework sees of it.

First processor, memory and every card with what it has to do now, whether or not a framework sees it; then what each
installed framework can use, and why something cannot be used.

With --check, each device is tried: of one that is not used, the cause is named and the command that fixes it. Exit code
5: not all can be used. With --data, the disk of that folder is looked at, too.

With --measure, what each usable device can do at most is measured and kept, and races then report how near to the limit
each lane comes.
"""
DEVICES_MORE = """\
What is measured are large matrix products in each precision that a device has, and a copy within its memory, by each
framework that has its own; the best is the device's. It takes seconds on an idle machine, and means little on a busy
one.

With --json a list of objects: a row a device of a framework (with the `card` that it is), then one of kind "processor"
and one a card (kind "card"), MIG instances with their `parent`. With --check, the whole checkup.
"""
FRAMEWORK_OPTION = click.option(
    "--framework", "frameworks", multiple=True, help="Ask this framework alone; may be given several times."
)


@click.command("devices", cls=Command, help=DEVICES_HELP, more=DEVICES_MORE)
@click.option("--check", is_flag=True, help="Check that each device can really be used.")
@click.option("--data", type=click.Path(path_type=Path), help="With --check, a folder with training data.")
@click.option("--measure", is_flag=True, help="Measure what each device can do at most.")
@FRAMEWORK_OPTION
@ALL_FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@QUIET
def devices(
    *,
    check: bool,
    data: Path | None,
    measure: bool,
    frameworks: tuple[str, ...],
    details: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    if check and measure:
        raise UsageError("--check and --measure are two questions", "ask one after the other")
    if check:
        return show_checkup(data, frameworks, quiet=quiet, details=details, as_json=as_json)
    if data is not None:
        raise UsageError("--data is of a check", f"laptime devices --check --data {shlex.quote(str(data))}")
    machine = api.devices(frameworks or None)
    unsaved: list[StoreError] = []
    limits = api.kept_peaks(machine)
    if measure:
        limits = api.measure_peaks(machine, say_nothing if quiet else say, unsaved.append)
    rows = api.add_limits(showing.device_rows(machine), machine, limits)
    if as_json:
        emit_json(showing.to_json(rows))
    else:
        peaks = showing.peaks_as_text(limits, page_width())
        page = "\n".join(filter(None, (showing.devices_as_text(machine, page_width()), peaks)))
        emit_page(page, rows, details=details)
    for error in unsaved:
        complain(error)
    return ExitCode.UNFINISHED if unsaved else ExitCode.ANSWERED


def show_checkup(data: Path | None, frameworks: tuple[str, ...], *, quiet: bool, details: bool, as_json: bool) -> int:
    """Check every device, print what was found, and return the exit code."""
    checkup = api.doctor(data, say_nothing if quiet else say, frameworks=frameworks or None)
    if as_json:
        emit_json(showing.to_json(checkup))
    else:
        color = may_colour()
        page = showing.checkup_as_text(checkup, page_width(), color=color)
        emit_page(page, checkup, details=details, color=color)
    return ExitCode.ANSWERED if checkup.is_well else ExitCode.NOT_WELL
