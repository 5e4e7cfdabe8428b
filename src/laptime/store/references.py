"""Saved references of proofs: a float64 run is slow and always the same, so the next race uses it again.

A proof's batches of a user's own data are kept while a question runs, and removed after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from laptime.disk import SUFFIX, cache_folder, host, read_regular, remove_stale, temporary_name, write_atomically
from laptime.model.sample import Reference

MOST_BYTES = 2**26  # of a reference, which has a few kB


def load_reference(key: str) -> Reference | None:
    """Return the reference that was saved under this key, or None if there is none that can be read."""
    try:
        found = msgspec.json.decode(read_regular(_path_of(key), MOST_BYTES), type=Reference)
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
