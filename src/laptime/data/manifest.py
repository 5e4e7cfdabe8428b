"""The manifest of a made set, written last, and its digest of the files' names and sizes.

A set without a manifest is half-written. For the digest, each name is hashed to a number below a prime. The digest is
the number of files, the sum of these numbers, and their sum weighted by the sizes. So the difference of two digests
shows what changed. If one file was added, the difference is that file's part. If one file grew, the difference divided
by that file's number is a small number of bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from laptime.data.files import MANIFEST
from laptime.disk import read_regular

PRIME = 2**61 - 1
LARGEST_CHANGE_BYTES = 2**40
SCHEMA = 1
MOST_BYTES = 10_000
DIGEST = re.compile(r"[0-9]+-[0-9a-f]{16}-[0-9a-f]{16}")
MAKER = 4  # incremented when an item is drawn differently: older sets are then made again


@dataclass(frozen=True, slots=True)
class FilesDigest:
    count: int
    names: int
    weights: int

    def __str__(self) -> str:
        return f"{self.count}-{self.names:016x}-{self.weights:016x}"


def digest_files(files: Mapping[str, int]) -> FilesDigest:
    """Return the digest of files, given as sizes by name. Their order does not matter."""
    names = weights = 0
    for name, size in files.items():
        number = _number(name)
        names += number
        weights += number * size
    return FilesDigest(len(files), names % PRIME, weights % PRIME)


def describe_change(before: str, files: Mapping[str, int]) -> str | None:
    """Return a sentence on how the files differ from an earlier digest, or None if they do not."""
    now = digest_files(files)
    if str(now) == before:
        return None
    old = _read_digest(before)
    if old is None:
        return "its digest is of another kind"
    names, weights = (now.names - old.names) % PRIME, (now.weights - old.weights) % PRIME
    more = now.count - old.count
    if more == 0:
        return _resized(weights, files) if names == 0 else "at least one file has another name"
    if more == 1:
        added = next((name for name, size in files.items() if _is_file(name, size, names, weights)), None)
        return f"{added} was added" if added else "one file was added, and others changed"
    if more == -1:
        return _removed(-names % PRIME, -weights % PRIME)
    return f"{more:,} files were added" if more > 0 else f"{-more:,} files were removed"


def _read_digest(digest: str) -> FilesDigest | None:
    try:
        count, names, weights = digest.split("-")
        return FilesDigest(int(count), int(names, 16), int(weights, 16))
    except ValueError:
        return None


def _number(name: str) -> int:
    return 1 + int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "big") % (PRIME - 1)


def _is_file(name: str, size: int, names: int, weights: int) -> bool:
    return _number(name) == names and names * size % PRIME == weights


def _resized(weights: int, files: Mapping[str, int]) -> str:
    for name, size in files.items():
        change = weights * pow(_number(name), -1, PRIME) % PRIME
        change = change if change < PRIME // 2 else change - PRIME
        if abs(change) < LARGEST_CHANGE_BYTES and size >= change:
            return f"{name} has {size:,} bytes and had {size - change:,}"
    return "several files have another size"


def _removed(names: int, weights: int) -> str:
    size = weights * pow(names, -1, PRIME) % PRIME if names else PRIME
    return f"one file of {size:,} bytes was removed" if size < LARGEST_CHANGE_BYTES else "one file was removed"


@dataclass(frozen=True, slots=True)
class Manifest:
    workload: str
    train_items: int
    test_items: int
    bytes: int
    digest: str
    schema: int = SCHEMA
    maker: int = MAKER

    @property
    def is_ours(self) -> bool:
        """Whether this version of laptime made the set."""
        return (self.schema, self.maker) == (SCHEMA, MAKER)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Return a folder's manifest, or None if it has none, or one that is damaged or another program's."""
    try:
        read = json.loads(read_regular(folder / MANIFEST, MOST_BYTES))
        manifest = Manifest(**{field.name: read[field.name] for field in fields(Manifest)})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    words = (manifest.workload, manifest.digest)
    numbers = (manifest.train_items, manifest.test_items, manifest.bytes, manifest.schema, manifest.maker)
    sound = all(type(each) is str for each in words) and all(type(each) is int for each in numbers)
    return manifest if sound and DIGEST.fullmatch(manifest.digest) else None
