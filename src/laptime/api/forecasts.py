"""Forecasts of hardware that is not here: where the question, the records, the facts and the page are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from laptime import api
from laptime.api.showing import in_words
from laptime.machine.hardware import find_device, known_devices, known_efficiencies, match_label, read_devices
from laptime.model.ask import Ask
from laptime.model.errors import StoreError
from laptime.model.hardware import CheckedForecast, HardwareForecast, KnownDevice
from laptime.model.quantities import Missing
from laptime.model.record import Record
from laptime.questions.forecast import page
from laptime.questions.forecast import run as forecast_checks
from laptime.questions.forecast import run as forecasting
from laptime.questions.forecast.lane import find_lane, find_processor
from laptime.questions.forecast.seen import recorded_steps
from laptime.show.pages.page import View

MOST_RECORDS = 50  # of saved races on cards, the newest: each is read whole
names_a_training = forecasting.names_a_training
verdict = page.say


def measure_first(
    record: Record,
    lane: str | None,
    devices: Sequence[KnownDevice],
    tell: Callable[[str], None],
    warn: Callable[[StoreError], None],
) -> None:
    """Measure what the processor of this machine can do at most, if that is needed and not known; it takes seconds."""
    used = find_lane(record, lane)
    if (
        any(device.kind == "cpu" for device in devices)
        and used.device.kind == "cpu"
        and isinstance(find_processor(record, used, api.peaks_of, devices), Missing)
    ):
        api.measure_peaks(api.devices((used.name.partition("/")[0],)), tell, warn)


def race_first(what: str, lane: str | None, budget_s: float, command: tuple[str, ...] = (), **listeners: Any) -> Record:
    """Race what a forecast begins with: a lane of a training, and its loader alone if it reads files.

    `command` are the arguments of a script.
    """
    lanes = forecasting.lanes_to_race(what, lane)
    return api.answer("race", Ask(what, lanes, budget_s=budget_s, command=command), **listeners)


def choose(
    on: Sequence[str] | None = None, *, every: bool = False, device_file: Path | None = None
) -> Sequence[KnownDevice]:
    """Return the devices that are meant: by default common ones; `on` names others, and `every` is all."""
    known = known_devices() if device_file is None else read_devices(device_file)
    names = [device.short for device in known] if every else on or forecasting.COMMON
    return tuple(dict.fromkeys(find_device(name, known) for name in names))


def forecast(
    record: Record,
    lane: str | None = None,
    devices: Sequence[KnownDevice] | None = None,
    rate: float | None = None,
    others: Sequence[Record] = (),
) -> HardwareForecast:
    """Predict what the training of a record would take on devices that are not here, by default on common ones.

    `rate` is what an hour of the measured machine costs. Cards that were measured in saved records, or in `others`, are
    predicted by these steps, too.
    """
    chosen = choose() if devices is None else devices
    of_cards = (
        row
        for row in api.records()
        if row.question == "race" and row.unreadable is None and not row.is_fake and {*row.devices} - {"cpu"}
    )
    saved = [api.load(row.id) for row in islice(of_cards, MOST_RECORDS)]
    match = partial(match_label, devices=(*chosen, *known_devices()))  # a relative need not be chosen
    apart = {kept.id: kept for kept in (*saved, *others) if kept.id != record.id and kept.distrust is None}
    steps = [step for kept in apart.values() for step in recorded_steps(kept, match)]
    return forecasting.make_forecast(
        record, lane, chosen, known_efficiencies(), rate=rate, recall=api.peaks_of, seen=steps
    )


def check(device_file: Path | None = None) -> tuple[CheckedForecast, ...]:
    """Hold predictions against what was published, and against all saved races of known devices."""
    known = known_devices() if device_file is None else read_devices(device_file)
    rows = [row for row in api.records() if row.question == "race" and row.unreadable is None]
    match = partial(match_label, devices=known)
    records = [api.load(row.id) for row in rows]
    return forecast_checks.check_forecasts(records, match, known_efficiencies(), api.peaks_of)


@in_words
def as_text(found: HardwareForecast, view: View, by: str = "time") -> str:
    """Return the page of a forecast, its rows by time or by money."""
    return page.render_forecast(found, view, by).rstrip("\n")


@in_words
def checked_as_text(found: Sequence[CheckedForecast], view: View) -> str:
    return page.render_checked(found, view).rstrip("\n")
