"""The processes of a heat: its first process and all that descend from it.

They are found by the kernel's lists of children. On a kernel without these lists (CONFIG_PROC_CHILDREN), the parent of
every process of the machine is read; the longer that takes, the less often it is done.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import psutil

from laptime.machine.sensors.base import SensorClock, read_once
from laptime.machine.sensors.host import machine
from laptime.machine.sensors.host.machine import TICK_S, Figures
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

# After 1 ms of processor time, a part rests for 200 ms: at most 0.5 % of one core per part, on any machine.
PART_REST = 200
# At most once a second, and only if a process was started on this machine since.
TREE_LOOK_NS = 1_000_000_000
# Two files are held open for each. The use of further processes is counted when they end, by their parents.
MEMBERS_MOST = 256
# A thread's list takes about 10 us: one reading reads at most this many.
THREADS_A_LOOK = 64
STAT_BYTES = 1024
STATM_BYTES = 256
LOAD_BYTES = 128
PARENT = 1  # the field after the state


class RestTimer:
    """Decides when to read again: at a fixed rate, or less often where reading is slow.

    The clock may jump: when it goes back, a reading is due.
    """

    def __init__(self, clock: SensorClock, least_ns: int, rest: int = PART_REST) -> None:
        self._clock = clock
        self._least_ns = least_ns
        self._rest = rest
        self._began_ns = 0
        self._rest_ns = -1

    def is_due(self) -> bool:
        return not 0 <= self._clock() - self._began_ns < self._rest_ns

    def took(self, cost_ns: int) -> None:
        """Start to rest after a reading that took this much processor time."""
        self._began_ns = self._clock()
        self._rest_ns = max(self._least_ns, self._rest * cost_ns)


class Member:
    """One process and its open files, which stay valid for it alone when the kernel reuses its number."""

    __slots__ = ("_stat", "_statm", "parent", "pid")

    def __init__(self, proc: str, pid: int, parent: Member | None) -> None:
        self.pid = pid
        self.parent = parent
        self._stat = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._statm = os.open(f"{proc}/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._stat)
            raise

    def read_stat(self) -> list[bytes]:
        """Return the fields after the name, which may contain any character; the first field is the state."""
        return fields_of(os.pread(self._stat, STAT_BYTES, 0))

    def read_resident_pages(self) -> int:
        return int(os.pread(self._statm, STATM_BYTES, 0).split(maxsplit=2)[1])

    def close(self) -> None:
        os.close(self._stat)
        os.close(self._statm)


def fields_of(stat: bytes) -> list[bytes]:
    return stat[stat.rindex(b")") + 2 :].split()


class ProcessTree:
    """The living members, parents before their children. A process whose parent ended stays a member."""

    def __init__(self, proc: Path, clock: SensorClock, least_ns: int = TREE_LOOK_NS, rest: int = PART_REST) -> None:
        self._proc = str(proc)
        self._rest_timer = RestTimer(clock, least_ns, rest)
        self._has_lists = True
        self._load: int | None = None
        self._newest: bytes | None = None
        self._walk: Iterator[None] | None = None
        self._spent_ns = 0
        self.members: list[Member] = []
        self.missing: Missing | None = Missing("nobody is watched yet")

    def open(self, pid: int) -> None:
        """Start with this process; `missing` is the reason where that is not possible."""
        try:
            self.members = [Member(self._proc, pid, None)]
        except FileNotFoundError:
            self.missing = Missing(f"process {pid} is not there")
            return
        except OSError as error:
            self.missing = Missing(f"process {pid} cannot be watched: {error.strerror}")
            return
        self.missing = None
        try:
            self._children_of(pid, str(pid))
        except OSError:
            self._has_lists = False
        with contextlib.suppress(OSError):
            self._load = os.open(f"{self._proc}/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        self._newest = self._newest_process()
        collections.deque(self._find_children(), maxlen=0)
        self._rest_timer.took(0)

    def look(self) -> None:
        """Find new processes, if it is time and there can be any; many threads take several looks."""
        if self._walk is None:
            if not self.members or not self._rest_timer.is_due():
                return
            newest = self._newest_process()
            if newest is not None and newest == self._newest:
                self._rest_timer.took(0)
                return
            self._newest = newest
            self._walk = self._find_children()
            self._spent_ns = 0
        before_ns = time.thread_time_ns()
        looked_at = sum(1 for _ in islice(self._walk, THREADS_A_LOOK))
        self._spent_ns += time.thread_time_ns() - before_ns
        if looked_at < THREADS_A_LOOK:
            self._walk = None
            self._rest_timer.took(self._spent_ns)

    def look_whole(self) -> None:
        """Find all new processes in one call, if it is time and there can be any."""
        self.look()
        while self._walk is not None:
            self.look()

    def drop(self, gone: list[Member]) -> None:
        """Remove members that have ended. Their numbers may be reused, so the next look is a complete one."""
        for member in gone:
            member.close()
            self.members.remove(member)
        self._newest = None

    def threads_of(self, member: Member) -> list[str]:
        try:
            return os.listdir(f"{self._proc}/{member.pid}/task")  # noqa: PTH208  no paths are wanted, ten times a second
        except OSError:
            return []

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.members = []
        self._walk = None
        if self._load is not None:
            os.close(self._load)
            self._load = None

    def _newest_process(self) -> bytes | None:
        """Return the newest process or thread number; it changes when a process is started. Some systems report 0."""
        if self._load is None:
            return None
        try:
            newest = os.pread(self._load, LOAD_BYTES, 0).split()[4]
        except (OSError, IndexError):
            return None
        return None if newest == b"0" else newest

    def _find_children(self) -> Iterator[None]:
        return self._walk_lists() if self._has_lists else self._walk_processes()

    def _walk_lists(self) -> Iterator[None]:
        """Go through the child lists of all threads, including those of new members; pause after each."""
        known = {member.pid for member in self.members}
        queue = list(self.members)
        for member in queue:  # grows while it is walked
            for thread in self.threads_of(member):
                try:
                    children = self._children_of(member.pid, thread)
                except OSError:
                    self._newest = None  # it ended, and its children moved to another thread's list: look again
                    children = []
                queue += self._take_in(member, [pid for pid in children if pid not in known], known)
                yield

    def _walk_processes(self) -> Iterator[None]:
        """Read the parent of every process of the machine, pausing after each; then add the descendants."""
        children: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):  # noqa: PTH208  no paths are wanted
            if name.isdigit():
                children.setdefault(self._parent_of(int(name)), []).append(int(name))
                yield
        known = {member.pid for member in self.members}
        queue = list(self.members)
        for member in queue:  # grows while it is walked
            # The kernel may have reused a number meanwhile.
            born = [pid for pid in children.get(member.pid, ()) if pid not in known]
            queue += self._take_in(member, [pid for pid in born if self._parent_of(pid) == member.pid], known)

    def _take_in(self, parent: Member, pids: list[int], known: set[int]) -> list[Member]:
        """Make members of a process's children; a child that has ended meanwhile is skipped."""
        found = []
        for pid in pids[: MEMBERS_MOST - len(self.members)]:
            with contextlib.suppress(OSError):
                found.append(Member(self._proc, pid, parent))
        self.members += found
        known.update(member.pid for member in found)
        return found

    def _parent_of(self, pid: int) -> int:
        """Return the parent of a process, or 0 if it has ended."""
        try:
            return int(fields_of(read_once(f"{self._proc}/{pid}/stat"))[PARENT])
        except (OSError, ValueError, IndexError):
            return 0

    def _children_of(self, pid: int, thread: str) -> list[int]:
        return [int(word) for word in read_once(f"{self._proc}/{pid}/task/{thread}/children").split()]


