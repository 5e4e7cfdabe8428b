"""What the sensors read while a heat ran: channels, their values and when, on the heat's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from laptime.model.missing import Missing

ChannelKind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One figure that a sensor reads repeatedly.

    `device` is what the figure belongs to: "host" for the whole machine, "heat" for the heat's processes, else the
    sensor's own name of a card or a package, the same in every reading. A gauge is a current value (or an average over
    the sensor's last moments). A counter only grows; what counts is its growth between two readings.
    """

    device: str
    name: str
    unit: str
    kind: ChannelKind = "gauge"


@dataclass(frozen=True, slots=True)
class Opened:
    """What a sensor will read, in the order of its readings; and what it cannot read, with the reasons."""

    channels: tuple[Channel, ...]
    absent: tuple[tuple[Channel, Missing], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One channel's readings, in whole steps of its unit, stored as differences to keep an hour of readings small.

    The first is the difference from 0, each later one from the last reading that had a value; None where there was
    none.
    """

    channel: Channel
    step: float
    changes: tuple[int | None, ...]

    def values(self) -> Iterator[float | None]:
        level = 0
        for change in self.changes:
            level += change or 0
            yield None if change is None else level * self.step


@dataclass(frozen=True, slots=True)
class Track:
    """One sensor's readings.

    `first_ns` is the time of the first one on the parent's monotonic clock, `apart_us` the microseconds from each to
    the next. `lost` says why the readings ended before the heat did; `read_us` is the cost of one reading.
    """

    sensor: str
    first_ns: int
    apart_us: tuple[int, ...]
    series: tuple[Series, ...]
    absent: tuple[tuple[Channel, Missing], ...] = ()
    lost: Missing | None = None
    read_us: float = 0.0

    def times_ns(self) -> tuple[int, ...]:
        return tuple(self.first_ns + 1000 * passed for passed in accumulate(self.apart_us, initial=0))

    def find(self, device: str, name: str) -> Series | None:
        return next((each for each in self.series if (each.channel.device, each.channel.name) == (device, name)), None)


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that was read while a heat ran, and what could not be read.

    `clock` is set where the child's clock is not the parent's: then no reading can be matched with a window. In
    `pauses_ns` another heat had its turn: this one was stopped, and nothing was read. `cards` are the lane's devices
    that are watched on their own, each with its name in the channels.
    """

    tracks: tuple[Track, ...] = ()
    absent: tuple[tuple[str, Missing], ...] = ()
    clock: Missing | None = None
    pauses_ns: tuple[tuple[int, int], ...] = ()
    cards: tuple[tuple[str, str], ...] = ()

    def find(self, device: str, name: str) -> tuple[Track, Series] | None:
        """Return a channel's readings, and the track that has their times."""
        found = ((track, track.find(device, name)) for track in self.tracks)
        return next(((track, series) for track, series in found if series is not None), None)

    def why_not(self, device: str, name: str) -> Missing:
        """Return the reason why a channel shows nothing."""
        for track in self.tracks:
            for channel, reason in track.absent:
                if (channel.device, channel.name) == (device, name):
                    return reason
        reasons = [f"{sensor}: {reason.missing}" for sensor, reason in self.absent]
        return Missing("; ".join(reasons) or "no instrument shows it")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a process began to do, and when on its monotonic clock; it did so until the next mark."""

    name: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Watched:
    """One process of a training as the sensors saw it.

    A training that was resumed has several, each with times of its own computer's clock.
    """

    timeline: Timeline
    marks: tuple[Mark, ...] = ()
