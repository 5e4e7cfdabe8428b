"""Saved references of proofs: a float64 run is slow and always the same, so the next race uses it again.

A proof's batches of a user's own data are kept while a question runs, and removed after it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laptime.model.errors import LaneError, StoreError, UsageError
from laptime.model.hardware import NOT_MEASURED, DeviceKey, DevicePeaks
from laptime.model.quantities import Missing
from laptime.model.sample import Reference
from laptime.store import lock
from laptime.store.disk import SUFFIX, cache_folder, host, read_regular, remove_stale, temporary_name, write_atomically
from laptime.store.files import SAVING_REASONS
from laptime.store.index import home_folder

REFERENCE_MOST_BYTES = 2**26  # of a reference, which has a few kB


def load_reference(key: str) -> Reference | None:
    """Return the reference that was saved under this key, or None if there is none that can be read."""
    try:
        found = msgspec.json.decode(read_regular(_path_of(key), REFERENCE_MOST_BYTES), type=Reference)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.key == key else None


def save_reference(reference: Reference) -> bool:
    """Save a reference. Return whether that worked; nothing is lost if it did not."""
    path = _path_of(reference.key)
    try:
        remove_stale(path.parent)
        write_atomically(path, msgspec.json.encode(reference))
    except OSError:
        return False
    return True


def place_batches(record_id: str, which: str) -> Path:
    """Return the file for the batches of one proof. Like every temporary file, it names the process that made it."""
    return _folder() / temporary_name(f"{_plain(record_id)}-{which}")


@contextlib.contextmanager
def batches_kept(record_id: str) -> Iterator[None]:
    """Make the folder for a proof's batches, and remove them at the end. Also remove those of killed processes."""
    with contextlib.suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True)
        remove_stale(_folder())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for path in _folder().glob(f".{_plain(record_id)}-*.{host()}.{os.getpid()}{SUFFIX}"):
                path.unlink()


def _plain(record_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", record_id)[:24]


def _path_of(key: str) -> Path:
    """Name the file by the key, or by its digest where the key cannot be a file's name."""
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", key)
    name = key if plain else hashlib.sha256(key.encode()).hexdigest()
    return _folder() / f"{name}.json"


def _folder() -> Path:
    return cache_folder() / "references"


# Saved peaks of devices. Peaks of another driver, or of another version of laptime, have to be measured again.

SHAPE = 1
"""Changes when earlier peaks no longer mean the same as those measured now."""
MOST_PEAKS_BYTES = 2**20
MEASURED_AGAIN_HINT = "laptime devices --measure measures them again"


@dataclass(frozen=True, slots=True)
class _Kept:
    shape: int
    peaks: DevicePeaks | None = None


def load_peaks(key: DeviceKey) -> DevicePeaks | Missing:
    """Return the saved peaks of a device, or why there are none that hold for it."""
    try:
        kept = msgspec.json.decode(read_regular(_peaks_path(key.device), MOST_PEAKS_BYTES), type=_Kept)
    except FileNotFoundError:
        return NOT_MEASURED
    except OSError as error:
        return Missing(f"its peaks cannot be read: {error.strerror or error}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Missing(f"the file of its peaks is damaged; {MEASURED_AGAIN_HINT}")
    found = kept.peaks
    if kept.shape != SHAPE or found is None or found.device != key.device:
        return Missing(f"its peaks were kept by another version of laptime; {MEASURED_AGAIN_HINT}")
    if key.driver and found.driver and key.driver != found.driver:
        return Missing(
            f"its peaks were measured with driver {found.driver}, and this is {key.driver}; {MEASURED_AGAIN_HINT}"
        )
    return found


def save_peaks(peaks: DevicePeaks) -> Path:
    """Save a device's peaks. If they cannot be written, the old file stays and a StoreError says why."""
    path = _peaks_path(peaks.device)
    try:
        remove_stale(path.parent)
        write_atomically(path, msgspec.json.encode(_Kept(SHAPE, peaks)))
    except OSError as error:
        reason = SAVING_REASONS.get(error.errno or errno.EIO) or error.strerror or str(error)
        says = f"the peaks of {peaks.label} could not be saved in {path.parent}: {reason}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    return path


def _peaks_path(device: str) -> Path:
    """Return a file path with a readable name. The digest separates devices whose names become the same here."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", device)[:60].strip("-.") or "device"
    return home_folder() / "peaks" / f"{plain}-{hashlib.sha256(device.encode()).hexdigest()[:8]}.json"


# Where checkpoints of unfinished trainings are: one file per lane and seed. A lock keeps other processes away.


def path_of(record_id: str, lane: str, seed: int) -> Path:
    """Return the path of one training's checkpoint. The digest separates lanes whose names become the same here."""
    plain = re.sub(r"[^A-Za-z0-9=.-]+", "-", lane)[:60]
    digest = hashlib.sha256(lane.encode()).hexdigest()[:8]
    return _checkpoints_folder(record_id) / f"{plain}-{digest}-seed{seed}.npz"


def count_laps(path: Path) -> int | Missing:
    """Return how many laps a checkpoint holds, or why it cannot be used. Raise if another version wrote it."""
    from laptime.store import checkpoint  # noqa: PLC0415  imports numpy, which nothing else here needs

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
    folder = _checkpoints_folder(record_id)
    with contextlib.suppress(OSError, lock.Busy):
        if folder.is_dir():
            held = lock.take(folder)
            for path in folder.glob("*.npz"):
                path.unlink()
            held.release()  # removes the folder if nothing else is in it


@contextlib.contextmanager
def claim(record_id: str) -> Iterator[None]:
    """Lock a record's trainings against other processes. The lock ends with this process, however that ends."""
    folder = _checkpoints_folder(record_id)
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


def _checkpoints_folder(record_id: str) -> Path:
    return home_folder() / "checkpoints" / record_id
