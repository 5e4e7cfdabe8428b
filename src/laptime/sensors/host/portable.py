"""What psutil tells of the machine and the heat's processes where there is no /proc: macOS."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import psutil

from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened
from laptime.sensors.host import clocks, depth, machine, tree
from laptime.sensors.host.ledger import Ledger, Shown
from laptime.sensors.host.source import Figures

MACHINE = (
    Channel("host", "busy_s", "s", "counter"),
    Channel("host", "load_1m", "load"),
    Channel("host", "memory_used_bytes", "bytes"),
    Channel("host", "memory_available_bytes", "bytes"),
    Channel("host", "swap_used_bytes", "bytes"),
    Channel("host", "context_switches", "switches", "counter"),
)
TREE = (
    Channel("heat", "busy_s", "s", "counter"),
    Channel("heat", "resident_bytes", "bytes"),
    Channel("heat", "processes", "processes"),
    Channel("heat", "threads", "threads"),
)
SHOWN = {(channel.device, channel.name) for channel in (*MACHINE, *TREE)}
KNOWN = (
    *(*machine.STAT, *machine.LOAD, *machine.MEMORY, *machine.FAULTS),
    *(*machine.GROUP_USED, *machine.GROUP_PEAK, *machine.GROUP_THROTTLED, *clocks.FREQUENCY, *clocks.TEMPERATURE),
    *(*tree.QUICK, *depth.STATUS, *depth.TRAFFIC),
)
ABSENT = tuple(
    (channel, Missing("nobody but the kernel's /proc and /sys tells it, which this system does not have"))
    for channel in KNOWN
    if (channel.device, channel.name) not in SHOWN
)


def probe() -> Missing | None:
    try:
        psutil.cpu_times()
    except (OSError, RuntimeError, psutil.Error) as error:
        return Missing(f"processor times cannot be read: {error}")
    return None


class Everybody:
    """The machine's own figures, and what is not there for either."""

    def open(self, _pid: int) -> Opened:
        return Opened(MACHINE, ABSENT)

    def read(self) -> Figures:
        return [_or_nothing(ask) for ask in ASKED]

    def close(self) -> None:
        """Nothing is held."""


class Kin:
    """The processes that began with one. The list is made by walking all processes: this part wants a slow pace."""

    def __init__(self) -> None:
        self._root: psutil.Process | None = None
        self._members: dict[psutil.Process, _Kin] = {}
        self._ledger: Ledger[_Kin] = Ledger(1)

    def open(self, pid: int) -> Opened:
        try:
            self._root = psutil.Process(pid)
        except psutil.Error:
            return Opened((), tuple((channel, Missing(f"process {pid} is not there")) for channel in TREE))
        self._members = {self._root: _Kin(None)}
        return Opened(TREE)

    def read(self) -> Figures:
        if self._root is None:
            return ()
        self._find_children(self._root)
        shown, resident, threads = {}, 0, 0
        for process, kin in list(self._members.items()):
            try:
                with process.oneshot():
                    times, held = process.cpu_times(), process.memory_info().rss
                    threads += process.num_threads()
            except psutil.Error:
                del self._members[process]
                continue
            shown[kin] = Shown((sum(times[:4]),), (sum(times[2:4]),))
            resident += held
        if not shown:
            return (None,) * len(TREE)
        return *self._ledger.add_up(shown), resident, len(shown), threads

    def close(self) -> None:
        self._root, self._members = None, {}

    def _find_children(self, root: psutil.Process) -> None:
        with contextlib.suppress(psutil.Error):
            for process in root.children(recursive=True):  # parents before their children
                if process not in self._members:
                    self._members[process] = _Kin(self._members.get(process.parent()))


class _Kin:
    """A member by its parent. On macOS no process shows what its ended children used: it stays with the ledger."""

    def __init__(self, parent: _Kin | None) -> None:
        self.parent = parent


def _busy_s() -> float:
    times = psutil.cpu_times()._asdict()
    return float(sum(spent for name, spent in times.items() if name not in {"idle", "iowait", "guest", "guest_nice"}))


ASKED: tuple[Callable[[], float], ...] = (
    _busy_s,
    lambda: os.getloadavg()[0],
    lambda: psutil.virtual_memory().total - psutil.virtual_memory().available,
    lambda: psutil.virtual_memory().available,
    lambda: psutil.swap_memory().used,
    lambda: psutil.cpu_stats().ctx_switches,
)


def _or_nothing(ask: Callable[[], float]) -> float | None:
    try:
        return ask()
    except (OSError, RuntimeError, psutil.Error):
        return None
