"""The host's sensor: the sources that this machine has, combined into one reading."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from laptime.machine.sensors import cgroup
from laptime.machine.sensors.base import SensorClock
from laptime.machine.sensors.cgroup import allowed_cores
from laptime.machine.sensors.host import machine, process_tree
from laptime.machine.sensors.host.machine import TICK_S, Figures, quota_source, throttling_source
from laptime.machine.sensors.host.process_tree import CoreWait, ProcessTree, RestTimer, TreeUsage
from laptime.model.process import Opened
from laptime.model.quantities import Missing

# Sources that are slow on every machine are read once a second.
SLOW_SOURCE_NS = 1_000_000_000


class ChannelSource(Protocol):
    """Some channels that are read together."""

    def open(self, pid: int) -> Opened: ...

    def read(self) -> Figures: ...

    def close(self) -> None: ...


class RateLimited:
    """A source that is read when it is due; in between its figures are None. Without channels it is never read."""

    def __init__(self, source: ChannelSource, clock: SensorClock, least_ns: int = 0) -> None:
        self._source = source
        self._timer = RestTimer(clock, least_ns)
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
        parts = [source.open(pid) for source in self._sources]
        return Opened(
            tuple(channel for part in parts for channel in part.channels),
            tuple(pair for part in parts for pair in part.absent),
        )

    def read(self) -> Figures:
        return [figure for source in self._sources for figure in source.read()]

    def close(self) -> None:
        for source in self._sources:
            source.close()


class HostSensor:
    """Channels of "host", the whole machine, and of "heat", the process tree; slow ones are read once a second.

    Nothing here walks all processes or all pages; a slow source rests longer (`process_tree.PART_REST`).
    `bench/sensor_cost.py` measures the cost of a reading.
    """

    name = "host"
    period_s = 0.0

    def __init__(
        self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), clock: SensorClock = time.monotonic_ns
    ) -> None:
        self._proc = proc
        self._sys = sys
        self._clock = clock
        self._tree = ProcessTree(proc, clock)
        self._sources = SourceGroup()

    def probe(self) -> Missing | None:
        if self._has_proc():
            return None
        return process_tree.probe()

    def open(self, pid: int) -> Opened:
        proc = self._proc
        sys = self._sys
        clock = self._clock
        if self._has_proc():
            self._tree = ProcessTree(proc, clock)
            self._tree.open(pid)
            self._sources = SourceGroup(
                machine.quick_source(proc),
                RateLimited(TreeUsage(self._tree), clock),
                RateLimited(SourceGroup(*machine.slow_sources(proc, sys)), clock, SLOW_SOURCE_NS),
                RateLimited(SourceGroup(machine.frequency(sys), machine.temperature(sys)), clock, SLOW_SOURCE_NS),
            )
        else:
            self._sources = SourceGroup(
                RateLimited(process_tree.PortableMachine(), clock),
                RateLimited(process_tree.PortableTree(), clock, SLOW_SOURCE_NS),
            )
        return self._sources.open(pid)

    def read(self) -> tuple[float | None, ...]:
        self._tree.look()
        return tuple(self._sources.read())

    def close(self) -> None:
        self._sources.close()
        self._tree.close()

    def _has_proc(self) -> bool:
        return os.access(self._proc / "stat", os.R_OK)


# What happened on our cores while a window was open: the heat's own work, and that of all other processes.
#
# Our cores are those of our affinity. With a quota of fewer cores than these no core is ours, only a share of the
# machine's time; other processes under the same quota take from that share. Processes outside it then only disturb when
# our threads wait for a core that they occupy.
#
# The kernel counts in ticks of 10 ms, so an interval of less than a few ticks means nothing.

# After a look for new processes of 1 ms, the next is 20 ms later: the parent must not disturb what it watches.
LOOK_REST = 20
# Columns of /proc/stat, whose first two include the time of guests.
IDLE_COLUMN = 3
IO_WAIT_COLUMN = 4
GUEST_COLUMN = 8
NO_TREE = Missing("the processor time of the heat's processes cannot be read")
NO_QUOTA_COUNT = Missing("no control group counts processor time here")
NO_THROTTLING = Missing("no control group counts throttling here")
NO_WAIT = Missing("this kernel does not tell how long threads wait for a core")
OWN_CORES = Missing("the cores are ours alone: what others run on them is counted")


@dataclass(frozen=True, slots=True)
class NoiseReading:
    """Counters at one moment.

    `busy_s` is all that ran on our cores or under our quota, including time stolen by a hypervisor; `tree_s` is the
    heat's part of it. `cores_busy_s` is all that ran on the cores of our affinity, whatever else may use them, and
    `io_wait_s` for how long these only waited for a disk. `waited_s` is for how long the heat's threads were ready to
    run but had no core. `asleep_s` is how long the computer was suspended.
    """

    at_ns: int
    busy_s: float | Missing
    tree_s: float | Missing
    cores_busy_s: float | Missing
    io_wait_s: float | Missing
    waited_s: float | Missing
    throttled_ms: float | Missing
    load_1m: float | Missing
    asleep_s: float


class NoiseReader:
    """Reads /proc where there is one, with the host sensor's process tree and counting, and psutil elsewhere."""

    def __init__(
        self,
        proc: Path = cgroup.PROC,
        groups: Path = cgroup.ROOT,
        cores: frozenset[int] | None = None,
        clock: SensorClock = time.monotonic_ns,
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._cores = allowed_cores() if cores is None else cores
        quota = cgroup.quota_cores(groups, proc)
        self.owns_cores = isinstance(quota, Missing) or quota >= len(self._cores)
        self._read_tree: Callable[[], float | Missing] = lambda: NO_TREE
        self._read_waited: Callable[[], float | Missing] = lambda: NO_WAIT
        self._tree: ProcessTree | None = None
        self._throttling = throttling_source(groups, proc)
        self._quota = quota_source(groups, proc)

    def probe(self) -> Missing | None:
        return None if self._has_proc() else process_tree.probe()

    def open(self, pid: int) -> None:
        """Watch the processes that descend from this one, instead of those of an earlier heat."""
        self.close()
        self._throttling.open(pid)
        self._quota.open(pid)
        if not self._has_proc():
            portable_tree = process_tree.PortableTree()
            portable_tree.open(pid)
            self._read_tree = lambda: _first(portable_tree.read(), NO_TREE)
            return
        tree = self._tree = ProcessTree(self._proc, self._clock, 0, LOOK_REST)
        tree.open(pid)
        usage = TreeUsage(tree)
        core_wait = CoreWait(tree, self._proc)
        self._read_tree = lambda: _first(usage.read(), NO_TREE)
        self._read_waited = lambda: OWN_CORES if self.owns_cores else _or_missing(core_wait.read_s(), NO_WAIT)

    def read(self) -> NoiseReading:
        if self._tree is not None:
            self._tree.look_whole()
        cores_busy_s, io_wait_s = self._read_cores()
        # How long the computer was suspended: one clock continues meanwhile, the other does not
        if not hasattr(time, "CLOCK_BOOTTIME"):
            asleep_s = 0.0
        else:
            asleep_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
        return NoiseReading(
            at_ns=self._clock(),
            busy_s=cores_busy_s if self.owns_cores else _first(self._quota.read(), NO_QUOTA_COUNT),
            tree_s=self._read_tree(),
            cores_busy_s=cores_busy_s,
            io_wait_s=io_wait_s,
            waited_s=self._read_waited(),
            throttled_ms=_scaled(_first(self._throttling.read(), NO_THROTTLING), 1e3),
            load_1m=os.getloadavg()[0] if hasattr(os, "getloadavg") else Missing("this system reports no load"),
            asleep_s=asleep_s,
        )

    def close(self) -> None:
        if self._tree is not None:
            self._tree.close()
        self._tree = None
        self._throttling.close()
        self._quota.close()
        self._read_tree = lambda: NO_TREE
        self._read_waited = lambda: NO_WAIT

    def _has_proc(self) -> bool:
        return os.access(self._proc / "stat", os.R_OK)

    def _read_cores(self) -> tuple[float | Missing, float | Missing]:
        """Return how long the cores of our affinity were busy, and how long they waited for a disk.

        If none of our cores is listed, the figures are those of all cores.
        """
        if not self._has_proc():
            return process_tree.busy_s(), Missing("no /proc reports how long cores waited for a disk")
        lines = (self._proc / "stat").read_text().split("\nintr")[0].splitlines()
        spent = {name: [int(column) for column in columns] for name, *columns in map(str.split, lines)}
        ours = [spent[name] for name in (f"cpu{core}" for core in self._cores) if name in spent] or [spent["cpu"]]
        busy = sum(sum(columns[:IDLE_COLUMN]) + sum(columns[IO_WAIT_COLUMN + 1 : GUEST_COLUMN]) for columns in ours)
        return busy * TICK_S, sum(columns[IO_WAIT_COLUMN] for columns in ours) * TICK_S


def _first(figures: Figures, otherwise: Missing) -> float | Missing:
    return _or_missing(figures[0] if figures else None, otherwise)


def _scaled(figure: float | Missing, factor: float) -> float | Missing:
    return figure if isinstance(figure, Missing) else figure * factor


def _or_missing(figure: float | None, otherwise: Missing) -> float | Missing:
    return otherwise if figure is None else figure
