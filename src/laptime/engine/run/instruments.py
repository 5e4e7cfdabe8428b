"""Read the sensors while a heat runs, and measure the noise of each window when it closes: what other processes did on
our cores, and halts of the heat.

The parent takes the readings: it is awake for the window's message anyway, and the child spends no time on them.

A stop by a signal and a computer that slept are seen directly. Any other halt (a frozen container, a paused virtual
machine, a debugger) is found by its trace: one step far longer than all others, during which none of the heat's
processes ran and none of our cores waited for a disk. A training that waits for a slow loader or a network does so
again and again. So if it happens twice in a heat, it belongs to the training and is not flagged.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from threading import Event, Thread
from typing import Any

from laptime.machine.sensors.base import PATIENCE_S, PendingAnswer, Sensor, SensorClock
from laptime.machine.sensors.host.sensor import NoiseReader, NoiseReading
from laptime.model.errors import SensorError
from laptime.model.machine import Device
from laptime.model.process import Channel, Opened, Series, Timeline, Track
from laptime.model.quantities import Missing
from laptime.model.sample import Noise, SensorRow, Window, all_sensors

# In a shorter window the kernel's 10 ms ticks on each core show rounding rather than other processes.
SHORTEST_NS = 100_000_000
# Two ticks on each side of a window of 0.25 s are 0.16 cores, so less than a quarter of a core may be rounding.
OTHERS_LEAST_CORES = 0.25
OTHERS_SHARE = 0.1
THROTTLED_SHARE = 0.02
ASLEEP_S = 0.1
STOPPED_BY_SIGNAL = "a signal stopped the process for a while"


class Instruments:
    """Watches one child from one window to the next."""

    def __init__(self, cores: int, reader: NoiseReader | None = None) -> None:
        self._allowed_cores = max(OTHERS_LEAST_CORES, OTHERS_SHARE * cores)
        self._reader = NoiseReader() if reader is None else reader
        self._absent = self._reader.probe()
        self._last: NoiseReading | None = None
        self._was_stopped: Callable[[], bool] = lambda: False

    def open(self, pid: int, was_stopped: Callable[[], bool]) -> None:
        """Watch a process. `was_stopped` returns whether a signal stopped the heat since its last call."""
        self._was_stopped = was_stopped
        was_stopped()  # forget stops before the first window
        if self._absent is None:
            self._reader.open(pid)
            self._last = self._reader.read()

    def reopen(self) -> None:
        """Forget what happened since the last window."""
        self._was_stopped()
        if self._last is not None:
            self._last = self._reader.read()

    def close_window(self) -> Noise:
        """Return the noise since the last call."""
        if self._absent or self._last is None:
            reason = self._absent or Missing("no reading before the window")
            return Noise(reason, reason, reason, halted=STOPPED_BY_SIGNAL if self._was_stopped() else None)
        before = self._last
        now = self._reader.read()
        self._last = now
        was_stopped = self._was_stopped()
        span_ns = now.at_ns - before.at_ns
        own = _cores(before.tree_s, now.tree_s, span_ns)
        waited = _cores(before.waited_s, now.waited_s, span_ns)
        if not isinstance(waited, Missing):
            # Threads of one heat may wait for each other, so count no more waiting than other processes ran.
            others = _above(_cores(before.cores_busy_s, now.cores_busy_s, span_ns), own)
            waited = others if isinstance(others, Missing) else min(waited, others)
        asleep_s = now.asleep_s - before.asleep_s
        asleep = f"the computer slept for {asleep_s:.1f} s" if asleep_s > ASLEEP_S else None
        return Noise(
            other_cores=_above(_cores(before.busy_s, now.busy_s, span_ns), own),
            load_1m=now.load_1m,
            throttled_ms=_since(before.throttled_ms, now.throttled_ms),
            own_cores=own,
            waited_cores=waited,
            io_wait_cores=_cores(before.io_wait_s, now.io_wait_s, span_ns),
            halted=STOPPED_BY_SIGNAL if was_stopped else asleep,
        )

    def judge(self, noise: Noise, window_ns: int) -> str | None:
        """Return why a window counts as disturbed, or None."""
        if noise.halted is not None:
            return noise.halted
        if isinstance(noise.other_cores, float) and noise.other_cores > self._allowed_cores:
            return f"other processes took {noise.other_cores:.2f} cores"
        if isinstance(noise.waited_cores, float) and noise.waited_cores > self._allowed_cores:
            return f"other containers held {noise.waited_cores:.2f} cores that its threads waited for"
        if isinstance(noise.throttled_ms, float) and noise.throttled_ms > THROTTLED_SHARE * window_ns / 1e6:
            return f"the container's quota held it back for {noise.throttled_ms:.0f} ms"
        return None

    def close(self) -> None:
        """Close the files of a heat that has ended. `open` watches the next one."""
        self._reader.close()
        self._last = None


def _cores(before_s: float | Missing, now_s: float | Missing, span_ns: int) -> float | Missing:
    spent_s = _since(before_s, now_s)
    if isinstance(spent_s, Missing):
        return spent_s
    if span_ns < SHORTEST_NS:
        return Missing(f"the window of {span_ns / 1e6:.0f} ms is too short for the kernel's ticks")
    return max(0.0, spent_s / (span_ns / 1e9))


def _since(before: float | Missing, now: float | Missing) -> float | Missing:
    if isinstance(now, Missing):
        return now
    return before if isinstance(before, Missing) else now - before


def _above(all_: float | Missing, own: float | Missing) -> float | Missing:
    if isinstance(all_, Missing) or isinstance(own, Missing):
        return all_ if isinstance(all_, Missing) else own
    return max(0.0, all_ - own)


LEAST_NS = 200_000_000
USUAL_STEPS = 50  # a gap lasts at least this many usual steps; a shorter single pause may be the training's own
ONE_STEP = 0.8  # share of the gap in one step: many slow steps are not a halt
IDLE_CORES = 0.1  # at most this many ran or waited for a disk during the gap


def flag_halts(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Flag the window in which the heat stood still, if there is exactly one. Earlier flags stay."""
    if not windows:
        return ()
    usual_ns = statistics.median(_usual_ns(window) for window in windows)
    least_ns = max(LEAST_NS, USUAL_STEPS * usual_ns)
    long = [place for place, window in enumerate(windows) if _gap_ns(window, usual_ns) >= least_ns]
    if len(long) != 1:
        return tuple(windows)
    (place,) = long
    window = windows[place]
    gap_ns = _gap_ns(window, usual_ns)
    others = [*windows[:place], *windows[place + 1 :]]
    is_one_step = len(window.step_ns) < window.steps or max(window.step_ns) >= ONE_STEP * gap_ns
    if not (is_one_step and _is_idle(window, others, gap_ns)):
        return tuple(windows)
    assert window.noise is not None
    says = f"nothing of it ran for {gap_ns / 1e9:.1f} s"
    halted = replace(window, noise=replace(window.noise, halted=says), flag=window.flag or says)
    return (*windows[:place], halted, *windows[place + 1 :])


