"""What the instruments saw while a heat ran: channels, what they showed and when, on the clock of the heat itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from laptime.model.missing import Missing

ChannelKind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One figure that an instrument shows again and again.

    `device` is whose figure it is: "host" for the whole machine, "heat" for the heat's processes, else an instrument's
    own name of a card or a package, the same in every reading. A gauge shows how things stand (or stood on average over
    the instrument's own last moments); a counter only ever grows, and what it grew by between two readings is counted.
    """

    device: str
    name: str
    unit: str
    kind: ChannelKind = "gauge"


@dataclass(frozen=True, slots=True)
class Opened:
    """What an instrument will show, in the order of its readings; and what it cannot, with the reasons."""

    channels: tuple[Channel, ...]
    absent: tuple[tuple[Channel, Missing], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One channel's readings, in whole steps of its unit: the first is a difference from nought, each other from the
    one before it that told something; None where nothing was told. So an hour of them stays small and legible.
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
    """One instrument's readings: the first one's time on the parent's monotonic clock, the microseconds from each to
    the next, and what its channels showed. `lost` says why it ended before the heat did; `read_us` is a reading's cost.
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

    `clock` is missing where the child's clock is not the parent's: then no reading can be laid beside a window.
    """

    tracks: tuple[Track, ...] = ()
    absent: tuple[tuple[str, Missing], ...] = ()
    clock: Missing | None = None

    def find(self, device: str, name: str) -> tuple[Track, Series] | None:
        """Give a channel's readings, and the track that has their times."""
        found = ((track, track.find(device, name)) for track in self.tracks)
        return next(((track, series) for track, series in found if series is not None), None)

    def why_not(self, device: str, name: str) -> Missing:
        """Give the reason for which a channel shows nothing."""
        for track in self.tracks:
            for channel, reason in track.absent:
                if (channel.device, channel.name) == (device, name):
                    return reason
        reasons = [f"{sensor}: {reason.missing}" for sensor, reason in self.absent]
        return Missing("; ".join(reasons) or "no instrument shows it")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a process began to do at a time of its monotonic clock; it did so until the next mark."""

    name: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Watched:
    """One process of a training as the instruments saw it; a training that was resumed has several, each with times of
    its own computer's clock.
    """

    timeline: Timeline
    marks: tuple[Mark, ...] = ()
