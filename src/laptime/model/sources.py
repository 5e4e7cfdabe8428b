"""The source files of a training: a digest per file, and which files differ between two processes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

Digests = Mapping[str, str]
"""By the file's path, relative to the folder of the user's file."""


def digest_source(data: bytes) -> str:
    """Return a digest that is short enough for a record and long enough to avoid collisions."""
    return hashlib.sha256(data).hexdigest()[:32]


def find_differing(one: Digests, other: Digests) -> tuple[str, ...]:
    """Return the files that are in both and that differ."""
    return tuple(sorted(name for name in one.keys() & other.keys() if one[name] != other[name]))