def _usual_ns(window: Window) -> float:
    """Return a window's usual step time: the median if steps were timed one by one, else the mean."""
    if len(window.step_ns) == window.steps:
        return statistics.median(window.step_ns)
    return (window.end_ns - window.start_ns) / window.steps


def _gap_ns(window: Window, usual_ns: float) -> float:
    """Return how much longer a window lasted than its steps usually do."""
    return window.end_ns - window.start_ns - window.steps * usual_ns


def _is_idle(window: Window, others: Sequence[Window], gap_ns: float) -> bool:
    """Whether the heat's processes hardly ran, and hardly any core waited for a disk, during the gap."""
    own_ns = _own_ns(window)
    if own_ns is None:
        return False
    waiting = None if window.noise is None else window.noise.io_wait_cores
    disk_ns = 0.0
    if waiting is not None and not isinstance(waiting, Missing):
        disk_ns = waiting * (window.end_ns - window.start_ns)
    known = [(own, other.steps) for other in others if (own := _own_ns(other)) is not None]
    usual_own_ns = statistics.median(own / steps for own, steps in known) if known else 0.0
    return own_ns - window.steps * usual_own_ns + disk_ns <= IDLE_CORES * gap_ns


def _own_ns(window: Window) -> float | None:
    own = None if window.noise is None else window.noise.own_cores
    return None if own is None or isinstance(own, Missing) else own * (window.end_ns - window.start_ns)


# Choose the instruments of a lane: those of the machine, and those of its own cards. An absent one has a reason.

AbsentInstrument = tuple[str, Missing]
NOT_ASKED_FOR = Missing("it was not asked for")


