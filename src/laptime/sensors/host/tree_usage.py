"""What the processes of a heat use together: processor time, page faults, memory, waiting for a core.

When a parent waits for a process that ended, the kernel adds the use of that process to the parent's count of ended
children. It does not if the parent ended first or ignores its children. So the last counts of an ended process are
compared with the growth of its nearest living ancestor; the difference is kept here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from laptime.model.timeline import Channel, Opened
from laptime.sensors.files import read_once
from laptime.sensors.host.machine import TICK_S, Figures
from laptime.sensors.host.process_tree import Member, ProcessTree

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
STATE, MINOR, MINOR_TAKEN, MAJOR, MAJOR_TAKEN, THREADS = 0, 7, 8, 9, 10, 17
TIMES, TAKEN_TIMES = slice(11, 15), slice(13, 15)
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
        columns = zip(*(each.total for each in shown.values()), self._kept, self._most, strict=True)
        self._most = tuple(max(sum(column[:-1]), column[-1]) for column in columns)
        return self._most

    def _settle(self, shown: Mapping[M, ProcessCounts]) -> None:
        owed: dict[M | None, list[Counts]] = {}
        for member, last in self._last.items():
            if member not in shown:
                owed.setdefault(_heir(member, shown), []).append(last.total)
        for heir, debts in owed.items():
            grown = self._grown(heir, shown)
            short = (max(0.0, sum(debt) - each) for debt, each in zip(zip(*debts, strict=True), grown, strict=True))
            self._kept = tuple(kept + each for kept, each in zip(self._kept, short, strict=True))

    def _grown(self, heir: M | None, shown: Mapping[M, ProcessCounts]) -> Counts:
        """Return what an heir has taken over since it was last read; 0 for no heir."""
        if heir is None:
            return (0.0,) * len(self._kept)
        now = shown[heir].taken
        before = self._last[heir].taken if heir in self._last else (0.0,) * len(now)
        return tuple(after - earlier for after, earlier in zip(now, before, strict=True))


def _heir(member: M, shown: Mapping[M, ProcessCounts]) -> M | None:
    heir = member.parent
    while heir is not None and heir not in shown:
        heir = heir.parent
    return heir


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
        pages, threads = 0, []
        for member in self._tree.members:
            try:
                fields = member.read_stat()
                pages += member.read_resident_pages()
            except (OSError, ValueError, IndexError):
                continue
            taken_ticks = sum(map(int, fields[TAKEN_TIMES]))
            minor_taken, major_taken = int(fields[MINOR_TAKEN]), int(fields[MAJOR_TAKEN])
            total = (
                sum(map(int, fields[TIMES])),
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
        self._tree, self._proc = tree, str(proc)
        self._alive: dict[str, int] = {}
        self._ended_ns = 0

    def read_s(self) -> float | None:
        """Return the seconds so far; None where this kernel does not count them (CONFIG_SCHED_INFO)."""
        seen: dict[str, int] = {}
        for member in self._tree.members:
            for thread in self._tree.threads_of(member)[: THREADS_MOST - len(seen)]:
                try:
                    seen[thread] = int(read_once(f"{self._proc}/{member.pid}/task/{thread}/schedstat").split()[WAITED])
                except (OSError, ValueError, IndexError):
                    continue
        if not seen and not self._alive:
            return None
        self._ended_ns += sum(last for thread, last in self._alive.items() if seen.get(thread, -1) < last)
        self._alive = seen
        return (sum(seen.values()) + self._ended_ns) / 1e9
