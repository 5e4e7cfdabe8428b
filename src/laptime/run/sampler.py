"""Read the sensors while a heat runs, each in its own thread, so that a sensor that hangs does not delay the others.

Readings are due at whole multiples of the period after the first, so a late one does not delay the next. Missed
readings are not made up for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from threading import Event, Thread

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened, Series, Timeline, Track
from laptime.sensors.base import Sensor, SensorClock

DEFAULT_HZ = 10.0
LAST_READING_S = 1.0  # for the last reading of a heat; a sensor that takes longer hangs
# The resolution of each unit: memory 64 KiB, energy a millijoule. So an hour of readings fits into 5 MB.
RESOLUTIONS = {
    "s": 0.01,
    "ns": 1e6,
    "bytes": 65536.0,
    "bytes/s": 65536.0,
    "%": 0.1,
    "C": 0.5,
    "MHz": 1.0,
    "mW": 100.0,
    "mJ": 1.0,
    "J": 0.001,
    "load": 0.01,
}
STEP_ELSE = 1.0
SELDOM = 0.5  # share of the readings: expensive figures are read once a second
AbsentChannels = tuple[tuple[Channel, Missing], ...]
ToldReading = tuple[int, tuple[float | None, ...]]
"""The time of a reading, and its figures."""


class Sampler:
    """Watches one heat after another. A sensor that failed or stopped answering is not read again.

    `most` limits the readings kept of each sensor. At the limit every second one is dropped, and from then on half as
    many are taken, so that they are spread evenly over a training of many hours. `of` names the device that a sensor
    watches alone.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        hz: float = DEFAULT_HZ,
        absent: tuple[tuple[str, Missing], ...] = (),
        clock: SensorClock = time.monotonic_ns,
        *,
        most: int | None = None,
        of: Mapping[Sensor, str] | None = None,
    ) -> None:
        self._sensors, self._hz, self._absent, self._clock = list(sensors), hz, dict(absent), clock
        self._most, self._of = most, of or {}
        self._watches: list[_Watch] = []
        self._pauses_ns: list[tuple[int, int]] = []
        self._paused_at_ns = 0

    def begin(self, pid: int) -> None:
        """Start reading what this process and the machine do."""
        self._pauses_ns = []
        self._watches = [_Watch(sensor, pid, 1 / self._hz, self._clock, self._most) for sensor in self._sensors]
        for watch in self._watches:
            watch.begin()

    def pause(self) -> None:
        """Read nothing while the heat is paused: another one is timed."""
        self._paused_at_ns = self._clock()
        for watch in self._watches:
            watch.may_read.clear()

    def go_on(self) -> None:
        """Read again, at once."""
        self._pauses_ns.append((self._paused_at_ns, self._clock()))
        for watch in self._watches:
            watch.may_read.set()

    def so_far(self) -> Timeline:
        """Return what was read until now, while reading goes on."""
        return self._timeline()

    def end(self) -> Timeline:
        """Stop reading, and return what was read. Wait for all sensors together for a second at most."""
        for watch in self._watches:
            watch.over.set()
            watch.may_read.set()
        deadline = time.monotonic() + LAST_READING_S
        for watch in self._watches:
            watch.finish(max(0.0, deadline - time.monotonic()))
        timeline = self._timeline()
        for watch in self._watches:
            if watch.lost is not None:
                self._sensors.remove(watch.sensor)
                self._absent[watch.sensor.name] = Missing(f"in a heat before: {watch.lost.missing}")
        self._watches = []
        return timeline

    def _timeline(self) -> Timeline:
        watched = {watch.sensor.name for watch in self._watches}
        absent = tuple((name, why) for name, why in self._absent.items() if name not in watched)
        tracks = tuple(track for watch in self._watches for track in watch.tracks())
        cards = dict.fromkeys(
            (device, name)
            for watch in self._watches
            if (device := self._of.get(watch.sensor)) is not None
            for name in watch.names()
        )
        return Timeline(tracks, absent, pauses_ns=tuple(self._pauses_ns), cards=tuple(cards))