# What the processes of a heat use together: processor time, page faults, memory, waiting for a core.
#
# When a parent waits for a process that ended, the kernel adds the use of that process to the parent's count of ended
# children. It does not if the parent ended first or ignores its children. So the last counts of an ended process are
# compared with the growth of its nearest living ancestor; the difference is kept here.

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
TREE = (
    Channel("heat", "busy_s", "s", "counter"),
    Channel("heat", "minor_faults", "faults", "counter"),
    Channel("heat", "major_faults", "faults", "counter"),
    Channel("heat", "resident_bytes", "bytes"),
    Channel("heat", "processes", "processes"),
    Channel("heat", "threads", "threads"),
)
# Fields of /proc/PID/stat, counted from the state.
STATE = 0
MINOR = 7
MINOR_TAKEN = 8
MAJOR = 9
MAJOR_TAKEN = 10
TIME_COLUMNS = slice(11, 15)
TAKEN_COLUMNS = slice(13, 15)
THREADS = 17
# A thread's file takes about 10 us to read. The threads that compute are among the first of a process.
THREADS_MOST = 64
WAITED = 1  # of three numbers: time on a core, time ready without a core, and how often
Counts = tuple[float, ...]


class HasParent(Protocol):
    """A process of the tree, known by its parent."""

    @property
    def parent(self) -> Self | None: ...


