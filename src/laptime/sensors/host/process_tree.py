"""The processes of a heat: its first process and all that descend from it.

They are found by the kernel's lists of children. On a kernel without these lists (CONFIG_PROC_CHILDREN), the parent of
every process of the machine is read; the longer that takes, the less often it is done.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from laptime.model.missing import Missing
from laptime.sensors.files import read_once

Clock = Callable[[], int]

# After 1 ms of processor time, a part rests for 200 ms: at most 0.5 % of one core per part, on any machine.
REST = 200
# At most once a second, and only if a process was started on this machine since.
LOOK_NS = 1_000_000_000
# Two files are held open for each. The use of further processes is counted when they end, by their parents.
MEMBERS_MOST = 256
# A thread's list takes about 10 us: one reading reads at most this many.
THREADS_A_LOOK = 64
STAT_BYTES, STATM_BYTES, LOAD_BYTES = 1024, 256, 128
PARENT = 1  # the field after the state


class RestTimer:
    """Decides when to read again: at a fixed rate, or less often where reading is slow.

    The clock may jump: when it goes back, a reading is due.
    """

    def __init__(self, clock: Clock, least_ns: int, rest: int = REST) -> None:
        self._clock, self._least_ns, self._rest = clock, least_ns, rest
        self._began_ns, self._rest_ns = 0, -1

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
        self.pid, self.parent = pid, parent
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

    def __init__(self, proc: Path, clock: Clock, least_ns: int = LOOK_NS, rest: int = REST) -> None:
        self._proc, self._rest_timer = str(proc), RestTimer(clock, least_ns, rest)
        self._has_lists = True
        self._load: int | None = None
        self._newest: bytes | None = None
        self._walk: Iterator[None] | None = None
        self._spent_ns = 0
        self.members: list[Member] = []
        self.missing: Missing | None = Missing("nobody is watched yet")

    def open(self, pid: int) -> None:
        """Start with this process; `missing` is the reason where that is not possible."""
        self.missing = self._begin(pid)
        if self.missing is None:
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
            self._newest, self._walk, self._spent_ns = newest, self._find_children(), 0
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
        self.members, self._walk = [], None
        if self._load is not None:
            os.close(self._load)
            self._load = None

    def _begin(self, pid: int) -> Missing | None:
        try:
            self.members = [Member(self._proc, pid, None)]
        except FileNotFoundError:
            return Missing(f"process {pid} is not there")
        except OSError as error:
            return Missing(f"process {pid} cannot be watched: {error.strerror}")
        try:
            self._children_of(pid, str(pid))
        except OSError:
            self._has_lists = False
        with contextlib.suppress(OSError):
            self._load = os.open(f"{self._proc}/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        return None

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
