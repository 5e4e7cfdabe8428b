"""The machine and the heat's processes as psutil reports them, where there is no /proc: macOS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil

from laptime.model.missing import Missing
from laptime.model.timeline import Opened
from laptime.sensors.host import machine, tree_usage
from laptime.sensors.host.machine import Figures
from laptime.sensors.host.tree_usage import ProcessCounts, TreeCounter

KNOWN = (
    *(*machine.STAT, *machine.MEMORY, *machine.GROUP_USED, *machine.GROUP_CACHE, *machine.GROUP_THROTTLED),
    *(*machine.FREQUENCY, *machine.TEMPERATURE, *tree_usage.TREE),
)
MACHINE = (machine.STAT[0], *machine.MEMORY)
TREE = tuple(channel for channel in tree_usage.TREE if not channel.name.endswith("faults"))
ABSENT = tuple(
    (channel, Missing("only the kernel's /proc and /sys report it, which this system does not have"))
    for channel in KNOWN
    if channel not in {*MACHINE, *TREE}
)


def probe() -> Missing | None:
    try:
        psutil.cpu_times()
    except (OSError, RuntimeError, psutil.Error) as error:
        return Missing(f"processor times cannot be read: {error}")
    return None


class PortableMachine:
    """The machine's own figures, and the list of what this system does not report."""

    def open(self, _pid: int) -> Opened:
        return Opened(MACHINE, ABSENT)

    def read(self) -> Figures:
        return [_or_nothing(ask) for ask in ASKED]

    def close(self) -> None:
        """Nothing is held."""


class PortableTree:
    """A process and its descendants. psutil walks all processes to list them, so this part is read slowly."""

    def __init__(self) -> None:
        self._root: psutil.Process | None = None
        self._members: dict[psutil.Process, _TreeMember] = {}
        self._counter: TreeCounter[_TreeMember] = TreeCounter(1)

    def open(self, pid: int) -> Opened:
        try:
            self._root = psutil.Process(pid)
        except psutil.Error:
            return Opened((), tuple((channel, Missing(f"process {pid} is not there")) for channel in TREE))
        self._members = {self._root: _TreeMember(None)}
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
            shown[kin] = ProcessCounts((sum(times[:4]),), (sum(times[2:4]),))
            resident += held
        if not shown:
            return (None,) * len(TREE)
        return *self._counter.add_up(shown), resident, len(shown), threads

    def close(self) -> None:
        self._root, self._members = None, {}

    def _find_children(self, root: psutil.Process) -> None:
        with contextlib.suppress(psutil.Error):
            for process in root.children(recursive=True):  # parents before their children
                if process not in self._members:
                    self._members[process] = _TreeMember(self._members.get(process.parent()))


class _TreeMember:
    """A member and its parent. On macOS no process shows what its ended children used: the counter keeps it."""

    def __init__(self, parent: _TreeMember | None) -> None:
        self.parent = parent


def busy_s() -> float:
    times = psutil.cpu_times()._asdict()
    return float(sum(spent for name, spent in times.items() if name not in {"idle", "iowait", "guest", "guest_nice"}))


ASKED: tuple[Callable[[], float], ...] = (
    busy_s,
    lambda: psutil.virtual_memory().available,
    lambda: psutil.swap_memory().used,
)


def _or_nothing(ask: Callable[[], float]) -> float | None:
    try:
        return ask()
    except (OSError, RuntimeError, psutil.Error):
        return None
