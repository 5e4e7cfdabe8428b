"""The dear figures of the heat's processes: one file a thread, and one a process that asks for the right to look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from laptime.model.missing import Missing
from laptime.model.timeline import Channel, Opened
from laptime.sensors.files import read_once
from laptime.sensors.host.family import Family, Member
from laptime.sensors.host.ledger import Ledger, Shown
from laptime.sensors.host.machine import find
from laptime.sensors.host.pace import SLOW_NS, Clock, Pace
from laptime.sensors.host.source import Figures

# A status takes some 30 us: so many at a time hold up nobody.
THREADS_A_READING = 64
STATUS = (
    Channel("heat", "peak_resident_bytes", "bytes"),
    Channel("heat", "voluntary_switches", "switches", "counter"),
    Channel("heat", "involuntary_switches", "switches", "counter"),
)
TRAFFIC = (
    Channel("heat", "read_bytes", "bytes", "counter"),
    Channel("heat", "written_bytes", "bytes", "counter"),
    Channel("heat", "disk_read_bytes", "bytes", "counter"),
    Channel("heat", "disk_written_bytes", "bytes", "counter"),
)
TRAFFIC_WORDS = (b"rchar:", b"\nwchar:", b"\nread_bytes:", b"\nwrite_bytes:")


class Threads:
    """What stands in the status of each thread, begun once a second; of many threads some at each reading.

    The peak is the sum of what each living process held at most, at whatever times: no tree held more. Switches are
    those of threads that were alive when they were looked at; what a thread had before it ended is kept.
    """

    def __init__(self, family: Family, proc: Path, clock: Clock) -> None:
        self._family, self._proc, self._pace = family, str(proc), Pace(clock, SLOW_NS)
        self._walk: Iterator[None] | None = None
        self._seen: dict[str, tuple[int, int]] = {}
        self._alive: dict[str, tuple[int, int]] = {}
        self._ended = (0, 0)
        self._peak_kb = 0

    def open(self, pid: int) -> Opened:
        """Expects an open family."""
        reason = self._family.missing
        if reason is None:
            with contextlib.suppress(OSError):
                status = read_once(f"{self._proc}/{pid}/status")
                if find(status, b"VmHWM:") is not None and _switches(status) is not None:
                    return Opened(STATUS)
            reason = Missing(f"{self._proc}/{pid}/status does not tell it")
        return Opened((), tuple((channel, reason) for channel in STATUS))

    def read(self) -> Figures:
        if self._walk is None:
            if not self._pace.is_due():
                return None, None, None
            self._pace.took(0)
            self._walk = self._look()
        if sum(1 for _ in islice(self._walk, THREADS_A_READING)) == THREADS_A_READING:
            return None, None, None
        self._walk = None
        if not self._seen:
            return None, None, None
        voluntary, involuntary = self._add_up(self._seen)
        return self._peak_kb * 1024, voluntary, involuntary

    def close(self) -> None:
        """The family is closed by whom it was opened."""

    def _look(self) -> Iterator[None]:
        """Go through all threads, and pause after each."""
        self._seen, self._peak_kb = {}, 0
        for member in list(self._family.members):
            for thread in self._family.threads_of(member):
                with contextlib.suppress(OSError):
                    status = read_once(f"{self._proc}/{member.pid}/task/{thread}/status")
                    self._seen[thread] = _switches(status) or (0, 0)
                    if int(thread) == member.pid:
                        self._peak_kb += find(status, b"VmHWM:") or 0
                yield

    def _add_up(self, alive: dict[str, tuple[int, int]]) -> tuple[int, int]:
        """Give the sums of those alive and of those that ended, also where a new thread has an old one's number."""
        for thread, last in self._alive.items():
            if alive.get(thread, (-1, -1)) < last:
                self._ended = (self._ended[0] + last[0], self._ended[1] + last[1])
        self._alive = alive
        voluntary, involuntary = zip(*alive.values(), self._ended, strict=True)
        return sum(voluntary), sum(involuntary)


class Traffic:
    """Bytes read and written: what was asked of the kernel (pipes and its cache included), and what disks saw of it."""

    def __init__(self, family: Family, proc: Path) -> None:
        self._family, self._proc = family, str(proc)
        self._ledger: Ledger[Member] = Ledger(len(TRAFFIC))

    def open(self, pid: int) -> Opened:
        """Expects an open family."""
        reason = self._family.missing
        if reason is None:
            reason = Missing(f"{self._proc}/{pid}/io does not tell it")
            try:
                if self._look(self._family.members[0]) is not None:
                    return Opened(TRAFFIC)
            except OSError as error:
                reason = Missing(f"{self._proc}/{pid}/io: {error.strerror}")
        return Opened((), tuple((channel, reason) for channel in TRAFFIC))

    def read(self) -> Figures:
        shown: dict[Member, Shown] = {}
        for member in self._family.members:
            with contextlib.suppress(OSError):
                counts = self._look(member)
                if counts is not None:
                    shown[member] = Shown(counts, counts)  # those of ended children are among a process's own
        return self._ledger.add_up(shown) if shown else (None,) * len(TRAFFIC)

    def close(self) -> None:
        """The family is closed by whom it was opened."""

    def _look(self, member: Member) -> tuple[int, ...] | None:
        data = read_once(f"{self._proc}/{member.pid}/io")
        found = [find(data, word) for word in TRAFFIC_WORDS]
        counts = tuple(each for each in found if each is not None)
        return counts if len(counts) == len(TRAFFIC) else None


def _switches(status: bytes) -> tuple[int, int] | None:
    voluntary = find(status, b"\nvoluntary_ctxt_switches:")
    involuntary = find(status, b"\nnonvoluntary_ctxt_switches:")
    return None if voluntary is None or involuntary is None else (voluntary, involuntary)
