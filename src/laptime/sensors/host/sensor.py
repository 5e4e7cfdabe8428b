"""The host's sensor: which parts it has on this machine, and what they all show as one reading."""

from __future__ import annotations

import os
import time
from pathlib import Path

from laptime.model.missing import Missing
from laptime.model.timeline import Opened
from laptime.sensors.host import clocks, machine, portable
from laptime.sensors.host.depth import Threads, Traffic
from laptime.sensors.host.family import Family
from laptime.sensors.host.pace import SLOW_NS, Clock, Paced, Together
from laptime.sensors.host.tree import Tree


class HostSensor:
    """Channels of "host", the whole machine, and of "heat", the process tree; dear ones are told once a second.

    Nothing is read that walks all processes or all pages; a part that turns out dear rests the longer (`pace.REST`).
    A reading of a process with ten threads takes 0.25 ms of processor time on average, the dear ones included, beside a
    load on every core, and 0.28 ms on an idle machine; one of 64 processes or of 1,000 threads 0.9 ms (two AMD EPYC
    cores, a virtual machine, 2026-11-20; `bench/sensor_cost.py`, ten readings a second).
    """

    name = "host"
    period_s = 0.0

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), clock: Clock = time.monotonic_ns) -> None:
        self._proc, self._sys, self._clock = proc, sys, clock
        self._family, self._parts = Family(proc, clock), Together()

    def probe(self) -> Missing | None:
        if self._has_proc():
            return None
        return portable.probe()

    def open(self, pid: int) -> Opened:
        if self._has_proc():
            self._family = Family(self._proc, self._clock)
            self._family.open(pid)
            self._parts = self._parts_of_proc()
        else:
            self._parts = self._parts_of_psutil()
        return self._parts.open(pid)

    def read(self) -> tuple[float | None, ...]:
        self._family.look()
        return tuple(self._parts.read())

    def close(self) -> None:
        self._parts.close()
        self._family.close()

    def _has_proc(self) -> bool:
        return os.access(self._proc / "stat", os.R_OK)

    def _parts_of_proc(self) -> Together:
        proc, sys, clock, family = self._proc, self._sys, self._clock, self._family
        return Together(
            machine.quick_source(proc),
            Paced(Tree(family), clock),
            Paced(Threads(family, proc, clock), clock),
            Paced(Traffic(family, proc), clock, SLOW_NS),
            Paced(Together(*machine.slow_sources(proc, sys)), clock, SLOW_NS),
            Paced(Together(clocks.frequency(sys), clocks.temperature(sys)), clock, SLOW_NS),
        )

    def _parts_of_psutil(self) -> Together:
        return Together(Paced(portable.Everybody(), self._clock), Paced(portable.Kin(), self._clock, SLOW_NS))