M = TypeVar("M", bound=HasParent)


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """One process's counts: `total` includes those of its ended children, `taken` is those of the children alone."""

    total: Counts
    taken: Counts


class TreeCounter(Generic[M]):
    """Counts of a process tree whose members come and go: nothing is lost and nothing is counted twice."""

    def __init__(self, width: int) -> None:
        self._kept = self._most = (0.0,) * width
        self._last: Mapping[M, ProcessCounts] = {}

    def add_up(self, shown: Mapping[M, ProcessCounts]) -> Counts:
        """Return the counts of the whole tree; they never fall."""
        if not self._last.keys() <= shown.keys():
            self._settle(shown)
        self._last = shown
        columns = zip(*(process_counts.total for process_counts in shown.values()), self._kept, self._most, strict=True)
        self._most = tuple(max(sum(column[:-1]), column[-1]) for column in columns)
        return self._most

    def _settle(self, shown: Mapping[M, ProcessCounts]) -> None:
        owed: dict[M | None, list[Counts]] = {}
        for member, last in self._last.items():
            if member in shown:
                continue
            heir = member.parent
            while heir is not None and heir not in shown:
                heir = heir.parent
            owed.setdefault(heir, []).append(last.total)
        nothing = (0.0,) * len(self._kept)
        for heir, debts in owed.items():
            grown: Counts = nothing  # what the heir has taken over since it was last read
            if heir is not None:
                before = self._last[heir].taken if heir in self._last else nothing
                grown = tuple(now - earlier for now, earlier in zip(shown[heir].taken, before, strict=True))
            totals = map(sum, zip(*debts, strict=True))
            self._kept = tuple(
                kept + max(0.0, total - taken) for kept, total, taken in zip(self._kept, totals, grown, strict=True)
            )


