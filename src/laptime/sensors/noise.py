"""Processor time of everybody and of one process tree, as a window closes: the rest is other people's work here.

The kernel counts in ticks of 10 ms, so an interval under a few ticks says nothing.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from laptime.model.missing import Missing

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class NoiseReading:
    """Counters at one moment. `busy_s` counts all cores, time stolen by a hypervisor included."""

    at_ns: int
    busy_s: float
    tree_s: float
    load_1m: float


class NoiseReader:
    """Reads /proc where there is one, and psutil elsewhere."""

    def __init__(self) -> None:
        self._pid = 0
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01

    def probe(self) -> Missing | None:
        try:
            psutil.cpu_times()
        except (OSError, RuntimeError) as error:
            return Missing(f"processor times cannot be read: {error}")
        return None

    def open(self, pid: int) -> None:
        self._pid = pid

    def read(self) -> NoiseReading:
        linux = (PROC / "stat").exists()
        busy_s = self._busy_from_proc() if linux else _busy_from_psutil()
        tree_s = self._tree_from_proc(self._pid) if linux else _tree_from_psutil(self._pid)
        return NoiseReading(time.monotonic_ns(), busy_s, tree_s, os.getloadavg()[0])

    def close(self) -> None:
        self._pid = 0

    def _busy_from_proc(self) -> float:
        with (PROC / "stat").open("rb") as file:
            user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
        return (user + nice + system + irq + softirq + steal) * self._tick_s

    def _tree_from_proc(self, pid: int) -> float:
        """Sum a process, those of its children that ended, and those that live."""
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            children = {
                int(child)
                for task in (PROC / str(pid) / "task").iterdir()
                for child in (task / "children").read_text().split()
            }
        except OSError:
            return 0.0
        own = sum(int(each) for each in fields[11:15]) * self._tick_s
        return own + sum(self._tree_from_proc(child) for child in children)


def _busy_from_psutil() -> float:
    times = psutil.cpu_times()._asdict()
    return float(sum(spent for name, spent in times.items() if name not in {"idle", "iowait", "guest"}))


def _tree_from_psutil(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
        return float(sum(sum(each.cpu_times()[:2]) for each in tree))
    except psutil.Error:
        return 0.0
