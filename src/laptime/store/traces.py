"""Where profilers' traces are: one compressed file per lane, in a folder next to that of the records."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

from laptime.disk import remove_stale
from laptime.store.files import home_folder

LONGEST_NAME = 100


def place_trace(record_id: str, lane: str) -> Path:
    """Return the file for a lane's trace. Remove what killed children left in the folder."""
    folder = home_folder() / "traces"
    remove_stale(folder)
    return folder / f"{record_id}-{_plain(lane)}.json.gz"


def drop_all(record_id: str) -> None:
    """Remove the traces of a record that is removed."""
    with contextlib.suppress(OSError):
        for path in (home_folder() / "traces").glob(f"{record_id}-*.json.gz"):
            path.unlink()


def _plain(lane: str) -> str:
    """Return a lane's name as a file name. A digest separates names that are shortened or become the same here."""
    plain = re.sub(r"[^A-Za-z0-9=.]+", "-", lane)
    if plain == lane.replace("/", "-") and len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[:LONGEST_NAME]}-{hashlib.sha256(lane.encode()).hexdigest()[:8]}"
