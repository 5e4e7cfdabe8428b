"""Where profilers' traces lie: one packed file a lane, beside the records and not among them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from laptime.disk import remove_stale
from laptime.store.files import home_folder

LONGEST_NAME = 100


def place_trace(record_id: str, lane: str) -> Path:
    """Give the file for a lane's trace; what a killed child was writing there is removed."""
    folder = home_folder() / "traces"
    remove_stale(folder)
    return folder / f"{record_id}-{_plain(lane)}.json.gz"


def _plain(lane: str) -> str:
    """Write a lane as a file may be called; the digest tells those apart that are cut, or spelt alike by then."""
    plain = re.sub(r"[^A-Za-z0-9=.]+", "-", lane)
    if plain == lane.replace("/", "-") and len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[:LONGEST_NAME]}-{hashlib.sha256(lane.encode()).hexdigest()[:8]}"
