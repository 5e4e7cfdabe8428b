"""`laptime.forecast`: what a training would take on hardware that is not here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laptime.api import forecasts, showing
from laptime.library.asking import read_arguments, with_options
from laptime.library.calls import Recorded, record_of
from laptime.library.notebook import Shown
from laptime.model.errors import UsageError
from laptime.model.hardware import DeviceForecast, HardwareForecast


@dataclass(frozen=True, slots=True, repr=False)
class ForecastResult(Shown):
    """What each device would take. `forecast` is all that was found, and what `--json` prints."""

    forecast: HardwareForecast

    @property
    def rows(self) -> tuple[DeviceForecast, ...]:
        """A row for each device, the fastest first: `device`, `step_ms`, `lap_s`, `whole_s`, `cost`, `binds`."""
        return self.forecast.rows

    @property
    def verdict(self) -> str:
        """The sentence on top of the page."""
        return forecasts.verdict(self.forecast)

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.forecast))
        return found

    def _page(self, width: int, *, details: bool) -> str:
        return forecasts.as_text(self.forecast, showing.View(width, details=details))


@with_options("forecast")
def forecast(result: Recorded = "latest", lane: str | None = None, **given: Any) -> ForecastResult:
    """Predict what the training of a race would take on devices that are not here: `on="t4,a100-40gb"`.

    `result` is a race, or what `laptime.load` finds. `lane` is by default its last one. `every` is all devices.
    `rate` is what an hour of the measured machine costs.
    """
    read = read_arguments("forecast", given)
    names, every, place = read.get("on"), "every" in read, read.get("device_file")
    if names is not None and every:
        raise UsageError("on= names devices, and every= is all of them", "Leave one of the two out.")
    devices = forecasts.choose(names, every=every, device_file=None if place is None else Path(place))
    return ForecastResult(forecasts.forecast(record_of(result), lane, devices, read.get("rate")))