class SensorSelection:
    """The instruments of a race. Each lane gets those that can read its devices.

    `most` limits the readings that are kept of one instrument and heat.
    """

    def __init__(self, words: tuple[str, ...] | None, hz: float | None, most: int | None = None) -> None:
        self._words = words
        self._hz = DEFAULT_HZ if hz is None else hz
        self._most = most
        self._samplers: dict[str, Sampler] = {}
        for word in words or ():
            if word == "none":
                continue
            reason = _probe(_load(all_sensors()[word].sensor)())
            if reason is not None:
                raise SensorError(f"--sensors {word}: {reason.missing}", "leave it out to read what there is")

    def sampler_for(self, lane: str, devices: Sequence[Device]) -> Sampler | None:
        """Return the sampler of a lane: the same for all its heats, so that a sensor that failed stays out."""
        if self._words == ("none",):
            return None
        if lane in self._samplers:
            return self._samplers[lane]
        sensors: dict[Sensor, str | None] = {}  # with the device that each watches alone
        absent: list[AbsentInstrument] = []
        for row in all_sensors().values():
            watched = [device for device in devices if not row.watches or device.kind in row.watches]
            if not watched:
                continue
            if self._words is not None and row.name not in self._words:
                absent.append((row.name, NOT_ASKED_FOR))
                continue
            for device in watched if row.of_device is not None else watched[:1]:
                found = _open(row, device)
                if isinstance(found, Missing):
                    absent.append((row.name, found))
                else:
                    sensors |= dict.fromkeys(found, None if row.of_device is None else device.name)
        own = {sensor: device for sensor, device in sensors.items() if device is not None}
        self._samplers[lane] = Sampler(list(sensors), self._hz, tuple(absent), most=self._most, of=own)
        return self._samplers[lane]

    def why_no_power(self, device: Device) -> Missing | None:
        """Return why nothing can read a device's power; None if something can, or that is not known beforehand."""
        reasons: list[str] = []
        for row in all_sensors().values():
            if row.powers is None or device.kind in row.powers:
                is_asked_for = self._words is None or row.name in self._words
                found = _open(row, device) if is_asked_for else NOT_ASKED_FOR
                if not isinstance(found, Missing):
                    return None
                reasons.append(f"{row.name}: {found.missing}")
        return Missing("; ".join(reasons) or "no instrument reads it")


def _open(row: SensorRow, device: Device) -> list[Sensor] | Missing:
    """Return the sensors of a row for a device, or why there are none."""
    sensor: Sensor = _load(row.sensor)()
    reason = _probe(sensor)
    if reason is not None:
        return reason
    if row.of_device is None:
        return [sensor]
    found: list[Sensor] | Missing = _load(row.of_device)(device)
    return found


def _load(place: str) -> Any:
    """Import what "module:name" names, so that only needed sensors are imported."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _probe(sensor: Sensor) -> Missing | None:
    return PendingAnswer(f"the instrument {sensor.name}", sensor.probe).answer(PATIENCE_S)


# Read the sensors while a heat runs, each in its own thread, so that a sensor that hangs does not delay the others.
#
# Readings are due at whole multiples of the period after the first, so a late one does not delay the next. Missed
# readings are not made up for.

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
        self._sensors = list(sensors)
        self._hz = hz
        self._absent = dict(absent)
        self._clock = clock
        self._most = most
        self._of = of or {}
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
        self.sensor = sensor
        self.over = Event()
        self.may_read = Event()
        self.may_read.set()
        self._pid = pid
        self._clock = clock
        self._most = most
        self._period_s = max(period_s, sensor.period_s)
        self._opened: Opened | None = None
        self._told: list[ToldReading] = []  # other threads may read it, so each time stays with its reading
        self._spent_ns = 0
        self._asked = 0
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
            try:
                self.sensor.close()
            except Exception as error:  # noqa: BLE001  see above
                self.lost = self.lost or _why(error)

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
        return list(dict.fromkeys(channel.device for channel in channels))

    def tracks(self) -> list[Track]:
        """Return what was read. Figures that come seldom have their own times."""
        readings = self._told[:]
        if not readings or self._opened is None:
            return [] if self.lost is None else [Track(self.sensor.name, 0, (), (), (), self.lost)]
        often, seldom = split_by_pace(len(self._opened.channels), [reading for _, reading in readings])
        first = self._track(often, readings, self._opened.absent)
        if not seldom:
            return [first]
        rows = [(at, reading) for at, reading in readings if any(reading[place] is not None for place in seldom)]
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
            self._spent_ns += ended - began
            self._asked += 1
            self._told.append(((began + ended) // 2, reading))
            if self._most is not None and len(self._told) > self._most:
                self._told = self._told[::2]
                self._period_s *= 2
            # A sensor may find out only when it is read how slow it is.
            period_ns = round(1e9 * max(self._period_s, self.sensor.period_s))
            due += period_ns * max(1, math.ceil((ended - due) / period_ns))
            if self.over.wait(max(0, due - self._clock()) / 1e9):
                break
            if not self.may_read.is_set():
                self.may_read.wait()
                due = self._clock()


def split_by_pace(channels: int, readings: Sequence[tuple[float | None, ...]]) -> tuple[list[int], list[int]]:
    """Split the channels into those that most readings hold and those that few do. Empty ones go with the first."""
    often: list[int] = []
    seldom: list[int] = []
    for place in range(channels):
        figures = sum(reading[place] is not None for reading in readings)
        (seldom if 0 < figures < SELDOM * len(readings) else often).append(place)
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