class _Watch(Thread):
    """The thread that reads one sensor over one heat. If it hangs, it ends with laptime."""

    def __init__(self, sensor: Sensor, pid: int, period_s: float, clock: SensorClock, most: int | None) -> None:
        super().__init__(name=f"sensor {sensor.name}", daemon=True)
        self.sensor, self.over, self.may_read = sensor, Event(), Event()
        self.may_read.set()
        self._pid, self._clock, self._most = pid, clock, most
        self._period_s = max(period_s, sensor.period_s)
        self._opened: Opened | None = None
        self._told: list[ToldReading] = []  # other threads may read it, so each time stays with its reading
        self._spent_ns, self._asked = 0, 0
        self.lost: Missing | None = None

    def begin(self) -> None:
        """Start reading. If the system allows no new thread, the sensor is lost and the heat goes on."""
        try:
            self.start()
        except RuntimeError as error:
            self.lost = _why(error)

    def run(self) -> None:
        try:
            self._opened = self.sensor.open(self._pid)
        except Exception as error:  # noqa: BLE001  an instrument must never end a race
            self.lost = _why(error)
            return
        try:
            self._read_on()
        except Exception as error:  # noqa: BLE001  see above
            self.lost = _why(error)
        finally:
            self._close()

    def finish(self, patience_s: float) -> None:
        """Wait for the last reading. A sensor that has not returned by then hangs, and is lost."""
        if self.ident is not None:
            self.join(patience_s)
        if self.is_alive() and self.lost is None:
            self.lost = Missing(f"no answer for {LAST_READING_S:g} s: it hangs")

    def names(self) -> list[str]:
        """Return the names that its channels have for what they belong to."""
        if self._opened is None:
            return []
        channels = [*self._opened.channels, *(channel for channel, _ in self._opened.absent)]
        return list(dict.fromkeys(each.device for each in channels))

    def tracks(self) -> list[Track]:
        """Return what was read. Figures that come seldom have their own times."""
        told = self._told[:]
        if not told or self._opened is None:
            return [] if self.lost is None else [Track(self.sensor.name, 0, (), (), (), self.lost)]
        often, seldom = split_by_pace(len(self._opened.channels), [reading for _, reading in told])
        first = self._track(often, told, self._opened.absent)
        if not seldom:
            return [first]
        rows = [(at, reading) for at, reading in told if any(reading[place] is not None for place in seldom)]
        return [first, self._track(seldom, rows, ())]

    def _track(self, places: Sequence[int], rows: Sequence[ToldReading], absent: AbsentChannels) -> Track:
        assert self._opened is not None
        times = [at for at, _ in rows]
        read_us = self._spent_ns / 1e3 / max(self._asked, 1)
        apart = tuple((after - times[0]) // 1000 - (before - times[0]) // 1000 for before, after in pairwise(times))
        series = tuple(
            make_series(self._opened.channels[place], [reading[place] for _, reading in rows]) for place in places
        )
        return Track(self.sensor.name, times[0], apart, series, absent, self.lost, read_us)

    def _read_on(self) -> None:
        due = self._clock()
        while True:
            began = self._clock()
            reading = self.sensor.read()
            ended = self._clock()
            self._spent_ns, self._asked = self._spent_ns + ended - began, self._asked + 1
            self._note((began + ended) // 2, reading)
            # A sensor may find out only when it is read how slow it is.
            period_ns = round(1e9 * max(self._period_s, self.sensor.period_s))
            due += period_ns * max(1, math.ceil((ended - due) / period_ns))
            if self.over.wait(max(0, due - self._clock()) / 1e9):
                break
            if not self.may_read.is_set():
                self.may_read.wait()
                due = self._clock()

    def _note(self, at_ns: int, reading: tuple[float | None, ...]) -> None:
        self._told.append((at_ns, reading))
        if self._most is not None and len(self._told) > self._most:
            self._told = self._told[::2]
            self._period_s *= 2

    def _close(self) -> None:
        try:
            self.sensor.close()
        except Exception as error:  # noqa: BLE001  see above
            self.lost = self.lost or _why(error)


def split_by_pace(channels: int, readings: Sequence[tuple[float | None, ...]]) -> tuple[list[int], list[int]]:
    """Split the channels into those that most readings hold and those that few do. Empty ones go with the first."""
    often: list[int] = []
    seldom: list[int] = []
    for place in range(channels):
        told = sum(reading[place] is not None for reading in readings)
        (seldom if 0 < told < SELDOM * len(readings) else often).append(place)
    return (often, seldom) if often else (seldom, [])


def make_series(channel: Channel, values: Sequence[float | None]) -> Series:
    """Round values to the unit's resolution, and store each as the difference from the one before."""
    step = RESOLUTIONS.get(channel.unit, STEP_ELSE)
    changes: list[int | None] = []
    level = 0
    for value in values:
        if value is None or not math.isfinite(value):
            changes.append(None)
            continue
        steps = round(value / step)
        changes.append(steps - level)
        level = steps
    return Series(channel, step, tuple(changes))


def _why(error: Exception) -> Missing:
    return Missing(error.says if isinstance(error, SensorError) else f"{type(error).__name__}: {error}")
