"""Reads the sensors while a heat runs, each in a thread of its own, so that one which hangs holds up no other.

Readings are due at whole multiples of the period after the first: a late one does not make the next late. What was
missed is not made up for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from threading import Event, Thread

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened, Series, Timeline, Track
from laptime.sensors.base import Sensor

DEFAULT_HZ = 10.0
PATIENCE_S = 1.0  # for the last reading of a heat; who takes longer hangs
# What a unit is kept to. Memory to 64 KiB, energy to a millijoule: an hour of readings is to fit into 5 MB.
STEPS = {
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
SELDOM = 0.5  # of the readings: dear figures are asked once a second
Absent = tuple[tuple[Channel, Missing], ...]
Clock = Callable[[], int]
Told = tuple[int, tuple[float | None, ...]]
"""When a sensor was read, and what it told."""


class Sampler:
    """Watches one heat after another; a sensor that failed or hung is not asked again.

    With `most`, no more than so many readings are kept of one: where they are full, every second is left out, and from
    then on half as many are taken, so that they lie evenly over a training of many hours.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        hz: float = DEFAULT_HZ,
        absent: tuple[tuple[str, Missing], ...] = (),
        clock: Clock = time.monotonic_ns,
        most: int | None = None,
    ) -> None:
        self._sensors, self._hz, self._absent, self._clock = list(sensors), hz, dict(absent), clock
        self._most = most
        self._watches: list[_Watch] = []

    def begin(self, pid: int) -> None:
        """Read from now on what this process and the machine do."""
        self._watches = [_Watch(sensor, pid, 1 / self._hz, self._clock, self._most) for sensor in self._sensors]
        for watch in self._watches:
            watch.start()

    def so_far(self) -> Timeline:
        """Give what was read until now, while reading goes on."""
        return self._timeline()

    def end(self) -> Timeline:
        """Stop reading, and give what was read; no sensor is waited for longer than a second."""
        for watch in self._watches:
            watch.over.set()
        deadline = time.monotonic() + PATIENCE_S
        for watch in self._watches:
            watch.join(max(0.0, deadline - time.monotonic()))
            watch.judge_end()
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
        return Timeline(tuple(track for watch in self._watches for track in watch.tracks()), absent)


class _Watch(Thread):
    """One sensor over one heat. It dies with laptime if it hangs."""

    def __init__(self, sensor: Sensor, pid: int, period_s: float, clock: Clock, most: int | None) -> None:
        super().__init__(name=f"sensor {sensor.name}", daemon=True)
        self.sensor, self.over = sensor, Event()
        self._pid, self._clock, self._most = pid, clock, most
        self._period_s = max(period_s, sensor.period_s)
        self._opened: Opened | None = None
        self._told: list[Told] = []  # it may be looked at from another thread, so times stay with their readings
        self._spent_ns, self._asked = 0, 0
        self.lost: Missing | None = None

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

    def judge_end(self) -> None:
        """Who has not come back by now hangs."""
        if self.is_alive() and self.lost is None:
            self.lost = Missing(f"no answer for {PATIENCE_S:g} s: it hangs")

    def tracks(self) -> list[Track]:
        """Give what was read. Figures that come seldom have times of their own."""
        told = self._told[:]
        if not told or self._opened is None:
            return [] if self.lost is None else [Track(self.sensor.name, 0, (), (), (), self.lost)]
        often, seldom = split_by_pace(len(self._opened.channels), [reading for _, reading in told])
        first = self._track(often, told, self._opened.absent)
        if not seldom:
            return [first]
        rows = [(at, reading) for at, reading in told if any(reading[place] is not None for place in seldom)]
        return [first, self._track(seldom, rows, ())]

    def _track(self, places: Sequence[int], rows: Sequence[Told], absent: Absent) -> Track:
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
            # A sensor may learn how dear it is only when it is read.
            period_ns = round(1e9 * max(self._period_s, self.sensor.period_s))
            due += period_ns * max(1, math.ceil((ended - due) / period_ns))
            if self.over.wait(max(0, due - self._clock()) / 1e9):
                break

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
    """Tell the channels that most readings hold from those that few do; those that none does are with the first."""
    often: list[int] = []
    seldom: list[int] = []
    for place in range(channels):
        told = sum(reading[place] is not None for reading in readings)
        (seldom if 0 < told < SELDOM * len(readings) else often).append(place)
    return (often, seldom) if often else (seldom, [])


def make_series(channel: Channel, values: Sequence[float | None]) -> Series:
    """Round to the unit's step, and keep what each reading differs by from the one before."""
    step = STEPS.get(channel.unit, STEP_ELSE)
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
