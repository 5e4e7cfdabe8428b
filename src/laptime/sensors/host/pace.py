"""When something dear is due again: at its own rate, and so seldom that it takes little of one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from laptime.model.timeline import Opened
from laptime.sensors.host.source import Figures

# A part that took 1 ms of processor time rests for 200 ms: at most 0.5 % of one core for each, on any machine.
REST = 200
# What is dear everywhere.
SLOW_NS = 1_000_000_000

Clock = Callable[[], int]


class Part(Protocol):
    """Some channels that are read together."""

    def open(self, pid: int) -> Opened: ...

    def read(self) -> Figures: ...

    def close(self) -> None: ...


class Pace:
    """Tells whether it is time. The clock may jump: when it goes back, it is time."""

    def __init__(self, clock: Clock, least_ns: int) -> None:
        self._clock, self._least_ns = clock, least_ns
        self._began_ns, self._rest_ns = 0, -1

    def is_due(self) -> bool:
        return not 0 <= self._clock() - self._began_ns < self._rest_ns

    def took(self, cost_ns: int) -> None:
        """Begin to rest, after what has just cost so much processor time."""
        self._began_ns = self._clock()
        self._rest_ns = max(self._least_ns, REST * cost_ns)


class Paced:
    """A part that is read when it is due; between, its figures are None, for nothing was told.

    One that shows nothing here is not read at all.
    """

    def __init__(self, part: Part, clock: Clock, least_ns: int = 0) -> None:
        self._part, self._pace = part, Pace(clock, least_ns)
        self._nothing: Figures = ()

    def open(self, pid: int) -> Opened:
        opened = self._part.open(pid)
        self._nothing = (None,) * len(opened.channels)
        return opened

    def read(self) -> Figures:
        if not self._nothing or not self._pace.is_due():
            return self._nothing
        before_ns = time.thread_time_ns()
        figures = self._part.read()
        self._pace.took(time.thread_time_ns() - before_ns)
        return figures

    def close(self) -> None:
        self._part.close()


class Together:
    """Several parts as one: opened and closed in order, their figures in a row."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    def open(self, pid: int) -> Opened:
        opened = [part.open(pid) for part in self._parts]
        return Opened(
            tuple(channel for each in opened for channel in each.channels),
            tuple(pair for each in opened for pair in each.absent),
        )

    def read(self) -> Figures:
        return [figure for part in self._parts for figure in part.read()]

    def close(self) -> None:
        for part in self._parts:
            part.close()
