"""Forecasts of hardware that is not here: where the question, the records, the facts and the page are joined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from laptime import api
from laptime.hardware import find_device, known_devices, known_efficiencies, match_label, read_devices
from laptime.model.ask import Ask
from laptime.model.forecasting import CheckedForecast, HardwareForecast
from laptime.model.record import Record
from laptime.pages import forecast as page
from laptime.pages.page import View
from laptime.questions import forecast_checks, forecasting
from laptime.showing import in_words

names_a_training = forecasting.names_a_training
verdict = page.say


def race_first(what: str, lane: str | None, budget_s: float, **told: Any) -> Record:
    """Race what a forecast begins with: a lane of a built-in training, and its loader alone if it reads files."""
    return api.answer("race", Ask(what, forecasting.lanes_to_race(what, lane), budget_s=budget_s), **told)


def forecast(
    record: Record,
    lane: str | None = None,
    *,
    on: Sequence[str] | None = None,
    every: bool = False,
    device_file: Path | None = None,
    rate: float | None = None,
) -> HardwareForecast:
    """Predict what the training of a record would take on devices that are not here.

    By default these are common ones; `on` names others, and `every` is all that are known. `rate` is what an hour of
    the measured machine costs.
    """
    known = known_devices() if device_file is None else read_devices(device_file)
    names = [each.short for each in known] if every else on or forecasting.COMMON
    chosen = list(dict.fromkeys(find_device(name, known) for name in names))
    return forecasting.make_forecast(record, lane, chosen, known_efficiencies(), rate)


def check(device_file: Path | None = None) -> tuple[CheckedForecast, ...]:
    """Hold predictions against what was published, and against all saved races of known devices."""
    known = known_devices() if device_file is None else read_devices(device_file)
    rows = [row for row in api.records() if row.question == "race" and row.unreadable is None]
    match = partial(match_label, devices=known)
    return forecast_checks.check_forecasts([api.load(row.id) for row in rows], match, known_efficiencies())


@in_words
def as_text(found: HardwareForecast, view: View, by: str = "time") -> str:
    """Return the page of a forecast, its rows by time or by money."""
    return page.render_forecast(found, view, by).rstrip("\n")


@in_words
def checked_as_text(found: Sequence[CheckedForecast], view: View) -> str:
    return page.render_checked(found, view).rstrip("\n")
