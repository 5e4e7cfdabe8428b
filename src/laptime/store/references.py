"""The float64 run of a proof is slow and always the same, so it is kept for the next race."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec
import platformdirs

from laptime.disk import remove_stale, write_atomically
from laptime.model.sample import Reference


def load_reference(key: str) -> Reference | None:
    """Give the reference that was kept under this key; an unreadable one counts as absent."""
    try:
        found = msgspec.json.decode(_path_of(key).read_bytes(), type=Reference)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.key == key else None


def save_reference(reference: Reference) -> bool:
    """Keep the reference; say whether that worked, for nothing is lost if it did not."""
    path = _path_of(reference.key)
    try:
        remove_stale(path.parent)
        write_atomically(path, msgspec.json.encode(reference))
    except OSError:
        return False
    return True


def cache_folder() -> Path:
    """Give the folder of what can be made again."""
    named = os.environ.get("LAPTIME_CACHE")
    return Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("laptime"))


def _path_of(key: str) -> Path:
    """Name the file by the key, or by its digest where the key cannot be a file's name."""
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", key)
    name = key if plain else hashlib.sha256(key.encode()).hexdigest()
    return cache_folder() / "references" / f"{name}.json"
