"""The host's sensor: the sources that this machine has, combined into one reading."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

from laptime.model.missing import Missing
from laptime.model.timeline import Opened
from laptime.sensors.host import machine, portable
from laptime.sensors.host.machine import Figures
from laptime.sensors.host.process_tree import Clock, ProcessTree, RestTimer
from laptime.sensors.host.tree_usage import TreeUsage

# Sources that are slow on every machine are read once a second.
SLOW_NS = 1_000_000_000


class ChannelSource(Protocol):
    """Some channels that are read together."""

    def open(self, pid: int) -> Opened: ...

    def read(self) -> Figures: ...

    def close(self) -> None: ...


class RateLimited:
    """A source that is read when it is due; in between its figures are None. Without channels it is never read."""

    def __init__(self, source: ChannelSource, clock: Clock, least_ns: int = 0) -> None:
        self._source, self._timer = source, RestTimer(clock, least_ns)
        self._nothing: Figures = ()

    def open(self, pid: int) -> Opened:
        opened = self._source.open(pid)
        self._nothing = (None,) * len(opened.channels)
        return opened

    def read(self) -> Figures:
        if not self._nothing or not self._timer.is_due():
            return self._nothing
        before_ns = time.thread_time_ns()
        figures = self._source.read()
        self._timer.took(time.thread_time_ns() - before_ns)
        return figures

    def close(self) -> None:
        self._source.close()


class SourceGroup:
    """Several sources as one: opened and closed in order, their figures in a row."""

    def __init__(self, *sources: ChannelSource) -> None:
        self._sources = sources

    def open(self, pid: int) -> Opened:
        opened = [source.open(pid) for source in self._sources]
        return Opened(
            tuple(channel for each in opened for channel in each.channels),
            tuple(pair for each in opened for pair in each.absent),
        )

    def read(self) -> Figures:
        return [figure for source in self._sources for figure in source.read()]

    def close(self) -> None:
        for source in self._sources:
            source.close()


class HostSensor:
    """Channels of "host", the whole machine, and of "heat", the process tree; slow ones are read once a second.

    Nothing here walks all processes or all pages; a slow source rests longer (`process_tree.REST`).
    `bench/sensor_cost.py` measures the cost of a reading.
    """

    name = "host"
    period_s = 0.0

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), clock: Clock = time.monotonic_ns) -> None:
        self._proc, self._sys, self._clock = proc, sys, clock
        self._tree, self._sources = ProcessTree(proc, clock), SourceGroup()

    def probe(self) -> Missing | None:
        if self._has_proc():
            return None
        return portable.probe()

    def open(self, pid: int) -> Opened:
        if self._has_proc():
            self._tree = ProcessTree(self._proc, self._clock)
            self._tree.open(pid)
            self._sources = self._sources_of_proc()
        else:
            self._sources = self._sources_of_psutil()
        return self._sources.open(pid)

    def read(self) -> tuple[float | None, ...]:
        self._tree.look()
        return tuple(self._sources.read())

    def close(self) -> None:
        self._sources.close()
        self._tree.close()

    def _has_proc(self) -> bool:
        return os.access(self._proc / "stat", os.R_OK)

    def _sources_of_proc(self) -> SourceGroup:
        proc, sys, clock = self._proc, self._sys, self._clock
        return SourceGroup(
            machine.quick_source(proc),
            RateLimited(TreeUsage(self._tree), clock),
            RateLimited(SourceGroup(*machine.slow_sources(proc, sys)), clock, SLOW_NS),
            RateLimited(SourceGroup(machine.frequency(sys), machine.temperature(sys)), clock, SLOW_NS),
        )

    def _sources_of_psutil(self) -> SourceGroup:
        return SourceGroup(
            RateLimited(portable.PortableMachine(), self._clock),
            RateLimited(portable.PortableTree(), self._clock, SLOW_NS),
        )
