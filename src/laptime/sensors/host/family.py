"""Who belongs to the heat: the process that it began with and all that were started from there.

They are found by the lists of children that the kernel keeps, never by walking all processes of the machine.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from laptime.model.missing import Missing
from laptime.sensors.files import read_once
from laptime.sensors.host.pace import Clock, Pace

# At most once a second, and only if anybody on this machine has forked since.
LOOK_NS = 1_000_000_000
# Two files are held open for each. What those beyond do is counted when they end, in their parents' counts.
MEMBERS_MOST = 256
# A thread's list takes some 10 us: so many at a time hold up nobody.
THREADS_A_LOOK = 64
STAT_BYTES, STATM_BYTES, LOAD_BYTES = 1024, 256, 128


class Member:
    """One process, by its open files: they stay its own when its number is given to another."""

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
        """Give the fields behind the name, which may hold anything; the first is the state."""
        data = os.pread(self._stat, STAT_BYTES, 0)
        return data[data.rindex(b")") + 2 :].split()

    def read_resident_pages(self) -> int:
        return int(os.pread(self._statm, STATM_BYTES, 0).split(maxsplit=2)[1])

    def close(self) -> None:
        os.close(self._stat)
        os.close(self._statm)


class Family:
    """The living members, parents before their children. One whose parent ended stays a member."""

    def __init__(self, proc: Path, clock: Clock) -> None:
        self._proc, self._pace = str(proc), Pace(clock, LOOK_NS)
        self._load: int | None = None
        self._newest: bytes | None = None
        self._walk: Iterator[None] | None = None
        self._spent_ns = 0
        self.members: list[Member] = []
        self.missing: Missing | None = Missing("nobody is watched yet")

    def open(self, pid: int) -> None:
        """Begin with this process; what stands in the way is `missing`."""
        self.missing = self._begin(pid)
        if self.missing is None:
            self._newest = self._newest_process()
            collections.deque(self._find_children(), maxlen=0)
            self._pace.took(0)

    def look(self) -> None:
        """Find those that were started since, if it is time and there can be any; many threads take several looks."""
        if self._walk is None:
            if not self.members or not self._pace.is_due():
                return
            newest = self._newest_process()
            if newest is not None and newest == self._newest:
                self._pace.took(0)
                return
            self._newest, self._walk, self._spent_ns = newest, self._find_children(), 0
        before_ns = time.thread_time_ns()
        looked_at = sum(1 for _ in islice(self._walk, THREADS_A_LOOK))
        self._spent_ns += time.thread_time_ns() - before_ns
        if looked_at < THREADS_A_LOOK:
            self._walk = None
            self._pace.took(self._spent_ns)

    def drop(self, gone: list[Member]) -> None:
        """Part with members that have ended. Their numbers are free for new ones, so the next look is a whole one."""
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
            self.close()
            return Missing("this kernel lists no children of a process (CONFIG_PROC_CHILDREN)")
        with contextlib.suppress(OSError):
            self._load = os.open(f"{self._proc}/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        return None

    def _newest_process(self) -> bytes | None:
        """Give the number last given to a process or thread: while it stays, nobody was started. Some systems say 0."""
        if self._load is None:
            return None
        try:
            newest = os.pread(self._load, LOAD_BYTES, 0).split()[4]
        except (OSError, IndexError):
            return None
        return None if newest == b"0" else newest

    def _find_children(self) -> Iterator[None]:
        """Go through the lists of all threads, those of members that are found on the way too; pause after each."""
        known = {member.pid for member in self.members}
        queue = list(self.members)
        for member in queue:  # which grows while it is walked
            for thread in self.threads_of(member):
                with contextlib.suppress(OSError):
                    for pid in self._children_of(member.pid, thread):
                        if pid not in known and len(self.members) < MEMBERS_MOST:
                            found = Member(self._proc, pid, member)
                            self.members.append(found)
                            queue.append(found)
                            known.add(pid)
                yield

    def _children_of(self, pid: int, thread: str) -> list[int]:
        return [int(word) for word in read_once(f"{self._proc}/{pid}/task/{thread}/children").split()]
