"""Let one process at a time work on a folder: by the system's lock, or by a file that names its owner.

The system releases its lock when the process ends, however it ends. Some file systems have no such lock (Lustre, and
NFS without a lock server). There a file holds the owner's host, process number and start time, which show whether the
owner is gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from laptime.model.record import Writer
from laptime.store.disk import host, read_regular, temporary_name

LOCK = "lock"
OWNER = "owner"
NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
LOCK_TRIES = 100
OWNER_MOST_BYTES = 4_096  # of an owner's file
WRITTEN_WITHIN_S = 60.0  # an owner that has not written its name by then never will


class Busy(Exception):  # noqa: N818  it is not one of laptime's errors
    """Another process works in the folder. Without a system lock, `owner` is the file that names it."""

    def __init__(self, owner: Path | None = None) -> None:
        super().__init__()
        self.owner = owner


@dataclass(frozen=True, slots=True)
class Held:
    """A folder that this process has locked. Without a descriptor, the owner's file is the lock."""

    folder: Path
    descriptor: int | None

    def release(self) -> None:
        """Release the lock, and remove the folder if nothing else is in it."""
        with contextlib.suppress(OSError):
            if {path.name for path in self.folder.iterdir()} <= {LOCK, OWNER}:
                # A process that opened this file earlier sees, once it has the lock, that it is gone, and tries again.
                (self.folder / LOCK).unlink(missing_ok=True)
        if self.descriptor is None:
            with contextlib.suppress(OSError):
                (self.folder / OWNER).unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        if self.descriptor is not None:
            os.close(self.descriptor)


def take(folder: Path) -> Held:
    """Lock a folder for this process, or raise Busy. Other failures are an OSError."""
    refused: OSError | None = None
    for _ in range(LOCK_TRIES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held = _try_lock(folder)
        except (FileNotFoundError, FileExistsError) as error:  # another process removed its empty folder
            refused = error
            continue
        if held is not None:
            return held
    raise refused or Busy()


def _try_lock(folder: Path) -> Held | None:
    """Lock the file and check that it is still the one that others would open. None means: try again."""
    place = folder / LOCK
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), place.stat()):
            held = Held(folder, descriptor)
            descriptor = -1
            return held
    except BlockingIOError:
        raise Busy from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return _try_owner(folder)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return None


def _try_owner(folder: Path) -> Held | None:
    """Write the owner's file unless another process owns the folder. Remove a dead owner's file, and return None."""
    place = folder / OWNER
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        owner = read_regular(place, OWNER_MOST_BYTES)
        if _may_live(owner, place):
            raise Busy(place) from None
        # If several processes try, only one can rename the file. A new owner's file is put back.
        aside = place.with_name(temporary_name(OWNER))
        place.rename(aside)
        if aside.read_bytes() == owner:
            aside.unlink()
        else:
            aside.rename(place)
        return None
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(this_process()))
    return Held(folder, None)


def _may_live(owner: bytes, place: Path) -> bool:
    """Whether an owner may still run. An owner on another machine always may."""
    if not owner:
        return time.time() - place.stat().st_mtime < WRITTEN_WITHIN_S
    try:
        return not is_gone(msgspec.json.decode(owner, type=Writer))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


# Which process writes a record, and whether it still runs. Its number alone may belong to another program by now.

UNKNOWN_OWNER = ""


def this_process() -> Writer:
    """Return what identifies this process, also after a restart of the machine."""
    return Writer(host(), os.getpid(), _began(os.getpid()) or UNKNOWN_OWNER)


def is_gone(writer: Writer | None) -> bool:
    """Whether the process has ended. False if that is not known: on another machine, or from an older record."""
    if writer is None or writer.host != host() or not writer.began:
        return False
    return _began(writer.pid) not in {writer.began, UNKNOWN_OWNER}


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
        boot = _read("/proc/sys/kernel/random/boot_id").strip()
        # The ticks are the 22nd field. The second is a name in brackets, which may itself hold spaces and brackets.
        ticks = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except psutil.AccessDenied:
        return UNKNOWN_OWNER
    except (psutil.Error, OSError, LookupError, ValueError, OverflowError):
        return None
    return f"{boot} {ticks}"


def _read(place: str) -> str:
    return Path(place).read_text(encoding="ascii", errors="replace")
