"""`laptime forecast`: what a training would take on hardware that is not here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from laptime import api
from laptime.api import forecasts, showing
from laptime.cli.printing import complain, emit, emit_json, say, say_nothing
from laptime.cli.progress import page_view
from laptime.cli.questions import BEHIND, ScriptCommand, conclude, options_for, takes, tell, with_progress
from laptime.model.ask import DEFAULT_WORKLOAD
from laptime.model.errors import UsageError
from laptime.model.options import ORDERS
from laptime.show.board.check import checked_records

FORECAST_HELP = """What would WHAT take, and cost, on a device that you do not have?

WHAT is a training, built in or your own in PyTorch, or a script that nobody changed, with its arguments behind --; it
is raced here first. Or it is a record: its id, `latest`, @label, a file. LANE is by default its last one, such as
torch/cpu/best.
"""
FORECAST_MORE = """\
The step's operators are known from the layers; those of your own training or script were counted in its race. Each
takes its operations or its bytes at the share of the device's peak that such operators reach, and a least time; the
shares are fitted on measured steps of 39 devices. A loader that was timed alone counts with the usual cores of a host.
Another processor is predicted from a step on this one, by what large products do on both and by the number of cores.
Ranges hold 80 % of the steps that were measured on devices that the fit had not seen. Prices are from devices.toml,
with provider and date; nothing is looked up.
"""
RACE_S = 60.0


@click.command(
    "forecast",
    cls=ScriptCommand,
    help=FORECAST_HELP,
    examples=(
        "laptime forecast cifar-cnn --on t4,a100-40gb",
        "laptime forecast latest --all --by money",
        "laptime forecast train.py --on l4 -- --epochs 3",
    ),
    page="docs/forecast.md",
    more=FORECAST_MORE,
)
@click.argument("what", default=DEFAULT_WORKLOAD)
@click.argument("lane", required=False)
@takes(*options_for("forecast"))
@click.option("--details", is_flag=True, help="Show memory, energy, prices and notes.")
@click.option("--json", "as_json", is_flag=True, help="Print the forecast as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def forecast(
    *,
    what: str,
    lane: str | None,
    on: tuple[str, ...] | None,
    every: bool,
    by: str,
    rate: float | None,
    budget: float | None,
    check: bool,
    device_file: str | None,
    board: str | None,
    details: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    if on and every:
        raise UsageError("--on names devices, and --all is all of them", "leave one of the two out")
    is_named = click.get_current_context().get_parameter_source("what") is not ParameterSource.DEFAULT
    if check and (is_named or lane or on or every or budget or board or rate is not None or by != ORDERS[0]):
        raise UsageError("--check is of all records and published results", "leave all else out, but --device-file")
    view, place = page_view(details=details), None if device_file is None else Path(device_file)
    if check:
        checked = forecasts.check(place)
        if as_json:
            emit_json(showing.to_json(checked))
        else:
            emit(forecasts.checked_as_text(checked, view), color=view.color)
        return 0
    if budget and not forecasts.names_a_training(what):
        raise UsageError("--budget is of the race before a forecast, and a record is named", "leave it out")
    command = click.get_current_context().meta.get(BEHIND, ())
    if command and not what.endswith(".py"):
        raise UsageError("words behind -- are a script's arguments", "laptime forecast train.py -- --epochs 3")
    devices, raced = forecasts.choose(on, every=every, device_file=place), None
    if forecasts.names_a_training(what):
        raced = with_progress(partial(forecasts.race_first, what, lane, budget or RACE_S, command), quiet=quiet)
    record = api.load(what) if raced is None else raced.record
    if raced is not None and record.status == "interrupted":
        tell(raced, as_json=False, details=details)
        return conclude(raced)
    if raced is not None:
        forecasts.measure_first(record, lane, devices, say_nothing if quiet else say, complain)
    others = () if board is None else checked_records(Path(board))
    found = forecasts.forecast(record, lane, devices, rate, others)
    if as_json:
        emit_json(showing.to_json(found))
    else:
        emit(forecasts.as_text(found, view, by), color=view.color)
    return 0 if raced is None else conclude(raced)
