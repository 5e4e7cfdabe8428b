"""Saved peaks of devices. Peaks of another driver, or of another version of laptime, have to be measured again."""

from __future__ import annotations

import errno
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laptime.disk import read_regular, remove_stale, write_atomically
from laptime.errors import StoreError
from laptime.model.limits import NOT_MEASURED, DeviceKey, DevicePeaks
from laptime.model.missing import Missing
from laptime.store.files import REASONS, home_folder

SHAPE = 1
"""Changes when earlier peaks no longer mean the same as those measured now."""
MOST_BYTES = 2**20
AGAIN = "laptime devices --measure measures them again"


@dataclass(frozen=True, slots=True)
class _Kept:
    shape: int
    peaks: DevicePeaks | None = None


def load_peaks(key: DeviceKey) -> DevicePeaks | Missing:
    """Return the saved peaks of a device, or why there are none that hold for it."""
    try:
        kept = msgspec.json.decode(read_regular(_path_of(key.device), MOST_BYTES), type=_Kept)
    except FileNotFoundError:
        return NOT_MEASURED
    except OSError as error:
        return Missing(f"its peaks cannot be read: {error.strerror or error}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Missing(f"the file of its peaks is damaged; {AGAIN}")
    found = kept.peaks
    if kept.shape != SHAPE or found is None or found.device != key.device:
        return Missing(f"its peaks were kept by another version of laptime; {AGAIN}")
    if key.driver and found.driver and key.driver != found.driver:
        return Missing(f"its peaks were measured with driver {found.driver}, and this is {key.driver}; {AGAIN}")
    return found


def save_peaks(peaks: DevicePeaks) -> Path:
    """Save a device's peaks. If they cannot be written, the old file stays and a StoreError says why."""
    path = _path_of(peaks.device)
    try:
        remove_stale(path.parent)
        write_atomically(path, msgspec.json.encode(_Kept(SHAPE, peaks)))
    except OSError as error:
        reason = REASONS.get(error.errno or errno.EIO) or error.strerror or str(error)
        says = f"the peaks of {peaks.label} could not be saved in {path.parent}: {reason}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    return path


def _path_of(device: str) -> Path:
    """Return a file path with a readable name. The digest separates devices whose names become the same here."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", device)[:60].strip("-.") or "device"
    return home_folder() / "peaks" / f"{plain}-{hashlib.sha256(device.encode()).hexdigest()[:8]}.json"