class TreeUsage:
    """Usage of all processes. Resident memory is their sum: shared pages count for each.

    (For the proportional share, PSS, the kernel would walk every page, which takes milliseconds per reading.) It comes
    from statm, which is exact since Linux 6.16; before, it may lag by some pages per core.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._counter: TreeCounter[Member] = TreeCounter(3)

    def open(self, _pid: int) -> Opened:
        """Expects an open process tree."""
        if self._tree.missing is not None:
            return Opened((), tuple((channel, self._tree.missing) for channel in TREE))
        return Opened(TREE)

    def read(self) -> Figures:
        shown, pages, threads = self._read_members()
        if len(shown) < len(self._tree.members):
            # A parent that was read before may since have taken over the counts of an ended child: read all again.
            self._tree.drop([member for member in self._tree.members if member not in shown])
            shown, pages, threads = self._read_members()
        if not shown:
            return (None,) * len(TREE)
        ticks, minor, major = self._counter.add_up(shown)
        return ticks * TICK_S, minor, major, pages * PAGE_BYTES, len(threads), sum(threads)

    def close(self) -> None:
        """The owner of the process tree closes it."""

    def _read_members(self) -> tuple[dict[Member, ProcessCounts], int, list[int]]:
        shown: dict[Member, ProcessCounts] = {}
        pages = 0
        threads: list[int] = []
        for member in self._tree.members:
            try:
                fields = member.read_stat()
                pages += member.read_resident_pages()
            except (OSError, ValueError, IndexError):
                continue
            taken_ticks = sum(map(int, fields[TAKEN_COLUMNS]))
            minor_taken = int(fields[MINOR_TAKEN])
            major_taken = int(fields[MAJOR_TAKEN])
            total = (
                sum(map(int, fields[TIME_COLUMNS])),
                int(fields[MINOR]) + minor_taken,
                int(fields[MAJOR]) + major_taken,
            )
            shown[member] = ProcessCounts(total, (taken_ticks, minor_taken, major_taken))
            if fields[STATE] not in {b"Z", b"X"}:
                threads.append(int(fields[THREADS]))
        return shown, pages, threads


class CoreWait:
    """How long the threads of the tree were ready to run without a core; threads that ended stay counted."""

    def __init__(self, tree: ProcessTree, proc: Path) -> None:
        self._tree = tree
        self._proc = str(proc)
        self._alive: dict[str, int] = {}
        self._ended_ns = 0

    def read_s(self) -> float | None:
        """Return the seconds so far; None where this kernel does not count them (CONFIG_SCHED_INFO)."""
        alive: dict[str, int] = {}
        for member in self._tree.members:
            for thread in self._tree.threads_of(member)[: THREADS_MOST - len(alive)]:
                try:
                    alive[thread] = int(read_once(f"{self._proc}/{member.pid}/task/{thread}/schedstat").split()[WAITED])
                except (OSError, ValueError, IndexError):
                    continue
        if not alive and not self._alive:
            return None
        self._ended_ns += sum(last for thread, last in self._alive.items() if alive.get(thread, -1) < last)
        self._alive = alive
        return (sum(alive.values()) + self._ended_ns) / 1e9


# The machine and the heat's processes as psutil reports them, where there is no /proc: macOS.

TREE_CHANNELS = (
    *(*machine.STAT, *machine.MEMORY_CHANNELS, *machine.GROUP_USED, *machine.GROUP_CACHE, *machine.GROUP_THROTTLED),
    *(*machine.FREQUENCY, *machine.TEMPERATURE, *TREE),
)
MACHINE_CHANNELS = (machine.STAT[0], *machine.MEMORY_CHANNELS)
PORTABLE_TREE = tuple(channel for channel in TREE if not channel.name.endswith("faults"))
LINUX_ONLY = tuple(
    (channel, Missing("only the kernel's /proc and /sys report it, which this system does not have"))
    for channel in TREE_CHANNELS
    if channel not in {*MACHINE_CHANNELS, *PORTABLE_TREE}
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
        return Opened(MACHINE_CHANNELS, LINUX_ONLY)

    def read(self) -> Figures:
        figures: list[float | None] = []
        for ask in ASKED:
            try:
                figures.append(ask())
            except (OSError, RuntimeError, psutil.Error):
                figures.append(None)
        return figures

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
            return Opened((), tuple((channel, Missing(f"process {pid} is not there")) for channel in PORTABLE_TREE))
        self._members = {self._root: _TreeMember(None)}
        return Opened(PORTABLE_TREE)

    def read(self) -> Figures:
        if self._root is None:
            return ()
        self._find_children(self._root)
        shown: dict[_TreeMember, ProcessCounts] = {}
        resident = 0
        threads = 0
        for process, kin in list(self._members.items()):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    held = process.memory_info().rss
                    threads += process.num_threads()
            except psutil.Error:
                del self._members[process]
                continue
            shown[kin] = ProcessCounts((sum(times[:4]),), (sum(times[2:4]),))
            resident += held
        if not shown:
            return (None,) * len(PORTABLE_TREE)
        return *self._counter.add_up(shown), resident, len(shown), threads

    def close(self) -> None:
        self._root = None
        self._members = {}

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
