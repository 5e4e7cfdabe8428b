"""Timelines as literals: channels that show what a function of the time says, ten times a second."""

from __future__ import annotations

from collections.abc import Callable

from laptime.engine.run.instruments import make_series
from laptime.model.process import Channel, Timeline, Track
from laptime.model.quantities import Missing

Shown = Callable[[float], "float | None"]
CARD = "GPU-1f"


def channel(device: str, name: str, unit: str, kind: str = "gauge") -> Channel:
    return Channel(device, name, unit, kind)  # type: ignore[arg-type]


def timeline(
    shown: dict[Channel, Shown],
    *,
    seconds: float = 10.0,
    hz: float = 10.0,
    absent: tuple[tuple[Channel, Missing], ...] = (),
    begin_s: float = 0.0,
) -> Timeline:
    """Read the functions at even times, as one sensor would."""
    count = round(seconds * hz) + 1
    times = [begin_s + number / hz for number in range(count)]
    series = tuple(make_series(each, [value(time_s) for time_s in times]) for each, value in shown.items())
    apart = tuple(round(1e6 / hz) for _ in range(count - 1))
    return Timeline((Track("test", round(begin_s * 1e9), apart, series, absent),))
