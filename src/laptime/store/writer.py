"""Which process writes a record, and whether it still runs. Its number alone may belong to another program by now."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from laptime.disk import host
from laptime.model.record import Writer

UNKNOWN = ""


def this_process() -> Writer:
    """Return what identifies this process, also after a restart of the machine."""
    return Writer(host(), os.getpid(), _began(os.getpid()) or UNKNOWN)


def is_gone(writer: Writer | None) -> bool:
    """Whether the process has ended. False if that is not known: on another machine, or from an older record."""
    if writer is None or writer.host != host() or not writer.began:
        return False
    return _began(writer.pid) not in {writer.began, UNKNOWN}


def _began(pid: int) -> str | None:
    """Return when a process began, or None if it does not exist or is a zombie.

    On Linux this is the boot's id and the clock ticks since then: setting the clock changes neither.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if not psutil.LINUX:
            return f"{process.create_time():.2f}"
        return f"{_read('/proc/sys/kernel/random/boot_id').strip()} {_ticks(_read(f'/proc/{pid}/stat'))}"
    except psutil.AccessDenied:
        return UNKNOWN
    except (psutil.Error, OSError, LookupError, ValueError, OverflowError):
        return None


def _ticks(stat: str) -> str:
    """Return the 22nd field. The second is a name in brackets, which may itself hold spaces and brackets."""
    return stat.rpartition(")")[2].split()[19]


def _read(place: str) -> str:
    return Path(place).read_text(encoding="ascii", errors="replace")
