"""Where unfinished trainings lie: one file a lane and seed, and a lock that says who is at work on them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from laptime.disk import remove_stale
from laptime.errors import StoreError, UsageError
from laptime.store.files import home_folder


def path_of(record_id: str, lane: str, seed: int) -> Path:
    """Give the place of one training's checkpoint; the digest tells lanes apart whose names look alike in a file's."""
    plain = re.sub(r"[^A-Za-z0-9=.-]+", "-", lane)[:60]
    digest = hashlib.sha256(lane.encode()).hexdigest()[:8]
    return _folder(record_id) / f"{plain}-{digest}-seed{seed}.npz"


def drop(path: Path) -> None:
    """Remove the checkpoint of a training that is finished; nothing is lost if that does not work."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def claim(record_id: str) -> Iterator[None]:
    """Keep others from training on at the same record; the system lets go of it with this process, however it ends."""
    folder = _folder(record_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        says = f"no checkpoint can be kept in {folder}: {error.strerror}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    try:
        _lock(held, record_id)
        try:
            yield
        finally:
            _tidy(folder)
    finally:
        os.close(held)


def _lock(held: int, record_id: str) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{record_id} is being trained by another process", "wait for its end, or end it") from None


def _tidy(folder: Path) -> None:
    """Leave no folder behind in which nothing lies but the lock, nor what a killed child was writing."""
    remove_stale(folder)
    with contextlib.suppress(OSError):
        if [each.name for each in folder.iterdir()] == ["lock"]:
            (folder / "lock").unlink()
            folder.rmdir()


def _folder(record_id: str) -> Path:
    return home_folder() / "checkpoints" / record_id
