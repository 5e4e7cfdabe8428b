"""A sensor that plays a script on a clock that is passed in. Its script may be a table such as this one:

period_s = 0.1                          # the least time between two readings
missing = "it is out of order"          # what a probe finds; nothing where it is left out
fail = { how = "raise", reading = 3 }   # raise, break (as a bug does), hang, none; reading 0 is the opening

[[figures]]                             # any number of these; a fake card's usual ones where there are none
device = "fake-0"
name = "power_instant_mw"
unit = "mW"
kind = "gauge"                          # or counter
at_s = [0.0, 10.0]                      # since it was opened ...
shows = [100e3, 200e3]                  # ... and what it shows then; straight between, and the last from then on
absent = ""                             # a reason, for a figure that is not there
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from threading import Event
from typing import Any, Literal

import msgspec

from laptime.model.errors import SensorError
from laptime.model.process import Channel, ChannelKind, Opened
from laptime.model.quantities import Missing

HOUR_S = 3600.0
VARIABLE = "LAPTIME_FAKE"


@dataclass(frozen=True, slots=True)
class Figure:
    """One channel, and what it shows at which time."""

    device: str
    name: str
    unit: str
    kind: ChannelKind = "gauge"
    at_s: tuple[float, ...] = (0.0,)
    shows: tuple[float, ...] = (0.0,)
    absent: str = ""

    def at(self, passed_s: float) -> float:
        after = bisect_right(self.at_s, passed_s)
        if after in {0, len(self.at_s)}:
            return self.shows[max(0, after - 1)]
        start_s, end_s = self.at_s[after - 1 : after + 1]
        start, end = self.shows[after - 1 : after + 1]
        return start + (end - start) * (passed_s - start_s) / (end_s - start_s)


@dataclass(frozen=True, slots=True)
class Failure:
    """At which reading it fails, and how; the first is 1, and 0 is the opening."""

    how: Literal["raise", "break", "hang", "none"] = "raise"
    reading: int = 1


CARD = (
    Figure("fake-0", "busy_percent", "%", shows=(90.0,)),
    Figure("fake-0", "memory_used_bytes", "bytes", shows=(2.0**30,)),
    Figure("fake-0", "temperature_c", "C", at_s=(0.0, 60.0), shows=(40.0, 70.0)),
    Figure("fake-0", "power_instant_mw", "mW", shows=(100e3,)),
    Figure("fake-0", "energy_mj", "mJ", "counter", at_s=(0.0, HOUR_S), shows=(0.0, HOUR_S * 100e3)),
)


@dataclass(frozen=True, slots=True)
class SensorScript:
    """How the fake sensor behaves: by default, as a card that takes 100 W and grows warm."""

    period_s: float = 0.0
    missing: str = ""
    fail: Failure | None = None
    figures: tuple[Figure, ...] = CARD


class FakeSensor:
    name = "fake"

    def __init__(self, script: SensorScript | None = None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._script = script or SensorScript()
        self.period_s = self._script.period_s
        self._shown = tuple(figure for figure in self._script.figures if not figure.absent)
        self._clock, self._began_ns, self._readings = clock, 0, 0

    def probe(self) -> Missing | None:
        return Missing(self._script.missing) if self._script.missing else None

    def open(self, _pid: int) -> Opened:
        self._began_ns, self._readings = self._clock(), 0
        self._fail_if_told()
        absent = (figure for figure in self._script.figures if figure.absent)
        return Opened(
            tuple(_channel(figure) for figure in self._shown),
            tuple((_channel(figure), Missing(figure.absent)) for figure in absent),
        )

    def read(self) -> tuple[float | None, ...]:
        self._readings += 1
        if self._fail_if_told():
            return (None,) * len(self._shown)
        passed_s = (self._clock() - self._began_ns) / 1e9
        return tuple(figure.at(passed_s) for figure in self._shown)

    def close(self) -> None:
        """Nothing is held."""

    def _fail_if_told(self) -> bool:
        """Fail in one of the ways in which real sensors do. Return whether this reading has no figure."""
        fail = self._script.fail
        if fail is None or fail.reading != self._readings:
            return False
        match fail.how:
            case "raise":
                raise SensorError("planted: the fake card is lost")
            case "break":
                raise RuntimeError("planted failure")
            case "hang":
                Event().wait()
        return True


def make_script(given: Mapping[str, Any]) -> SensorScript:
    """Make a script of a table's words."""
    try:
        script = msgspec.convert(given, SensorScript)
    except msgspec.ValidationError as error:
        raise SensorError(f"{VARIABLE}: [sensor] cannot be understood: {error}") from None
    _refuse_unknown(given, SensorScript)
    _refuse_unknown(given.get("fail", {}), Failure)
    for table in given.get("figures", ()):
        _refuse_unknown(table, Figure)
    for figure in script.figures:
        times, shown = figure.at_s, figure.shows
        if not times or len(times) != len(shown) or list(times) != sorted(set(times)):
            raise SensorError(
                f"{VARIABLE}: {figure.device} {figure.name} has times {list(times)} and shows {list(shown)}",
                "give a value for each time, and the times in order",
            )
    return script


def _refuse_unknown(table: Mapping[str, Any], kind: type) -> None:
    known = [field.name for field in fields(kind)]
    if unknown := sorted(set(table) - set(known)):
        raise SensorError(f"{VARIABLE}: unknown key {', '.join(unknown)} in [sensor]", f"keys: {', '.join(known)}")


def _channel(figure: Figure) -> Channel:
    return Channel(figure.device, figure.name, figure.unit, figure.kind)
