"""What the heat's processes use, all together: processor time, page faults, resident memory; how many there are."""

from __future__ import annotations

import os

from laptime.model.timeline import Channel, Opened
from laptime.sensors.host.family import Family, Member
from laptime.sensors.host.ledger import Ledger, Shown
from laptime.sensors.host.machine import TICK_S
from laptime.sensors.host.source import Figures

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

QUICK = (
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


class Tree:
    """The cheap figures. Resident is the sum over processes: pages that several share count for each.

    (The proportional share, PSS, would have the kernel walk every page, for milliseconds a reading.) Resident comes
    from statm, which Linux adds up exactly since 6.16; before, it may lag by some pages a core.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._ledger: Ledger[Member] = Ledger(3)

    def open(self, _pid: int) -> Opened:
        """Expects an open family, as the parts that look deeper do."""
        if self._family.missing is not None:
            return Opened((), tuple((channel, self._family.missing) for channel in QUICK))
        return Opened(QUICK)

    def read(self) -> Figures:
        shown, pages, threads = self._read_members()
        if len(shown) < len(self._family.members):
            # A parent read before may have taken over what a child used that ended meanwhile: read all that are left.
            self._family.drop([member for member in self._family.members if member not in shown])
            shown, pages, threads = self._read_members()
        if not shown:
            return (None,) * len(QUICK)
        ticks, minor, major = self._ledger.add_up(shown)
        return ticks * TICK_S, minor, major, pages * PAGE_BYTES, len(threads), sum(threads)

    def close(self) -> None:
        """The family is closed by whom it was opened."""

    def _read_members(self) -> tuple[dict[Member, Shown], int, list[int]]:
        shown: dict[Member, Shown] = {}
        pages, threads = 0, []
        for member in self._family.members:
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
            shown[member] = Shown(total, (taken_ticks, minor_taken, major_taken))
            if fields[STATE] not in {b"Z", b"X"}:
                threads.append(int(fields[THREADS]))
        return shown, pages, threads
