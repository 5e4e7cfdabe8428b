"""Where checkpoints of unfinished trainings are: one file per lane and seed. A lock keeps other processes away."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from laptime.disk import remove_stale
from laptime.errors import LaneError, StoreError, UsageError
from laptime.model.missing import Missing
from laptime.store import lock
from laptime.store.files import home_folder


def path_of(record_id: str, lane: str, seed: int) -> Path:
    """Return the path of one training's checkpoint. The digest separates lanes whose names become the same here."""
    plain = re.sub(r"[^A-Za-z0-9=.-]+", "-", lane)[:60]
    digest = hashlib.sha256(lane.encode()).hexdigest()[:8]
    return _folder(record_id) / f"{plain}-{digest}-seed{seed}.npz"


def count_laps(path: Path) -> int | Missing:
    """Return how many laps a checkpoint holds, or why it cannot be used. Raise if another version wrote it."""
    from laptime import checkpoint  # noqa: PLC0415  imports numpy, which nothing else here needs

    if not path.exists():
        return Missing("is gone")
    try:
        return checkpoint.count_laps(path)
    except LaneError:
        return Missing("is damaged")


def drop(path: Path) -> None:
    """Remove the checkpoint of a finished training. If that fails, nothing is lost."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def drop_all(record_id: str) -> None:
    """Remove the checkpoints of a record that is removed, unless a process works on them."""
    folder = _folder(record_id)
    with contextlib.suppress(OSError, lock.Busy):
        if folder.is_dir():
            held = lock.take(folder)
            for path in folder.glob("*.npz"):
                path.unlink()
            held.release()  # removes the folder if nothing else is in it


@contextlib.contextmanager
def claim(record_id: str) -> Iterator[None]:
    """Lock a record's trainings against other processes. The lock ends with this process, however that ends."""
    folder = _folder(record_id)
    try:
        held = lock.take(folder)
    except lock.Busy as busy:
        way_out = "wait for its end, or end it"
        if busy.owner is not None:
            way_out += f"; if it is gone, delete {busy.owner}"
        raise UsageError(f"{record_id} is being trained by another process", way_out) from None
    except OSError as error:
        says = f"no checkpoint can be kept in {folder}: {error.strerror}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    try:
        yield
    finally:
        remove_stale(folder)  # left by a child that was killed while writing
        held.release()


def _folder(record_id: str) -> Path:
    return home_folder() / "checkpoints" / record_id
